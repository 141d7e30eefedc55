#include "endpoint/endpoint_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "base/stop.h"

namespace kvphase::endpoint {
namespace {

// The model spoke a token, even when its text is empty or looks odd: an end-of-text token answers
// nothing, and that is an answer.
bool spoke(const Reply& reply) {
  switch (reply.outcome) {
    case Outcome::kOk:
    case Outcome::kEmpty:
    case Outcome::kReasoningOnly:
    case Outcome::kErrorText:
      return reply.first.has_value() || !reply.generated_ids.empty() ||
             reply.outcome == Outcome::kOk;
    default:
      return false;
  }
}

std::optional<lm::TokenId> spoken_id(const Reply& reply) {
  if (!reply.generated_ids.empty()) return reply.generated_ids.front();
  if (reply.first && reply.first->id) return reply.first->id;
  return std::nullopt;
}

}  // namespace

EndpointModel::EndpointModel(std::shared_ptr<Client> client, EndpointModelOptions options)
    : client_(std::move(client)), options_(options) {
  const Capabilities can = client_->api().capabilities();
  if (!can.token_prompts) {
    throw base::usage_error(
        "endpoint",
        "expected a server that takes token-id prompts (kvphase serve, vLLM, SGLang, "
        "llama.cpp), got {}",
        name_of(client_->info().kind));
  }
  options_.top_logprobs = std::min(options_.top_logprobs, can.max_top_logprobs);
}

lm::ModelIdentity EndpointModel::identity() const {
  const ServerInfo& info = client_->info();
  return {.name = info.model,
          .kind = "endpoint",
          .sha256 = "",
          .config = {{"server", name_of(info.kind)},
                     {"server_version", info.version},
                     {"address", info.address},
                     {"model", info.model},
                     {"context_length", info.context_length}}};
}

lm::ModelTraits EndpointModel::traits() const {
  return {.context_length = client_->info().context_length};
}

std::vector<lm::TokenId> EndpointModel::tokenize(std::string_view text) {
  std::string why;
  auto tokens = client_->tokenize(text, false, why);
  if (!tokens) throw base::environment_error("endpoint", "expected token ids, got: {}", why);
  return *tokens;
}

std::string EndpointModel::detokenize(std::span<const lm::TokenId> tokens) {
  std::string why;
  auto text = client_->detokenize(tokens, why);
  if (!text) throw base::environment_error("endpoint", "expected text of tokens, got: {}", why);
  return *text;
}

CompletionRequest EndpointModel::make_request(const std::vector<lm::TokenId>& prompt,
                                              std::int64_t top) const {
  return {.tokens = prompt,
          .max_tokens = 1,
          .temperature = 0,
          .top_logprobs = top,
          // Brings the generated token's id too, at the cost of the prompt's: for when no
          // log-probability names it.
          .return_prompt_ids = top == 0,
          .cold = options_.cold,
          .expected_prompt_tokens = static_cast<std::int64_t>(prompt.size()) + options_.overhead};
}

bool EndpointModel::is_token(const TopToken& token, lm::TokenId id) {
  if (token.id) return *token.id == id;
  if (!token.text_is_exact) return false;
  auto found = texts_.find(id);
  if (found == texts_.end()) {
    std::string why;
    const std::vector<lm::TokenId> one{id};
    found = texts_.emplace(id, client_->detokenize(one, why).value_or("")).first;
  }
  return !found->second.empty() && found->second == token.text;
}

lm::ScoreReply EndpointModel::score(const Reply& reply, lm::TokenId target) {
  lm::ScoreReply score{.top = -1};
  if (!spoke(reply)) {
    score.missing = name_of(reply.outcome);
    return score;
  }
  if (const auto id = spoken_id(reply)) {
    score.top = *id;
  } else {
    const TopToken said{.text = reply.first ? reply.first->text : reply.text,
                        .text_is_exact = reply.first ? reply.first->text_is_exact : true};
    if (is_token(said, target)) {
      score.top = target;
    } else {
      score.answer_text = reply.text;
    }
  }
  if (!reply.first) return score;
  std::optional<double> best_other;
  for (const TopToken& token : reply.first->top) {
    if (is_token(token, target)) {
      score.target_logprob = token.logprob;
    } else {
      best_other = std::max(best_other.value_or(token.logprob), token.logprob);
    }
  }
  if (!score.target_logprob && score.top == target) score.target_logprob = reply.first->logprob;
  // The likeliest token counts, the smallest id of equals, whatever was picked among equals.
  const std::vector<TopToken>& top = reply.first->top;
  if (!top.empty() && top.front().id) {
    lm::TokenId best = *top.front().id;
    for (const TopToken& token : top) {
      if (token.id && token.logprob == top.front().logprob) best = std::min(best, *token.id);
    }
    score.top = best;
  }
  if (score.target_logprob && best_other) score.margin = *score.target_logprob - *best_other;
  return score;
}

void EndpointModel::count(const Reply& reply) {
  const std::lock_guard lock(mutex_);
  ++totals_.replies;
  totals_.attempts += reply.attempts;
  if (!spoke(reply)) ++totals_.missing;
  totals_.prompt_tokens += reply.usage.prompt_tokens.value_or(0);
  totals_.cached_tokens += reply.usage.cached_tokens.value_or(0);
  if (reply.usage.cached_tokens.value_or(0) > 0) ++totals_.warm_replies;
}

EndpointTotals EndpointModel::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<lm::ScoreReply> EndpointModel::score_next(std::span<const lm::ScoreRequest> requests) {
  std::vector<CompletionRequest> asked;
  asked.reserve(requests.size());
  for (const lm::ScoreRequest& request : requests) {
    asked.push_back(make_request(request.prompt, options_.top_logprobs));
  }
  const std::vector<Reply> replies =
      client_->complete_all(asked, [this](std::size_t, const Reply& reply) { count(reply); });
  // What the user's stop cut off is not missing, it was not asked: the caller resumes there.
  if (base::stop_requested() && std::any_of(replies.begin(), replies.end(), [](const Reply& reply) {
        return reply.outcome == Outcome::kStopped;
      })) {
    throw base::Error(base::ErrorKind::kInterrupted, "endpoint",
                      "stopped before all replies came; resume to go on");
  }
  std::vector<lm::ScoreReply> scores;
  scores.reserve(replies.size());
  for (std::size_t i = 0; i < replies.size(); ++i) {
    scores.push_back(score(replies[i], requests[i].target));
  }
  return scores;
}

void EndpointModel::generate(const lm::GenerateRequest& request,
                             const std::function<bool(const lm::GeneratedToken&)>& on_token) {
  std::vector<lm::TokenId> prompt = request.prompt;
  for (std::int64_t step = 0; step < request.max_tokens; ++step) {
    CompletionRequest asked = make_request(prompt, std::max<std::int64_t>(1, request.top_logprobs));
    asked.temperature = request.temperature;
    asked.seed = base::derive_seed(request.seed, "generate", {static_cast<std::uint64_t>(step)});
    const Reply reply = client_->complete(asked);
    if (reply.outcome == Outcome::kOverContext && step > 0) return;
    count(reply);
    const auto id = spoke(reply) ? spoken_id(reply) : std::nullopt;
    if (!id || !reply.first || !reply.first->logprob) {
      throw base::environment_error("endpoint",
                                    "expected a token with its log-probability, got: {} {}",
                                    name_of(reply.outcome), reply.detail);
    }
    lm::GeneratedToken token{.token = *id, .logprob = *reply.first->logprob};
    for (const TopToken& rival : reply.first->top) {
      if (rival.id && static_cast<std::int64_t>(token.top.size()) < request.top_logprobs) {
        token.top.push_back({.token = *rival.id, .logprob = rival.logprob});
      }
    }
    if (!on_token(token) || reply.finish_reason == "stop") return;
    prompt.push_back(*id);
  }
}

}  // namespace kvphase::endpoint
