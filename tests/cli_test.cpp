// The program as a user runs it: exit codes, streams, and what analyze finds in published counts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/json.h"
#include "record/result.h"
#include "stats/group_study.h"
#include "stats/published_counts.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Program = test::Program;
using test::Outcome;

// The published counts with one modulus as a file of several models.
std::string models_file(std::int64_t modulus, std::vector<stats::PublishedRun>& runs) {
  base::Json models = base::Json::array();
  for (stats::PublishedRun& run : stats::published_runs()) {
    if (run.counts.modulus() != modulus) continue;
    models.push_back({{"name", run.name},
                      {"padding", run.padding},
                      {"n", run.counts.n},
                      {"correct", run.counts.correct}});
    runs.push_back(run);
  }
  return base::Json{{"modulus", modulus}, {"models", models}}.dump();
}

TEST_F(Program, NamesThePeriodOfEveryPublishedRunFromItsCountsAlone) {
  for (const std::int64_t modulus : {8, 24}) {
    std::vector<stats::PublishedRun> runs;
    write("models.json", models_file(modulus, runs));
    const Outcome outcome = run("analyze models.json --json --quiet --permutations 2000");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const base::Json results = base::Json::parse(outcome.out);
    ASSERT_EQ(results.size(), runs.size());
    ASSERT_GE(runs.size(), 5U);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const record::Result result = record::result_from_json(results.at(i), "test");
      const std::int64_t found = result.period.value.value_or(0);
      EXPECT_EQ(found, runs[i].stride) << runs[i].name << ": " << result.verdict.sentence;
      fmt::print("{} ({}): stride {}, period found {} (p = {:.4f})\n", runs[i].name,
                 runs[i].padding, runs[i].stride, found, result.period.p_value.value_or(-1));
    }
  }
}

TEST_F(Program, WritesAReportAndRefusesToOverwriteIt) {
  write("c.csv",
        "residue,correct,n\n0,90,100\n1,88,100\n2,91,100\n3,30,100\n4,92,100\n5,87,100\n6,90,"
        "100\n7,33,100\n");
  const Outcome first = run("analyze c.csv --stride 4 --window 4 --out report");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, StartsWith("Period 4 (p"));
  for (const char* file : {"result.json", "residues.csv"}) {
    EXPECT_TRUE(fs::exists(folder_ / "report" / file)) << file;
  }
  const base::Json json = base::Json::parse(base::read_file(folder_ / "report" / "result.json"));
  EXPECT_EQ(json.at("period").at("value"), 4);
  EXPECT_EQ(json.at("folded").at("phases").at(3).at("boundary"), true);
  EXPECT_EQ(json.at("residues").size(), 8U);
  const Outcome second = run("analyze c.csv --out report");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("exists"));
  EXPECT_THAT(second.out, IsEmpty());
}

TEST_F(Program, GivesTheSameBytesForTheSameSeed) {
  write("c.csv", "residue,correct,n\n0,9,10\n1,3,10\n2,9,10\n3,4,10\n");
  const auto result = [&](const std::string& options) {
    base::Json json = base::Json::parse(run("analyze c.csv --json -q " + options).out);
    json.erase("context");  // when and by which command
    return json.dump();
  };
  EXPECT_EQ(result("--seed 5"), result("--seed 5"));
  EXPECT_NE(result("--seed 5"), result("--seed 6"));
}

