#include "endpoint/retry.h"

#include <algorithm>
#include <cmath>

namespace kvphase::endpoint {
namespace {

enum class Cure { kNone, kUnlikely, kLikely };

Cure cure_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNoConnection:
    case Outcome::kDisconnected:
    case Outcome::kRateLimited:
    case Outcome::kOverloaded:
    case Outcome::kGatewayTimeout:
    case Outcome::kStreamCut:
      return Cure::kLikely;
    case Outcome::kServerError:
    case Outcome::kTimeout:
    case Outcome::kErrorInside:
    case Outcome::kInvalidBody:
      return Cure::kUnlikely;
    case Outcome::kOk:
    case Outcome::kTlsFailed:
    case Outcome::kTooLarge:
    case Outcome::kRedirect:
    case Outcome::kStopped:
    case Outcome::kBadRequest:
    case Outcome::kOverContext:
    case Outcome::kBodyTooLarge:
    case Outcome::kAuth:
    case Outcome::kNoBalance:
    case Outcome::kNotFound:
    case Outcome::kOtherStatus:
    case Outcome::kErrorText:
    case Outcome::kRefused:
    case Outcome::kReasoningOnly:
    case Outcome::kEmpty:
    case Outcome::kTruncated:
    case Outcome::kPromptTruncated:
    case Outcome::kPromptGrown:
      return Cure::kNone;
  }
  return Cure::kNone;
}

}  // namespace

RetryDecision decide_retry(const RetryPolicy& policy, const Reply& reply, int attempt,
                           base::Random& random) {
  const Cure cure = cure_of(reply.outcome);
  const int limit = cure == Cure::kLikely     ? policy.attempts
                    : cure == Cure::kUnlikely ? std::min(policy.attempts, policy.unclear_attempts)
                                              : 1;
  if (attempt >= limit) return {};
  if (reply.retry_after) {
    if (*reply.retry_after > policy.longest_asked_wait) return {};
    return {.retry = true,
            .wait = *reply.retry_after + random.uniform() * std::max(0.1, *reply.retry_after / 10)};
  }
  const double wait =
      std::min(policy.longest_wait, policy.first_wait * std::exp2(std::min(attempt - 1, 30)));
  return {.retry = true, .wait = wait * (0.5 + 0.5 * random.uniform())};
}

}  // namespace kvphase::endpoint
