#include "endpoint/spending.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvphase::endpoint {
namespace {

// Whether the server may have worked, and be paid, for an attempt without a usage.
bool may_be_billed(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNoConnection:
    case Outcome::kTlsFailed:
    case Outcome::kRedirect:
    case Outcome::kBadRequest:
    case Outcome::kOverContext:
    case Outcome::kBodyTooLarge:
    case Outcome::kAuth:
    case Outcome::kNoBalance:
    case Outcome::kNotFound:
    case Outcome::kRateLimited:
    case Outcome::kOverloaded:
      return false;
    default:
      return true;
  }
}

}  // namespace

Spent operator+(const Spent& a, const Spent& b) {
  return {.requests = a.requests + b.requests,
          .prompt_tokens = a.prompt_tokens + b.prompt_tokens,
          .cached_tokens = a.cached_tokens + b.cached_tokens,
          .completion_tokens = a.completion_tokens + b.completion_tokens};
}

double cost_of(const Spent& spent, const Prices& prices) {
  const auto anew = static_cast<double>(spent.prompt_tokens - spent.cached_tokens);
  return (anew * prices.in + static_cast<double>(spent.cached_tokens) * prices.cached +
          static_cast<double>(spent.completion_tokens) * prices.out) /
         1e6;
}

std::string broken_cap(const Spent& spent, const Prices& prices, const Caps& caps) {
  if (caps.requests && spent.requests > *caps.requests) {
    return fmt::format("{} requests, --max-requests {}", spent.requests, *caps.requests);
  }
  if (caps.tokens && spent.tokens() > *caps.tokens) {
    return fmt::format("{} tokens, --max-tokens {}", spent.tokens(), *caps.tokens);
  }
  if (caps.cost && cost_of(spent, prices) > *caps.cost) {
    return fmt::format("{:.4g} of cost, --max-cost {:g}", cost_of(spent, prices), *caps.cost);
  }
  return "";
}

Spent most_of(const CompletionRequest& request) {
  Spent most{.requests = 1, .completion_tokens = request.max_tokens};
  if (request.expected_prompt_tokens) {
    most.prompt_tokens = *request.expected_prompt_tokens;
  } else if (!request.tokens.empty()) {
    most.prompt_tokens = static_cast<std::int64_t>(request.tokens.size());
  } else {
    // English text has about four characters to a token, code and digits two to three.
    std::size_t bytes = request.text.size();
    for (const ChatMessage& message : request.messages) bytes += message.content.size();
    most.prompt_tokens = static_cast<std::int64_t>(bytes / 2 + 1);
  }
  return most;
}

std::optional<std::int64_t> Spending::admit(const CompletionRequest& request) {
  const Spent most = most_of(request);
  const std::lock_guard lock(mutex_);
  Spent all = settled_ + most;
  for (const auto& [ticket, spent] : under_way_) all = all + spent;
  if (std::string broken = broken_cap(all, prices_, caps_); !broken.empty()) {
    if (refused_.empty()) refused_ = std::move(broken);
    return std::nullopt;
  }
  under_way_.emplace(next_ticket_, most);
  return next_ticket_++;
}

void Spending::settle(std::int64_t ticket, const Reply& reply) {
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(ticket);
  if (found == under_way_.end()) return;
  Spent spent{.requests = 1};
  if (reply.usage.prompt_tokens) {
    spent.prompt_tokens = *reply.usage.prompt_tokens;
    spent.cached_tokens = std::min(reply.usage.cached_tokens.value_or(0), spent.prompt_tokens);
  } else if (may_be_billed(reply.outcome)) {
    spent.prompt_tokens = found->second.prompt_tokens;
  }
  if (reply.usage.completion_tokens) {
    spent.completion_tokens = *reply.usage.completion_tokens;
  } else if (may_be_billed(reply.outcome)) {
    spent.completion_tokens = found->second.completion_tokens;
  }
  under_way_.erase(found);
  settled_ = settled_ + spent;
}

Spent Spending::spent() const {
  const std::lock_guard lock(mutex_);
  Spent all = settled_;
  for (const auto& [ticket, spent] : under_way_) all = all + spent;
  return all;
}

double Spending::cost() const { return cost_of(spent(), prices_); }

std::string Spending::refused_because() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace kvphase::endpoint
