#include "report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ComparisonText, ShowsEveryResidueTheNoiseAndWhatIsUndefined) {
  record::Comparison c{
      .name_a = "http://a\x1b[31m", .name_b = "http://b", .modulus = 2, .planned = 20};
  c.all = {.n = 15, .correct_a = 15, .correct_b = 8, .flips = 7, .variation = 0.25};
  c.noise = record::ComparedGroup{.n = 20, .correct_a = 20, .correct_b = 20};
  c.missing_b = 5;
  c.p_correct = 0.0005;
  c.residues = {{.index = 0, .n = 15, .correct_a = 15, .correct_b = 8, .flips = 7}, {.index = 1}};
  const std::string text = comparison_text(c);
  EXPECT_THAT(text,
              HasSubstr("       0       15   100.0%    53.3%     46.7%        -  ██████████"));
  EXPECT_THAT(text, HasSubstr("       1        0        -        -         -        -\n"));
  EXPECT_THAT(text, HasSubstr(" A twice       20"));
  EXPECT_THAT(text, HasSubstr("0.250"));
  EXPECT_THAT(text, HasSubstr("missing replies: 0 of A, 5 of B, of 20 prompts each"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("starts at no length"))) << "not tested, not shown";
}

}  // namespace
}  // namespace kvphase::report
