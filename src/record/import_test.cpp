#include "record/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::record {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Import : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-import-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    base::write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  Dataset read(const std::string& name, const std::string& text,
               const ImportOptions& options = {}) {
    std::vector<Dataset> all = import_results(write(name, text), options);
    EXPECT_EQ(all.size(), 1U);
    return std::move(all.at(0));
  }
  std::string refusal(const std::string& name, const std::string& text,
                      const ImportOptions& options = {}) {
    try {
      import_results(write(name, text), options);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(name));
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused in: " << text;
    return "";
  }

  fs::path folder_;
};

constexpr Reply kR = Reply::kRight;
constexpr Reply kW = Reply::kWrong;
constexpr Reply kM = Reply::kMissing;

TEST_F(Import, PlainJsonLinesGiveTheSameRowsAsLinesForTheParser) {
  std::string plain;
  std::string nested;  // one nested value more in every line: nothing of it is plain
  for (int i = 0; i < 300; ++i) {
    const std::string item = i % 7 == 0 ? "1.50" : i % 2 == 0 ? "\"a\"" : "2";
    const std::string start = "{\"position\": " + std::to_string(i) + ", \"item\": " + item +
                              ", \"correct\": " +
                              (i % 5 == 0   ? "null"
                               : i % 3 == 0 ? "1"
                                            : "false") +
                              ", \"logprob\": -0." + std::to_string(i) + "e1";
    plain += start + "}\n";
    nested += start + ", \"doc\": {\"n\": []}}\n";
  }
  const ScoreRows a = *read("plain.jsonl", plain).rows;
  const ScoreRows b = *read("nested.jsonl", nested).rows;
  EXPECT_EQ(a.items, 3);
  EXPECT_EQ(a.item, b.item);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.reply, b.reply);
  EXPECT_EQ(a.logprob, b.logprob);
}

// --- counts ---

constexpr const char* kTwoModels = R"({"residue_modulus": 2, "task": "needle", "models": [
  {"name": "A", "id": "a", "stride": 2, "n": 10, "correct": [1, 9]},
  {"name": "B", "id": "b", "window": 8, "stride": null,
   "prefix_padding": {"correct": [3, 4], "n": [5, 6], "low_percent": [1, 2]},
   "in_sequence_padding": {"correct": [0, 5], "n": 5}}]})";

TEST_F(Import, ReadsSeveralModelsAndPaddingsFromOneFileOfCounts) {
  const auto all = import_results(write("two.json", kTwoModels), {});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "A");
  EXPECT_EQ(all[0].stride, 2);
  EXPECT_EQ(all[0].task, "needle");
  EXPECT_THAT(all[0].counts->n, ElementsAre(10, 10));
  EXPECT_EQ(all[1].padding, "prefix");
  EXPECT_EQ(all[1].stride, std::nullopt);
  EXPECT_EQ(all[1].window, 8);
  EXPECT_THAT(all[1].counts->n, ElementsAre(5, 6));
  EXPECT_EQ(all[2].padding, "in-sequence");
  EXPECT_THAT(all[2].counts->correct, ElementsAre(0, 5));
}

TEST_F(Import, SelectsAModelByNameOrIdAndSuggestsTheNearest) {
  EXPECT_EQ(read("two.json", kTwoModels, {.model = "a"}).name, "A");
  EXPECT_EQ(import_results(write("two.json", kTwoModels), {.model = "B"}).size(), 2U);
  EXPECT_THAT(refusal("two.json", kTwoModels, {.model = "bb"}), HasSubstr("did you mean 'b'?"));
}

TEST_F(Import, ReadsPublishedCurvesByTheirDesign) {
  const std::string text = R"({"schema": "kvphase.published/1", "modulus": 2, "curves": [
      {"design": "w8s8", "seed": 42, "padding": "prefix", "prompts_per_residue": 10, "correct": [1, 2]},
      {"design": "w4s4", "seed": null, "padding": "prefix", "prompts_per_residue": 9, "correct": [3, 4]}]})";
  const Dataset named = read("curves.json", text, {.model = "w8s8"});
  EXPECT_EQ(named.name, "w8s8 seed 42");
  EXPECT_EQ(named.padding, "prefix");
  EXPECT_THAT(named.counts->n, ElementsAre(10, 10));
  EXPECT_EQ(read("curves.json", text, {.model = "w8s8 seed 42"}).name, "w8s8 seed 42");
  EXPECT_THAT(read("curves.json", text, {.model = "w4s4"}).counts->correct, ElementsAre(3, 4));
  EXPECT_THAT(refusal("curves.json", text, {.model = "w4s"}), HasSubstr("did you mean 'w4s4'"));
}

