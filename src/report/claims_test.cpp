#include "report/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvphase::report {
namespace {

using record::Claim;
using record::ClaimOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Claim example() {
  Claim claim{.name = "period",
              .text = "it repeats",
              .test = "a < b | c",
              .parts = {{.name = "x<y, seed 1", .finding = "a|b", .outcome = ClaimOutcome::kHolds},
                        {.name = "z", .finding = "none", .outcome = ClaimOutcome::kFails}}};
  record::conclude(claim);
  return claim;
}

TEST(ClaimsReport, IsEmptyWithoutRuns) {
  Claim none{.name = "period"};
  record::conclude(none);
  EXPECT_THAT(claims_markdown({&none, 1}), IsEmpty());
  EXPECT_THAT(claims_html({&none, 1}), IsEmpty());
}

TEST(ClaimsReport, CountsThePartsAndKeepsForeignTextInItsCell) {
  const Claim claim = example();
  const std::string text = claims_markdown({&claim, 1});
  EXPECT_THAT(text, HasSubstr("| **period**: it repeats | mixed | holds in 1 of 2, fails in 1 |"));
  EXPECT_THAT(text, HasSubstr("| x<y, seed 1 | a\\|b | holds |"));
  const std::string html = claims_html({&claim, 1});
  EXPECT_THAT(html, HasSubstr("x&lt;y, seed 1"));
  EXPECT_THAT(html, Not(HasSubstr("x<y")));
  EXPECT_THAT(html, HasSubstr("mixed"));
}

}  // namespace
}  // namespace kvphase::report
