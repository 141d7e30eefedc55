#include "report/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/example_result.h"
#include "tests/support/golden.h"

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Terminal, LooksLikeTheGoldenFiles) {
  const std::string periodic = terminal_report(test::example_result());
  EXPECT_EQ(periodic, test::golden("terminal_periodic.txt", periodic));
  const std::string flat = terminal_report(test::example_control());
  EXPECT_EQ(flat, test::golden("terminal_flat.txt", flat));
  record::Result unfolded = test::example_control();
  unfolded.folded.reset();
  unfolded.context.warnings = {"20 prompts got no reply; the curve is over the other 1,180"};
  const std::string ascii = terminal_report(unfolded, {.width = 60, .unicode = false});
  EXPECT_EQ(ascii, test::golden("terminal_ascii.txt", ascii));
  record::Result required = test::example_result();
  required.requirements = test::example_requirements();
  required.sequential = test::example_sequential();
  required.period = {.reason = "no search and no p-value: the audit stopped early"};
  const std::string gate = terminal_report(required);
  EXPECT_EQ(gate, test::golden("terminal_requirements.txt", gate));
  const std::string color = terminal_report(test::example_result(), {.color = true});
  EXPECT_EQ(color, test::golden("terminal_color.txt", color));
}

TEST(Terminal, StartsWithTheVerdictSentence) {
  EXPECT_THAT(terminal_report(test::example_result()),
              StartsWith("Accuracy depends on position modulo 4"));
}

TEST(Terminal, DoesNotBreakALineInsideANumberAndItsUnit) {
  const record::Result result = test::example_result();
  for (int width = 60; width < 100; ++width) {
    const std::string text = terminal_report(result, {.width = width});
    EXPECT_THAT(text, HasSubstr("5.6 points")) << width;
    EXPECT_THAT(text, HasSubstr("p = 0.001;")) << width;
  }
}

TEST(Terminal, StaysInsideItsWidth) {
  for (const int width : {60, 80, 132}) {
    std::istringstream lines(
        terminal_report(test::example_result(), {.width = width, .unicode = false}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << width << ": " << line;
    }
  }
}

TEST(Terminal, AsciiReportsHoldNoOtherBytes) {
  for (const char c : terminal_report(test::example_result(), {.unicode = false})) {
    ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << static_cast<int>(c);
  }
}

TEST(Terminal, AnEmptyResultSaysWhatIsUndefined) {
  record::Result empty;
  empty.mean.reason = "no prompt was scored";
  const std::string text = terminal_report(empty);
  EXPECT_THAT(text, StartsWith("Inconclusive"));
  EXPECT_THAT(text, HasSubstr("undefined: no prompt was scored"));
  EXPECT_THAT(text, HasSubstr("No residues"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("0.0%")));
}

TEST(Terminal, AResidueWithoutRepliesHasNoBar) {
  record::Result result = test::example_control();
  result.folded.reset();
  result.residues = {{.index = 0, .planned = 5}, result.residues[1]};
  const std::string text = terminal_report(result);
  EXPECT_THAT(text, HasSubstr("0   0  undefined\n")) << text;
}

TEST(Terminal, AContinuousScoreIsDrawnOverItsOwnRange) {
  record::Result result = test::example_result();
  result.score = "margin";
  for (std::size_t i = 0; i < 4; ++i) {
    record::Group& g = result.folded->phases[i];
    g.accuracy = -2.0 + static_cast<double>(i);
    g.low = g.high = std::nullopt;
  }
  const std::string text = terminal_report(result);
  EXPECT_THAT(text, HasSubstr("margin"));
  EXPECT_THAT(text, HasSubstr("-2.000"));
  EXPECT_THAT(text, Not(HasSubstr("%  █")));
}

TEST(Terminal, EscapesFromOutsideDoNotReachTheTerminal) {
  record::Result result = test::example_result();
  result.title = "evil \x1b[2J model";
  result.verdict.sentence = "a\x1b]0;title\x07 b";
  result.context.warnings = {"w\rx"};
  EXPECT_THAT(terminal_report(result), Not(HasSubstr("\x1b")));
  EXPECT_THAT(terminal_report(result), Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace kvphase::report
