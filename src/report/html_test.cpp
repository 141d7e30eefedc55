#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "report/assets.h"
#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The page without the libraries.
std::string words_of(const std::string& html) { return html.substr(0, html.find("</main>")); }

bool has_word(std::string text, const std::string& word) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto letter = [&](std::size_t i) {
    return i < text.size() && std::isalpha(static_cast<unsigned char>(text[i]));
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && letter(at - 1)) && !letter(at + word.size())) return true;
  }
  return false;
}

TEST(Html, TheVerdictComesFirst) {
  const std::string html = words_of(html_report(test::example_result(), test::example_control()));
  const std::size_t verdict = html.find("<h1>Accuracy depends on position modulo 4");
  ASSERT_NE(verdict, std::string::npos);
  std::size_t before = verdict;
  for (const char* next : {"Key numbers", "<h2>Figures", "Position check", "Missing replies",
                           "How to read this", "What the numbers do not say", "What ran"}) {
    const std::size_t at = html.find(next);
    ASSERT_NE(at, std::string::npos) << next;
    EXPECT_GT(at, before) << next;
    before = at;
  }
}

TEST(Html, HoldsTheNumbersTheRecordHolds) {
  const std::string html = words_of(html_report(test::example_result(), test::example_control()));
  for (const char* text : {"20.0%", "100.0%", "80.0", "p = 0.0009", "phase 3, the boundary",
                           "kvphase audit runs/chunked.safetensors", "Control, full attention"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, HasSubstr(std::string(64, 'b')));  // the prompt set's hash
}

TEST(Html, TextFromOutsideNeverBecomesMarkup) {
  record::Result result = test::example_result();
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=\"a\">";
  result.title = result.verdict.sentence = result.verdict.next_step = evil;
  result.context.model_name = result.context.command = result.context.host = evil;
  result.context.model_sha256 = result.context.prompt_set_sha256 = evil;
  result.context.model_config = {{evil, evil}};
  result.context.warnings = result.notes = {evil};
  result.design.task = result.design.padding = evil;
  result.design.options = {{evil, evil}};
  result.data_kind = result.mean.method = result.period.method = result.period.reason = evil;
  result.gap.noise_method = result.positions.note = evil;
  result.folded->source = evil;
  result.scores[0].name = evil;
  const std::string html = words_of(html_report(result, result));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;img src=x"));
}

TEST(Html, TabulatesWhatWasRequired) {
  record::Result result = test::example_result();
  EXPECT_THAT(words_of(html_report(result)), Not(HasSubstr("Requirements")));
  result.requirements = test::example_requirements();
  result.requirements[1].sentence = "<b>x</b>";
  const std::string html = words_of(html_report(result));
  EXPECT_THAT(html, HasSubstr("<h2>Requirements</h2>"));
  EXPECT_THAT(html, HasSubstr("worst&gt;=0.95</th><td>fail</td><td>At least one phase is below"));
  EXPECT_THAT(html, HasSubstr("<td>&lt;b&gt;x&lt;/b&gt;</td>"));
}

TEST(Html, SaysHowASequentialAuditStopped) {
  record::Result result = test::example_result();
  result.sequential = test::example_sequential();
  const std::string html = words_of(html_report(result));
  EXPECT_THAT(html, HasSubstr("<h2>Early stop</h2>"));
  EXPECT_THAT(html, HasSubstr("45.5 that phases differ (20 needed), reached after 20 items"));
  EXPECT_THAT(html, HasSubstr("100 of 200 planned (50% saved), 30 of 50 items"));
}

TEST(Html, AsksTheNetworkForNothing) {
  const std::string html = html_report(test::example_result());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* part : {" src=", "@import", "url(", "sourceMappingURL"}) {
    EXPECT_THAT(words_of(html), Not(HasSubstr(part)));
  }
  EXPECT_EQ(html.find("<link"), html.find("<link rel=\"icon\" href=\"data:,\">"));
  EXPECT_EQ(html.find("sourceMappingURL"), std::string::npos);
}

TEST(Html, CarriesTheLibrariesAndTheirLicences) {
  const std::string html = html_report(test::example_result());
  EXPECT_GT(vega_js().size(), 400000U);
  EXPECT_GT(vega_lite_js().size(), 200000U);
  for (const std::string_view library : {vega_js(), vega_lite_js()}) {
    EXPECT_EQ(library.find("</script"), std::string_view::npos);
    EXPECT_EQ(library.find("<!--"), std::string_view::npos);
    EXPECT_NE(html.find(library.substr(0, library.rfind("//#"))), std::string::npos);
  }
  EXPECT_THAT(html, HasSubstr("University of Washington Interactive Data Lab"));
}

TEST(Html, AnEmptyResultIsAPageWithoutFiguresOrInventedNumbers) {
  record::Result empty;
  empty.mean.reason = "no prompt was scored";
  const std::string html = html_report(empty);
  EXPECT_THAT(html, HasSubstr("<h1>Inconclusive</h1>"));
  EXPECT_THAT(html, HasSubstr("no prompt was scored"));
  EXPECT_THAT(html, Not(HasSubstr("<figure")));
  EXPECT_THAT(html, Not(HasSubstr("vega")));
  EXPECT_THAT(html.substr(html.find("<main>")), Not(HasSubstr("0.0")));
}

TEST(Html, NeverWritesNanOrInfinity) {
  record::Result result = test::example_result();
  result.residues[2] = {.index = 2, .planned = 50};
  result.folded->phases[1] = {.index = 1};
  result.gap = {};
  result.scores[0].residue_means[0].reset();
  result.period.p_value.reset();
  for (const record::Result& r : {result, record::Result{}, test::example_control()}) {
    const std::string html = words_of(html_report(r, test::example_control()));
    for (const char* word : {"nan", "inf", "infinity"}) EXPECT_FALSE(has_word(html, word)) << word;
  }
}

TEST(Html, MissingRepliesAreBoundedFromBothSides) {
  record::Result result = test::example_control();
  result.design.missing = 10;
  result.residues[0] = {.index = 0, .planned = 50, .n = 40, .correct = 30, .accuracy = 0.75};
  const std::string html = words_of(html_report(result));
  EXPECT_THAT(html, HasSubstr("<td>50</td><td>40</td><td>10</td><td>60.0%</td><td>80.0%</td>"));
}

}  // namespace
}  // namespace kvphase::report
