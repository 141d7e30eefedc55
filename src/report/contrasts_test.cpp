#include "report/contrasts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/terminal.h"
#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

record::Result example() {
  record::Result result = test::example_result();
  result.contrasts = test::example_contrasts();
  return result;
}

TEST(Contrasts, ThePageSaysWhatWasUsedAndEveryNumber) {
  const std::string html = contrasts_html(example());
  for (const char* text :
       {"<h2>Comparing phases</h2>", "paired items", "67.0% \u00b1 1.5 points [64.0 to 70.0%]",
        "98.2 (3 df), p &lt; 0.0001, resampled p = 0.0001", "47 of 48 items answer differently",
        "2 miss a phase and are left out", "33.6 points", "shrinkage 0.98", "minus phase 3",
        "60.0 points", "[50.0 to 70.0 points]", "<td>31 : 1</td>", "<td>0.0004</td>",
        "<td>0.002</td>", "no item has both groups", "the worst", "McNemar and Holm over all pairs",
        "Items are taken as independent."}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(contrasts_html(test::example_result()), testing::IsEmpty());
}

TEST(Contrasts, WhatIsUndefinedSaysWhyAndShowsNoNumber) {
  record::Result result = example();
  result.contrasts = record::Contrasts{.data = "counts", .groups = "residue", .modulus = 24};
  result.contrasts->mean.reason = "no observations";
  result.contrasts->test.reason = "all replies are alike";
  result.contrasts->spread.reason = "nothing varies inside groups";
  result.contrasts->pairs_reason = "there is no worst group";
  result.folded.reset();
  const std::string html = contrasts_html(result);
  for (const char* text :
       {"undefined (no observations)", "undefined (all replies are alike)",
        "undefined (nothing varies inside groups)", "No pairs: there is no worst group.",
        "<summary>Every residue against the worst</summary>"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST(Contrasts, TheTerminalShowsThemOnRequestOnly) {
  EXPECT_EQ(terminal_report(example()), terminal_report(test::example_result()));
  const std::string text =
      terminal_report(example(), {.width = 200, .unicode = false, .details = true});
  for (const char* line :
       {"Comparing phases\n", "mean     67.0% +- 1.5 points", "spread   33.6 points",
        "phase 0  60.0 points over phase 3 [50.0 to 70.0 points], 31 items right only here, 1 only "
        "there, p = 0.0004, Holm p = 0.002\n",
        "phase 1  undefined over phase 3 (no item has both groups), no p-value"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const char c : text) ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << text;
}

TEST(Contrasts, TextFromOutsideNeverBecomesMarkup) {
  record::Result result = example();
  const std::string evil = "<script>alert(1)</script>";
  result.contrasts->groups = result.contrasts->limits = result.contrasts->pairs_method = evil;
  result.contrasts->test.method = result.contrasts->mean.reason = evil;
  EXPECT_THAT(contrasts_html(result), Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace kvphase::report