TEST_F(Import, ReadsItsOwnSimpleCountsAndFoldsThemToAModulusThatDivides) {
  const std::string text = R"({"modulus": 4, "n": 10, "correct": [1, 2, 3, 4]})";
  EXPECT_THAT(read("own.json", text).counts->correct, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(read("own.json", text).name, "own");
  const Dataset folded = read("own.json", text, {.modulus = 2});
  EXPECT_EQ(folded.modulus, 2);
  EXPECT_THAT(folded.counts->correct, ElementsAre(4, 6));
  EXPECT_THAT(folded.counts->n, ElementsAre(20, 20));
  EXPECT_THAT(refusal("own.json", text, {.modulus = 3}), HasSubstr("divides the file's 4"));
}

TEST_F(Import, RefusesCountsThatCannotBe) {
  EXPECT_THAT(refusal("c.json", R"({"modulus": 2, "n": 3, "correct": [1, 4]})"),
              HasSubstr("got 4 of 3 at residue 1"));
  EXPECT_THAT(refusal("c.json", R"({"modulus": 3, "n": 3, "correct": [1, 2]})"),
              HasSubstr("expected 3 counts"));
  EXPECT_THAT(refusal("c.json", R"({"modulus": 2, "n": 3, "correct": [1, 0.5]})"),
              HasSubstr("correct[1]"));
  EXPECT_THAT(refusal("c.json", R"({"modulus": 2, "n": -1, "correct": [0, 0]})"),
              HasSubstr("expected n"));
  EXPECT_THAT(refusal("c.json", R"({"modulus": 2, "correct": [0, 0]})"), HasSubstr("'n'"));
  EXPECT_THAT(refusal("c.json", R"({"modulus": 2, "n": 3,)"), HasSubstr("valid JSON"));
  EXPECT_THAT(refusal("c.json", "[1, 2]"), HasSubstr("formats.md"));
}

TEST_F(Import, ReadsCountsCsvInAnyOrderWithBomCrlfAndQuotes) {
  const Dataset data =
      read("c.csv", "\xEF\xBB\xBF\"residue\",correct,n\r\n1,4,5\r\n\r\n0,\"3\",6\r\n");
  EXPECT_EQ(data.origin, "counts CSV");
  EXPECT_THAT(data.counts->correct, ElementsAre(3, 4));
  EXPECT_THAT(data.counts->n, ElementsAre(6, 5));
}

TEST_F(Import, LeavesAResidueWithoutARowEmpty) {
  EXPECT_THAT(read("c.csv", "residue,correct,n\n0,1,2\n2,1,2\n").counts->n, ElementsAre(2, 0, 2));
  EXPECT_THAT(read("c.csv", "residue,correct,n\n0,1,2\n", {.modulus = 3}).counts->n,
              ElementsAre(2, 0, 0));
}

TEST_F(Import, NamesTheLineOfABadCount) {
  EXPECT_THAT(refusal("c.csv", "residue,correct,n\n0,1,2\n1,3,2\n"), HasSubstr("c.csv:3"));
  EXPECT_THAT(refusal("c.csv", "residue,correct,n\n0,1,2\n0,1,2\n"),
              AllOf(HasSubstr("c.csv:3"), HasSubstr("line 2")));
  EXPECT_THAT(refusal("c.csv", "residue,correct,n\n0,x,2\n"),
              AllOf(HasSubstr("c.csv:2"), HasSubstr("'x'")));
  EXPECT_THAT(refusal("c.csv", "residue,correct,n\n0,-1,2\n"), HasSubstr("'-1'"));
  EXPECT_THAT(refusal("c.csv", "residue,correct,n\n"), HasSubstr("got none"));
}

// --- rows ---

TEST_F(Import, GuessesColumnsAndSaysSo) {
  const Dataset data = read("r.csv",
                            "note,doc_id,token_position,is_correct,logprob\n"
                            "\"a, \"\"b\"\"\nc\",x,25,True,-0.5\n"
                            ",x,24,false,\n");
  EXPECT_EQ(data.origin, "item-level CSV");
  EXPECT_EQ(data.modulus, 24);
  EXPECT_THAT(data.rows->position, ElementsAre(24, 25));
  EXPECT_THAT(data.rows->reply, ElementsAre(kW, kR));
  EXPECT_TRUE(std::isnan(data.rows->logprob.at(0)));
  EXPECT_FLOAT_EQ(data.rows->logprob.at(1), -0.5F);
  EXPECT_EQ(data.rows->items, 1);
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_THAT(data.notes[0],
              AllOf(HasSubstr("position from 'token_position'"), HasSubstr("item from 'doc_id'"),
                    HasSubstr("correct from 'is_correct'")));
}

TEST_F(Import, TakesTheColumnsThatAreNamed) {
  const std::string text = "a;b;c\n1;7;0,5\n";
  EXPECT_THAT(refusal("r.csv", text), HasSubstr("--position"));
  const Dataset data =
      read("r.csv", "a;b;c;pos\n1;7;0;3\n", {.position = "b", .item = "a", .correct = "c"});
  EXPECT_THAT(data.rows->position, ElementsAre(7));
  EXPECT_THAT(refusal("r.csv", text, {.position = "bb", .correct = "c"}),
              HasSubstr("did you mean 'b'?"));
}

TEST_F(Import, DoesNotCareAboutTheOrderOfLines) {
  const Dataset a = read("a.csv", "item,position,correct\n10,0,1\n9,1,0\n9,0,1\n");
  const Dataset b = read("b.csv", "item,position,correct\n9,0,1\n9,1,0\n10,0,1\n");
  EXPECT_EQ(a.rows->item, b.rows->item);
  EXPECT_EQ(a.rows->position, b.rows->position);
  EXPECT_EQ(a.rows->reply, b.rows->reply);
  EXPECT_THAT(a.rows->item, ElementsAre(0, 0, 1)) << "items in the order of their numbers";
}

TEST_F(Import, KeepsMissingRepliesApartFromWrongOnes) {
  const Dataset data = read("r.csv", "item,residue,correct\n1,0,\n1,1,NA\n1,2,0\n1,3,1\n");
  EXPECT_THAT(data.rows->reply, ElementsAre(kM, kM, kW, kR));
  EXPECT_EQ(data.modulus, 4);
}

TEST_F(Import, LetsARetryReplaceAMissingReplyButRefusesASecondOne) {
  const Dataset data = read("r.csv", "item,residue,correct\n1,0,\n1,1,0\n1,0,1\n");
  EXPECT_THAT(data.rows->reply, ElementsAre(kR, kW));
  EXPECT_THAT(refusal("r.csv", "item,residue,correct\n1,0,1\n1,1,0\n1,0,1\n"),
              AllOf(HasSubstr("r.csv:4"), HasSubstr("line 2"), HasSubstr("repeat")));
}

TEST_F(Import, ComparesRepeatsAndKeepsThemOutOfTheRows) {
  const Dataset data =
      read("r.csv", "item,residue,correct,repeat\n1,0,1,0\n1,1,0,0\n1,0,0,1\n1,1,0,1\n1,7,0,1\n");
  EXPECT_EQ(data.rows->size(), 2U);
  EXPECT_EQ(data.repeats.compared, 2);
  EXPECT_EQ(data.repeats.changed, 1);
}

TEST_F(Import, TakesSharesAsAContinuousScore) {
  const Dataset data = read("r.csv", "residue,score\n0,0.5\n1,1\n2,\n");
  EXPECT_FALSE(data.rows->has_right_wrong);
  EXPECT_FALSE(data.rows->items_known);
  EXPECT_FLOAT_EQ(data.rows->score.at(0), 0.5F);
  EXPECT_FLOAT_EQ(data.rows->score.at(1), 1.0F);
  EXPECT_TRUE(std::isnan(data.rows->score.at(2)));
  const Dataset binary = read("r.csv", "residue,score\n0,0\n1,1\n");
  EXPECT_TRUE(binary.rows->has_right_wrong);
}

TEST_F(Import, RefusesNumbersThatAreNone) {
  for (const char* bad : {"nan", "NaN", "inf", "-inf", "abc", "1e999", "0x1p3 "}) {
    EXPECT_THAT(refusal("r.csv", std::string("residue,score\n0,0.5\n1,") + bad + "\n"),
                AllOf(HasSubstr("r.csv:3"), HasSubstr("finite")))
        << bad;
  }
  EXPECT_THAT(refusal("r.jsonl", "{\"residue\": 0, \"score\": NaN}\n"),
              AllOf(HasSubstr("r.jsonl:1"), HasSubstr("write null")));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n1.5,1\n"), HasSubstr("r.csv:2"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n-1,1\n"), HasSubstr("r.csv:2"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n99999999999,1\n"), HasSubstr("r.csv:2"));
}

TEST_F(Import, RefusesBrokenTables) {
  EXPECT_THAT(refusal("r.csv", ""), HasSubstr("empty"));
  EXPECT_THAT(refusal("r.csv", "\xEF\xBB\xBF \r\n"), HasSubstr("empty"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n"), HasSubstr("got none"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n1\n"), HasSubstr("r.csv:2: expected 2 fields"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n1,\"1\n"), HasSubstr("closing quote"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n1,\"1\"x\n"), HasSubstr("after a quote"));
  EXPECT_THAT(refusal("r.csv", "residue,residue\n1,1\n"), HasSubstr("twice"));
  EXPECT_THAT(refusal("r.csv", "residue,correct\n1,\n2,\n"), HasSubstr("at least one reply"));
  EXPECT_THAT(refusal("r.csv", "a,b\n1,2\n"), HasSubstr("--residue"));
  EXPECT_THAT(refusal("r.csv", "\xFF\xFEr"), HasSubstr("UTF-16"));
  EXPECT_THROW(import_results(folder_ / "absent.csv", {}), base::Error);
  EXPECT_THROW(import_results(folder_, {}), base::Error);
}

TEST_F(Import, ReadsJsonLinesWithNestedColumns) {
  const Dataset data =
      read("r.jsonl",
           "{\"meta\": {\"target_position\": 30}, \"id\": \"q1\", \"correct\": true}\n"
           "\n"
           "{\"meta\": {\"target_position\": 31}, \"id\": \"q1\", \"correct\": null}\r\n"
           "{\"meta\": {\"target_position\": 30}, \"id\": \"q2\", \"correct\": 0}");
  EXPECT_THAT(data.rows->position, ElementsAre(30, 31, 30));
  EXPECT_THAT(data.rows->reply, ElementsAre(kR, kM, kW));
  EXPECT_THAT(refusal("r.jsonl", "{\"residue\": 0, \"correct\": 1}\n{\"residue\": 0\n"),
              HasSubstr("r.jsonl:2"));
}

// --- lm-evaluation-harness ---

std::string harness_line(int id, int position, const std::string& rest) {
  return "{\"doc_id\": " + std::to_string(id) +
         ", \"doc\": {\"q\": \"x\", \"position\": " + std::to_string(position) +
         "}, \"target\": \"1\", \"arguments\": {}, \"doc_hash\": \"h\", " + rest + "}\n";
}

TEST_F(Import, ReadsHarnessSamplesWithLikelihoods) {
  const std::string resps =
      "\"filtered_resps\": [[\"-3.5\", \"False\"], [\"-1.25\", \"True\"], [-2.0, false]], ";
  const Dataset data =
      read("samples_t.jsonl", harness_line(0, 5, resps + "\"acc\": 1.0, \"acc_norm\": 0.0") +
                                  harness_line(1, 6, resps + "\"acc\": 0.0, \"acc_norm\": 1.0"));
  EXPECT_EQ(data.origin, "lm-evaluation-harness samples");
  EXPECT_THAT(data.rows->reply, ElementsAre(kR, kW));
  EXPECT_THAT(data.rows->position, ElementsAre(5, 6));
  EXPECT_FLOAT_EQ(data.rows->logprob.at(0), -1.25F);
  EXPECT_FLOAT_EQ(data.rows->margin.at(0), 0.75F);
}

TEST_F(Import, ReadsOneFilterOfHarnessSamplesAndSaysSo) {
  const std::string resps = "\"filtered_resps\": [\"8\"], ";
  const Dataset data = read(
      "samples_t.jsonl",
      harness_line(0, 5,
                   resps + R"("filter": "strict", "metrics": ["exact_match"], "exact_match": 1)") +
          harness_line(
              0, 5, resps + R"("filter": "loose", "metrics": ["exact_match"], "exact_match": 0)"));
  EXPECT_THAT(data.rows->reply, ElementsAre(kR));
  EXPECT_THAT(data.notes.back(), AllOf(HasSubstr("strict"), HasSubstr("1 lines")));
}

TEST_F(Import, ReadsTheHarnessRulerTaskByItsLength) {
  const std::string rest =
      R"("filtered_resps": ["x"], "4096": -1.0, "8192": 1.0, "filter": "none", "metrics": ["4096", "8192"])";
  std::string line = harness_line(0, 5, rest);
  line.replace(line.find("\"q\""), 3, "\"max_length\": 8192, \"q\"");
  EXPECT_THAT(read("samples_t.jsonl", line).rows->reply, ElementsAre(kR));
}

// --- RULER ---

TEST_F(Import, ReadsRulerPredictionsWithTheirPositions) {
  const std::string text =
      R"({"index": 7, "pred": "It is ABC.", "input": "p1", "outputs": ["abc"], "others": {}, "token_position_answer": 11})"
      "\n"
      R"({"index": 7, "pred": "no idea", "input": "p2", "outputs": ["def"], "others": {"token_position_answer": 12}})"
      "\n";
  const Dataset data = read("niah.jsonl", text);
  EXPECT_EQ(data.origin, "RULER predictions");
  EXPECT_THAT(data.rows->position, ElementsAre(11, 12));
  EXPECT_THAT(data.rows->reply, ElementsAre(kR, kW));
  EXPECT_EQ(data.rows->items, 2) << "RULER's index is not an item: it may repeat";
}

TEST_F(Import, JoinsRulerPredictionsWithTheirDataSet) {
  const std::string prediction =
      R"({"index": 0, "pred": "1 and 3", "input": "p1", "outputs": ["1", "2"], "others": {}})"
      "\n";
  EXPECT_THAT(refusal("niah.jsonl", prediction),
              AllOf(HasSubstr("niah.jsonl:1"), HasSubstr("--positions")));
  const fs::path set =
      write("validation.jsonl", R"({"index": 0, "input": "p1", "token_position_answer": 40})"
                                "\n");
  const Dataset data = read("niah.jsonl", prediction, {.positions_file = set});
  EXPECT_THAT(data.rows->position, ElementsAre(40));
  EXPECT_FLOAT_EQ(data.rows->score.at(0), 0.5F) << "one of two answers";
}

TEST_F(Import, RefusesACorrectColumnOfAnotherScale) {
  for (const char* value : {"2", "-1", "1.5", "95"}) {
    const std::string says = refusal("c.csv", fmt::format("position,correct\n0,1\n1,{}\n", value));
    EXPECT_THAT(says, AllOf(HasSubstr("c.csv:3"), HasSubstr(value), HasSubstr("--score")));
  }
  EXPECT_FALSE(read("s.csv", "position,correct\n0,1\n1,0.5\n").rows->has_right_wrong);
}

TEST_F(Import, RefusesScoresTooLargeToAddUp) {
  EXPECT_THAT(refusal("big.csv", "position,logprob\n0,-1\n1,-1e308\n"),
              AllOf(HasSubstr("big.csv:3"), HasSubstr("at most 1e+30")));
  EXPECT_THAT(refusal("big.jsonl", "{\"position\":0,\"margin\":1e38}\n"),
              AllOf(HasSubstr("big.jsonl:1"), HasSubstr("at most 1e+30")));
}

TEST_F(Import, RefusesBytesThatAreNotUtf8) {
  for (const std::string bad :
       {"\xFF", "\xC3(", "\xE2\x82", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_THAT(refusal("u.csv", "item,position,correct\na,0,1\nb" + bad + ",1,1\n"),
                AllOf(HasSubstr("u.csv:3"), HasSubstr("expected UTF-8")));
  }
  EXPECT_EQ(read("ok.csv",
                 "item,position,correct\n\xC3\xA9,0,1\n\xE2\x82\xAC,1,1\n\xF0\x9F\x98\x80,2,0\n")
                .rows->items,
            3);
}

}  // namespace
}  // namespace kvphase::record
