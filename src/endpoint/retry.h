// Which failures are asked again, and after how long. Pure: no clock, no sleeping.
// A reply in which the model spoke is never asked again, right or wrong, empty or cut: choosing
// among answers would bias the sample. Only failures to get one are.
#pragma once

#include "base/random.h"
#include "endpoint/reply.h"

namespace kvphase::endpoint {

struct RetryPolicy {
  int attempts = 7;                 // in all, the first included; more survive longer outages
  int unclear_attempts = 2;         // likewise, of failures that a second try rarely cures
  double first_wait = 1;            // seconds; doubled each time: 7 attempts span about a minute
  double longest_wait = 60;         // seconds, of one wait chosen by us
  double longest_asked_wait = 900;  // seconds; a server that asks for more is given up on
};

struct RetryDecision {
  bool retry = false;
  double wait = 0;  // seconds before the next attempt
};

// `attempt` counts from 1. Without Retry-After the wait is exponential, times uniform [0.5, 1);
// with it, what was asked plus up to a tenth: never less.
RetryDecision decide_retry(const RetryPolicy& policy, const Reply& reply, int attempt,
                           base::Random& random);

}  // namespace kvphase::endpoint
