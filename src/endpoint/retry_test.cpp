#include "endpoint/retry.h"

#include <gtest/gtest.h>

#include "endpoint/errors.h"
#include "endpoint/limiter.h"

namespace kvphase::endpoint {
namespace {

Reply failed(Outcome outcome, std::optional<double> retry_after = std::nullopt) {
  Reply reply;
  reply.outcome = outcome;
  reply.retry_after = retry_after;
  return reply;
}

TEST(Retry, DoublesItsWaitsUpToALimitAndEnds) {
  base::Random random(1);
  const RetryPolicy policy{.attempts = 10, .first_wait = 1, .longest_wait = 20};
  double expected = 1;
  for (int attempt = 1; attempt < 10; ++attempt) {
    const auto decision = decide_retry(policy, failed(Outcome::kOverloaded), attempt, random);
    ASSERT_TRUE(decision.retry);
    EXPECT_GE(decision.wait, expected / 2);
    EXPECT_LT(decision.wait, expected);
    expected = std::min(20.0, expected * 2);
  }
  EXPECT_FALSE(decide_retry(policy, failed(Outcome::kOverloaded), 10, random).retry);
}

TEST(Retry, NeverWaitsLessThanTheServerAsksAndGivesUpOnHours) {
  base::Random random(2);
  for (int i = 0; i < 100; ++i) {
    const auto decision = decide_retry({}, failed(Outcome::kRateLimited, 20), 1, random);
    EXPECT_GE(decision.wait, 20);
    EXPECT_LE(decision.wait, 22);
    EXPECT_GT(decide_retry({}, failed(Outcome::kRateLimited, 0), 1, random).wait, 0);
  }
  EXPECT_FALSE(decide_retry({}, failed(Outcome::kRateLimited, 7200), 1, random).retry);
}

TEST(Retry, NeverAsksAgainWhenTheModelSpokeOrTheRequestIsAtFault) {
  base::Random random(3);
  for (const Outcome outcome :
       {Outcome::kOk, Outcome::kEmpty, Outcome::kReasoningOnly, Outcome::kTruncated,
        Outcome::kErrorText, Outcome::kRefused, Outcome::kPromptTruncated, Outcome::kPromptGrown,
        Outcome::kOverContext, Outcome::kAuth, Outcome::kNoBalance, Outcome::kNotFound,
        Outcome::kBadRequest, Outcome::kBodyTooLarge, Outcome::kTlsFailed, Outcome::kStopped}) {
    EXPECT_FALSE(decide_retry({}, failed(outcome, 1), 1, random).retry) << name_of(outcome);
  }
  EXPECT_TRUE(decide_retry({}, failed(Outcome::kTimeout), 1, random).retry);
  EXPECT_FALSE(decide_retry({}, failed(Outcome::kTimeout), 2, random).retry);
}

TEST(RetryAfter, Row14ReadsSecondsAndDates) {
  const auto read = [](std::vector<std::pair<std::string, std::string>> headers) {
    HttpResponse response;
    response.headers = std::move(headers);
    return read_retry_after(response, 784111777 - 30);
  };
  EXPECT_EQ(read({{"retry-after", "20"}}), 20);
  EXPECT_EQ(read({{"retry-after", "1.5"}}), 1.5);
  EXPECT_EQ(read({{"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"}}), 30);
  EXPECT_EQ(read({{"retry-after", "Sat, 05 Nov 1994 08:49:37 GMT"}}), 0) << "in the past";
  EXPECT_EQ(read({{"retry-after", "soon"}}), std::nullopt);
  EXPECT_EQ(read({{"x-ratelimit-reset-requests", "1s"}, {"x-ratelimit-reset-tokens", "6m30s"}}),
            390);
  EXPECT_EQ(read({{"x-ratelimit-remaining-requests", "0"},
                  {"x-ratelimit-reset-requests", "120ms"},
                  {"x-ratelimit-remaining-tokens", "5000"},
                  {"x-ratelimit-reset-tokens", "1h"}}),
            0.12)
      << "only what is used up counts";
  EXPECT_EQ(read({}), std::nullopt);
}

TEST(RetryAfter, RefusesWhatIsNoDurationOrDate) {
  EXPECT_EQ(parse_duration("1h2m3.5s"), 3723.5);
  for (const std::string text : {"", "-1", "1x", "1m30", "s", "nan", "inf", "1e400", "0x10"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
  for (const std::string text :
       {"", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Xyz 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT ", "Sun, 99 Nov 1994 08:49:37 GMT"}) {
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
  }
}

TEST(Limiter, GrowsByOneForEachRoundAndHalvesOnceForEachPushBack) {
  AimdWindow window(8, 16);
  EXPECT_EQ(window.limit(), 8);
  std::vector<std::int64_t> round;
  for (int i = 0; i < 8; ++i) round.push_back(window.begin());
  for (const auto ticket : round) window.push_back(ticket);
  EXPECT_EQ(window.limit(), 4) << "one push-back of eight requests at once halves once";
  for (int i = 0; i < 5; ++i) window.succeed(window.begin());
  EXPECT_EQ(window.limit(), 5);
  for (int i = 0; i < 1000; ++i) window.succeed(window.begin());
  EXPECT_EQ(window.limit(), 16) << "never above the most";
  for (int i = 0; i < 10; ++i) window.push_back(window.begin());
  EXPECT_EQ(window.limit(), 1) << "never below one";
}

TEST(Limiter, AClosedGateLetsNobodyWaitForEver) {
  bool stopped = false;
  Gate gate(1, 1, [&] { return stopped; });
  const auto ticket = gate.enter();
  EXPECT_EQ(ticket, 0);
  stopped = true;
  EXPECT_EQ(gate.enter(), -1);
  gate.leave(ticket, AttemptEnd::kSuccess);
  EXPECT_EQ(gate.enter(), -1);
}

}  // namespace
}  // namespace kvphase::endpoint