TEST_F(Program, SaysBadInputInOneLineWithCodeTwo) {
  write("bad.csv", "residue,correct,n\n0,5,10\n1,11,10\n");
  write("nan.csv", "residue,score\n0,1\n1,nan\n");
  write("empty.csv", "");
  write("text.json", "{\"hello\": [1, 2]}");
  write("rows.csv", "item,position,correct\n0,1,1\n0,2,0\n");
  write("one.json", R"({"name":"mine","modulus":4,"n":9,"correct":[1,2,3,4]})");
  write("huge.json", R"({"modulus":4,"n":9000000000000,"correct":[1,2,3,4]})");
  write("huge.csv", "residue,correct,n\n0,9999999999999,9999999999999\n1,1,2\n");
  write("offset.csv", "position,score\n0,1000000000000007\n1,1000000000000001\n");
  write("tiny.csv", "position,score\n0,1e-200\n1,2e-200\n");
  write("large.jsonl", "{\"item\":1,\"position\":3,\"score\":1e999}\n");
  struct Case {
    const char* arguments;
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{{"analyze bad.csv", "bad.csv:3"},
                                         {"analyze nan.csv", "nan.csv:3"},
                                         {"analyze empty.csv", "empty"},
                                         {"analyze text.json", "text.json"},
                                         {"analyze absent.csv", "absent.csv"},
                                         {"analyze .", "journal.jsonl"},
                                         {"analyze bad.csv --modulus 1", "--modulus"},
                                         {"analyze rows.csv --model mine", "holds one result"},
                                         {"analyze one.json --model other", "one model, 'mine'"},
                                         {"analyze one.json --modulus 16", "not taken apart"},
                                         {"analyze rows.csv --window 4", "--stride"},
                                         {"analyze rows.csv --window 0", "--window"},
                                         {"analyze rows.csv --replicates 1", "--replicates"},
                                         {"analyze rows.csv --permutations 1", "--permutations"},
                                         {"analyze huge.json", "0 to 999999999999"},
                                         {"analyze huge.csv", "0 to 999999999999"},
                                         {"analyze large.jsonl", "beyond 64-bit"},
                                         {"analyze offset.csv", "common offset off"},
                                         {"analyze tiny.csv", "scale them up"},
                                         {"analyze rows.csv --seed -1", "--seed"},
                                         {"analyze bad.csv --sede 3", "did you mean '--seed'?"},
                                         {"analyse bad.csv", "did you mean 'analyze'?"},
                                         {"analyze", "file is required"},
                                         {"--color blue analyze bad.csv", "always"},
                                         {"", "--help"}}) {
    const Outcome outcome = run(c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.arguments;
    EXPECT_THAT(outcome.err, HasSubstr(c.expected)) << c.arguments;
    EXPECT_EQ(outcome.error_lines(), 1U) << c.arguments << ":\n" << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty()) << c.arguments;
  }
}

TEST_F(Program, ConfirmsTheGapOnFreshData) {
  write("a.json", R"({"modulus":8,"n":400,"correct":[360,360,360,240,360,360,360,240]})");
  write("b.json", R"({"modulus":8,"n":300,"correct":[270,272,268,185,270,271,269,180]})");
  write("flat.json", R"({"modulus":8,"n":300,"correct":[270,272,268,265,270,271,269,272]})");
  const Outcome held = run("analyze a.json --confirm b.json -q");
  EXPECT_EQ(held.code, 0) << held.out;
  EXPECT_THAT(held.out, HasSubstr("Confirmed on fresh data: phase 0 over phase 3 (of 4)"));
  const Outcome gone = run("analyze a.json --confirm flat.json -q --json");
  EXPECT_EQ(gone.code, 3) << gone.out;
  EXPECT_EQ(base::Json::parse(gone.out).at("confirmation").at("outcome"), "not confirmed");
  const Outcome same = run("analyze a.json --confirm a.json -q");
  EXPECT_EQ(same.code, 2);
  EXPECT_THAT(same.err, HasSubstr("expected fresh data"));
  EXPECT_EQ(run("plan --require-worst 0.95 --true-worst 0.9 -q").code, 2);
}

TEST_F(Program, DoesNotPassARequirementOnPhasesThatHideAWeakResidue) {
  write(
      "three.json",
      R"({"modulus":12,"stride":3,"n":400,"correct":[360,360,360,240,360,360,360,240,360,360,360,240]})");
  const Outcome gap = run("analyze three.json --require 'gap<=0.15' -q");
  EXPECT_EQ(gap.code, 1) << "judged by the phases that the data show: " << gap.out;
  const Outcome open = run("analyze three.json --require 'gap<=0.5' -q");
  EXPECT_EQ(open.code, 3) << "what passes beside a stride that contradicts the data stays open";
  EXPECT_THAT(open.out, HasSubstr("the data repeat with 4"));
  write("eight.json", R"({"modulus":8,"n":500,"correct":[445,445,445,445,445,445,445,100]})");
  EXPECT_NE(run("analyze eight.json --require 'worst>=0.4' -q").code, 0);
  EXPECT_NE(run("analyze eight.json --require 'gap<=0.55' -q").code, 0);
  write("hole.csv",
        "residue,correct,n\n0,90,100\n1,90,100\n2,0,0\n3,90,100\n4,90,100\n5,90,100\n6,0,0\n7,90,"
        "100\n");
  EXPECT_EQ(run("analyze hole.csv --require no-period -q").code, 3);
}

TEST_F(Program, AnAnalysisThatFailsLeavesNoFolderSoThatItCanBeRunAgain) {
  write("c.csv", "residue,correct,n\n0,9,10\n1,3,10\n2,9,10\n3,4,10\n");
  EXPECT_EQ(run("analyze c.csv --out report", "/dev/full").code, 4);
  EXPECT_FALSE(fs::exists(folder_ / "report"));
  EXPECT_FALSE(fs::exists(folder_ / "report.part"));
  const Outcome again = run("analyze c.csv --out report");
  EXPECT_NE(again.code, 2) << again.err;
  EXPECT_TRUE(fs::exists(folder_ / "report" / "result.json"));
}

