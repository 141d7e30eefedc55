#include "endpoint/spending.h"

#include <gtest/gtest.h>

namespace kvphase::endpoint {
namespace {

CompletionRequest prompt_of(std::int64_t tokens) {
  return {.tokens = std::vector<lm::TokenId>(static_cast<std::size_t>(tokens), 1),
          .max_tokens = 10};
}

Reply reply_with(std::int64_t prompt, std::int64_t cached, std::int64_t completion) {
  Reply reply;
  reply.usage = {.prompt_tokens = prompt, .completion_tokens = completion, .cached_tokens = cached};
  return reply;
}

TEST(Spending, CountsWhatTheServerSaysAndPricesCachedTokensApart) {
  Spending spending({}, {.in = 2, .cached = 0.5, .out = 8});
  spending.settle(*spending.admit(prompt_of(100)), reply_with(110, 60, 3));
  EXPECT_EQ(spending.spent(), (Spent{1, 110, 60, 3}));
  EXPECT_DOUBLE_EQ(spending.cost(), (50 * 2 + 60 * 0.5 + 3 * 8) / 1e6);
}

TEST(Spending, CountsAFailedAttemptAndItsTokensOnlyWhereTheServerMayHaveWorked) {
  Spending spending({}, {});
  Reply refused;
  refused.outcome = Outcome::kRateLimited;
  spending.settle(*spending.admit(prompt_of(100)), refused);
  EXPECT_EQ(spending.spent(), (Spent{1, 0, 0, 0}));
  Reply timed_out;
  timed_out.outcome = Outcome::kTimeout;
  spending.settle(*spending.admit(prompt_of(100)), timed_out);
  EXPECT_EQ(spending.spent(), (Spent{2, 100, 0, 10}));
}

TEST(Spending, NeverAdmitsARequestThatCouldBreakACapAlsoWithOthersUnderWay) {
  Spending spending({.tokens = 250}, {});
  const auto first = spending.admit(prompt_of(100));
  const auto second = spending.admit(prompt_of(100));
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(spending.admit(prompt_of(100)));
  EXPECT_EQ(spending.refused_because(), "330 tokens, --max-tokens 250");
  spending.settle(*first, reply_with(100, 0, 1));
  EXPECT_TRUE(spending.admit(prompt_of(10))) << spending.spent().tokens();

  Spending few({.requests = 2}, {});
  EXPECT_TRUE(few.admit(prompt_of(1)) && few.admit(prompt_of(1)));
  EXPECT_FALSE(few.admit(prompt_of(1)));

  Spending cheap({.cost = 0.001}, {.in = 10, .out = 0});
  EXPECT_TRUE(cheap.admit(prompt_of(100)));
  EXPECT_FALSE(cheap.admit(prompt_of(1)));
  EXPECT_NE(cheap.refused_because(), "");
}

}  // namespace
}  // namespace kvphase::endpoint
