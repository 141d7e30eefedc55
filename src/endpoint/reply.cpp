#include "endpoint/reply.h"

#include <algorithm>
#include <cctype>

namespace kvphase::endpoint {

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kNoConnection:
      return "no_connection";
    case Outcome::kTlsFailed:
      return "tls_failed";
    case Outcome::kTimeout:
      return "timeout";
    case Outcome::kDisconnected:
      return "disconnected";
    case Outcome::kTooLarge:
      return "reply_too_large";
    case Outcome::kRedirect:
      return "redirect_refused";
    case Outcome::kStopped:
      return "stopped";
    case Outcome::kBadRequest:
      return "bad_request";
    case Outcome::kOverContext:
      return "over_context";
    case Outcome::kBodyTooLarge:
      return "request_too_large";
    case Outcome::kAuth:
      return "not_authorized";
    case Outcome::kNoBalance:
      return "no_balance";
    case Outcome::kNotFound:
      return "not_found";
    case Outcome::kRateLimited:
      return "rate_limited";
    case Outcome::kOverloaded:
      return "overloaded";
    case Outcome::kGatewayTimeout:
      return "gateway_timeout";
    case Outcome::kServerError:
      return "server_error";
    case Outcome::kOtherStatus:
      return "unexpected_status";
    case Outcome::kErrorInside:
      return "error_inside";
    case Outcome::kInvalidBody:
      return "invalid_body";
    case Outcome::kStreamCut:
      return "stream_cut";
    case Outcome::kErrorText:
      return "error_text";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kReasoningOnly:
      return "reasoning_only";
    case Outcome::kEmpty:
      return "empty";
    case Outcome::kTruncated:
      return "truncated";
    case Outcome::kPromptTruncated:
      return "prompt_truncated";
    case Outcome::kPromptGrown:
      return "prompt_grown";
  }
  return "unknown";
}

bool server_failed(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNoConnection:
    case Outcome::kTlsFailed:
    case Outcome::kTimeout:
    case Outcome::kDisconnected:
    case Outcome::kRedirect:
    case Outcome::kBadRequest:
    case Outcome::kAuth:
    case Outcome::kNoBalance:
    case Outcome::kNotFound:
    case Outcome::kRateLimited:
    case Outcome::kOverloaded:
    case Outcome::kGatewayTimeout:
    case Outcome::kServerError:
    case Outcome::kOtherStatus:
    case Outcome::kErrorInside:
    case Outcome::kInvalidBody:
    case Outcome::kStreamCut:
      return true;
    default:
      return false;
  }
}

bool may_ask_again(std::string_view outcome_name) {
  for (int i = 0; i <= static_cast<int>(Outcome::kPromptGrown); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (name_of(outcome) != outcome_name) continue;
    switch (outcome) {
      case Outcome::kOk:
      case Outcome::kErrorText:
      case Outcome::kRefused:
      case Outcome::kReasoningOnly:
      case Outcome::kEmpty:
      case Outcome::kTruncated:
        return false;
      default:
        return true;
    }
  }
  return false;
}

void ErrorLog::add(const Reply& reply) {
  if (reply.answered()) return;
  std::string kind = std::string(name_of(reply.outcome)) + "/" + std::to_string(reply.status) + "/";
  for (const char c : reply.detail) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  const std::lock_guard lock(mutex_);
  const auto [entry, added] = entries_.try_emplace(kind, Entry{.outcome = reply.outcome,
                                                               .status = reply.status,
                                                               .first_detail = reply.detail,
                                                               .count = 0});
  ++entry->second.count;
}

std::vector<ErrorLog::Entry> ErrorLog::entries() const {
  std::vector<Entry> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [kind, entry] : entries_) all.push_back(entry);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& a, const Entry& b) { return a.count > b.count; });
  return all;
}

}  // namespace kvphase::endpoint