TEST_F(Program, CalibrateRefusesANameThatNoSettingHas) {
  const Outcome outcome = run("calibrate --only nosuch --out cal");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("got 'nosuch'; the nearest name is '"));
  EXPECT_FALSE(fs::exists(folder_ / "cal"));
}

TEST_F(Program, SaysWhenNoPeriodCouldBeNamedAndWhenMissingRepliesMayMakeTheCurve) {
  write("four.json", R"({"modulus":4,"n":1000,"correct":[800,805,795,801]})");
  EXPECT_THAT(run("analyze four.json -q --json").out,
              HasSubstr("its period could not be named from residues modulo 4"));
  std::string rows = "item,position,correct\n";
  for (int i = 0; i < 100; ++i) {
    for (int p = 0; p < 8; ++p) {
      rows += fmt::format("{},{},{}\n", i, p, p % 4 == 1 && i % 2 == 0 ? "" : i % 5 ? "1" : "0");
    }
  }
  write("missing.csv", rows);
  const base::Json result = base::Json::parse(run("analyze missing.csv -q --json").out);
  EXPECT_THAT(result.at("verdict").at("sentence").get<std::string>(),
              HasSubstr("Replies are missing at some residues more than at others"));
}

TEST_F(Program, AFileSizeLimitIsSaidAsAFullDiskIs) {
  std::vector<stats::PublishedRun> runs;
  write("models.json", models_file(24, runs));
  const Outcome outcome =
      run("analyze models.json --out report --permutations 99 -q", ".out", "ulimit -f 1 && ");
  EXPECT_EQ(outcome.code, 4) << "killed by a signal: -1 or 153; " << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  EXPECT_FALSE(fs::exists(folder_ / "report"));
  fmt::print("{}", outcome.err);
}

TEST_F(Program, KeepsStdoutForTheResult) {
  write("c.csv", "residue,correct,n\n0,9,10\n1,3,10\n2,9,10\n3,4,10\n");
  const Outcome loud = run("analyze c.csv --json");
  EXPECT_TRUE(base::Json::accept(loud.out)) << loud.out;
  EXPECT_THAT(loud.err, HasSubstr("counts CSV"));
  EXPECT_THAT(run("analyze c.csv --json --quiet").err, IsEmpty());
  EXPECT_THAT(run("analyze c.csv").out, ::testing::Not(HasSubstr("\x1b["))) << "not a terminal";
  EXPECT_THAT(run("analyze c.csv --color always").out, HasSubstr("\x1b["));
  EXPECT_EQ(run("analyze c.csv", "/dev/full").code, 4);
}

TEST_F(Program, ExitsInconclusiveWhenTheDataCannotTell) {
  write("two.csv", "residue,correct,n\n0,1,2\n1,2,2\n");
  const Outcome outcome = run("analyze two.csv");
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("Inconclusive"));
}

TEST_F(Program, DecidesRequirementsAndSaysSoByItsExitCode) {
  write("weak.csv",
        "residue,correct,n\n0,90,100\n1,98,100\n2,99,100\n3,30,100\n4,92,100\n5,97,100\n6,98,"
        "100\n7,33,100\n");
  write("two.csv", "residue,correct,n\n0,1,2\n1,2,2\n");
  struct Case {
    const char* arguments;
    int code;
    const char* says;
  };
  for (const Case& c : std::vector<Case>{
           {"weak.csv --require 'worst>=0.2'", 0, "worst>=0.2  pass "},
           {"--require 'worst>=0.95' weak.csv", 1, "worst>=0.95  fail "},
           {"weak.csv --require no-period", 1, "A period of 4 was found"},
           {"weak.csv --require 'worst>=0.2' --require 'gap<=0.1'", 1, "gap<=0.1    fail "},
           {"weak.csv --require 'worst>=0.3'", 3, "worst>=0.3  inconclusive "},
           {"weak.csv --require 'worst>=0.3' --require no-period", 1, "no-period   fail "},
           {"two.csv --require no-period", 3, "no-period  inconclusive "}}) {
    const Outcome outcome = run(std::string("analyze -q ") + c.arguments);
    EXPECT_EQ(outcome.code, c.code) << c.arguments << "\n" << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(c.says)) << c.arguments;
  }
  const Outcome json = run("analyze weak.csv -q --json --require 'gap<=0.1'");
  EXPECT_EQ(base::Json::parse(json.out).at("requirements").at(0).at("outcome"), "fail");
  const Outcome refused = run("analyze weak.csv --require 'worst>0.9'");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("did you mean 'worst>=0.95'?"));
  EXPECT_EQ(refused.error_lines(), 1U) << refused.err;
}

TEST_F(Program, PlansItemsPromptsAndTokens) {
  const Outcome outcome =
      run("plan --gap 0.4 --prompt-tokens 1000 --require-worst 0.9 --runs 20 --json -q");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const base::Json plan = base::Json::parse(outcome.out);
  EXPECT_EQ(plan.at("prompts"), plan.at("items").get<int>() * 24);
  EXPECT_EQ(plan.at("tokens"), plan.at("prompts").get<int>() * 1000);
  EXPECT_EQ(plan.at("presets").at(1).at("items"), 100);
  EXPECT_GT(plan.at("gate_items"), plan.at("gate_items_all_right"));
  EXPECT_LT(plan.at("confirm").at("repeated_items"), plan.at("confirm").at("paired_items"));
  EXPECT_LE(plan.at("right_period").at("value"), plan.at("power").at("value"));
  const Outcome text = run("plan --runs 20 --stride 4");
  EXPECT_THAT(text.out, HasSubstr("known stride 4"));
  EXPECT_THAT(text.out, HasSubstr("strict"));
  const Outcome refused = run("plan --gap 0.9 -q");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.error_lines(), 1U) << refused.err;
}

TEST_F(Program, ShowsEveryPhaseAgainstTheWorstOnRequest) {
  write("a.json", R"({"modulus":8,"n":400,"correct":[360,360,360,240,360,360,360,240]})");
  const Outcome plain = run("analyze a.json -q");
  EXPECT_THAT(plain.out, testing::Not(HasSubstr("Comparing")));
  const Outcome details = run("analyze a.json -q --details");
  EXPECT_EQ(details.code, 0) << details.err;
  EXPECT_THAT(details.out, HasSubstr("Comparing phases"));
  EXPECT_THAT(details.out, HasSubstr("30.0 points over phase 3"));
  const base::Json json = base::Json::parse(run("analyze a.json -q --json").out);
  EXPECT_EQ(json.at("contrasts").at("data"), "counts");
  EXPECT_EQ(json.at("contrasts").at("pairs").size(), 3U);
}

// The tables of docs/method.md are those of the committed study.
TEST(Docs, SayWhatTheCommittedCalibrationSays) {
  const fs::path docs = fs::path(KVPHASE_STATS_TESTDATA) / "../../../docs";
  const auto text = [&](const char* name) {
    std::ifstream file(docs / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string method = text("method.md");
  const base::Json study = base::Json::parse(text("calibration.json"));
  std::size_t compared = 0;
  std::string named;
  std::string group_row;
  for (const base::Json& row : study.at("rows")) {
    const std::string rate = fmt::format("{:.3f}", row.at("rate").get<double>());
    const std::string range =
        fmt::format("{:.3f} to {:.3f}", row.at("low").get<double>(), row.at("high").get<double>());
    const auto setting = row.at("setting").get<std::string>();
    const auto kind = row.at("kind").get<std::string>();
    std::string line;
    if (kind == "false alarms") {
      line = fmt::format("| {} | {} | {} |", setting, rate, range);
    } else if (kind == "power" && row.at("question") == "a period was named") {
      named = rate;
    } else if (kind == "power") {
      line = fmt::format("| {} | {} | {} ({})", setting, named, rate, range);
    }
    if (kind == "tests over groups") {  // its questions are columns
      const bool first = row.at("question") == stats::kGroupQuestions.front().text;
      group_row = (first ? "| " + setting : group_row) + fmt::format(" | {} ({})", rate, range);
      if (row.at("question") == stats::kGroupQuestions.back().text) line = group_row + " |";
    }
    if (line.empty()) continue;
    EXPECT_NE(method.find(line), std::string::npos) << "not in method.md: " << line;
    ++compared;
  }
  EXPECT_GE(compared, 140U);
}

TEST_F(Program, RunsASmallCalibration) {
  const Outcome outcome = run("calibrate --runs 2 --json -q --out study");
  EXPECT_LE(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(base::Json::accept(outcome.out)) << outcome.out;
  EXPECT_TRUE(fs::exists(folder_ / "study" / "calibration.md"));
}

TEST_F(Program, StartsInUnderFiftyMilliseconds) {
  // Processor time, which other programs on the machine do not change; the shell is included.
  const auto children = [] {
    rusage usage = {};
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  double best = 1;
  double wall = 1;
  for (int i = 0; i < 5; ++i) {
    const double before = children();
    const Outcome outcome = run(i % 2 == 0 ? "--help" : "--version");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("kvphase"));
    best = std::min(best, children() - before);
    wall = std::min(wall, outcome.seconds);
  }
  fmt::print("best of five: {:.1f} ms of processor time, {:.1f} ms by the clock\n", 1000 * best,
             1000 * wall);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their start-up takes longer
  EXPECT_LT(best, 0.05);
#endif
}

}  // namespace
}  // namespace kvphase
