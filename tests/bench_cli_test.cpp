// kvphase bench as a user runs it: exit codes, streams and files. Times are not looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "record/findings.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Program = test::Program;

constexpr const char* kTiny = "bench --quick --repeats 1 --threads 1 -q ";

TEST_F(Program, BenchMeasuresEveryOperationAndWritesItsFiles) {
  const Outcome first = run(std::string(kTiny) + "full-1kv w4s4-1kv --contexts 48,64 --out speed");
  ASSERT_EQ(first.code, 0) << first.err << first.out;
  EXPECT_THAT(first.err, IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ / "speed.part"));
  const record::Findings f =
      record::findings_from_json(base::Json::parse(read("speed/result.json")), "bench", "test");
  EXPECT_EQ(f.data.at("done").size(), 16U);
  EXPECT_THAT(f.data.at("left_out"), IsEmpty());
  EXPECT_EQ(f.data.at("rates").size(), 2U);  // before and after
  EXPECT_EQ(f.context.threads, 1);
  EXPECT_THAT(f.context.command, HasSubstr("kvphase bench --quick"));
  for (const base::Json& done : f.data.at("done")) {
    const std::string text = done.dump();
    EXPECT_GT(done.at("measured").at("time").at("median").get<double>(), 0) << text;
    EXPECT_GT(done.at("measured").at("resident_peak").get<double>(), 1e6) << text;
  }
  std::string titles;
  for (const record::FindingsTable& table : f.tables) titles += table.title + ", ";
  EXPECT_EQ(titles, "Machine, Training, Forward pass, Prefill, Decoding, Attention alone, Cache, ");
  for (const auto& row : f.tables.back().rows) {
    EXPECT_EQ(row.at(4), "yes") << row.at(0);
  }
  EXPECT_THAT(first.out, HasSubstr(f.sentence));
  EXPECT_THAT(read("speed/report.html"), HasSubstr("id=\"speed-decode\""));
  const Outcome second = run(std::string(kTiny) + "full-1kv --contexts 64 --out speed");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("exists"));
}

TEST_F(Program, BenchReadsContextsAndTakesWhatIsAskedFor) {
  const Outcome outcome =
      run(std::string(kTiny) + "w8s8-2kv --contexts 48,16..64 --what memory --layers 3 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const base::Json json = base::Json::parse(outcome.out);
  EXPECT_EQ(json.at("options").at("contexts").dump(), "[16,32,48,64]");
  ASSERT_EQ(json.at("data").at("done").size(), 4U);
  const base::Json& cell = json.at("data").at("done").at(3).at("cell");
  EXPECT_EQ(cell.at("operation"), "prompt");
  EXPECT_EQ(cell.at("decode_steps"), 0);
  EXPECT_EQ(cell.at("model").at("attention").dump(), R"(["local","chunked","chunked"])");
}

TEST_F(Program, BenchNamesWhatItLeavesOutWithTheEstimate) {
  const Outcome outcome =
      run(std::string(kTiny) + "full-1kv --contexts 64,16K --what train,forward --limit 1e-2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cells left out"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex(
                               "forward +full-1kv +16K +[0-9.]+ m?s +longer than --limit 0.01 s"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex(
                               "train +full-1kv +16K +- +training is measured up to 8K tokens"));
}

TEST_F(Program, BenchRefusesWhatItDoesNotKnow) {
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = run("bench " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    return outcome.err;
  };
  EXPECT_THAT(refused("--contexts 4M"), HasSubstr("expected --contexts as tokens"));
  EXPECT_THAT(refused("--contexts 8K..1K"), HasSubstr("from shorter to longer, got '8K..1K'"));
  EXPECT_THAT(refused("--contexts 1K,"), HasSubstr("got ''"));
  EXPECT_THAT(refused("--what prefil"), HasSubstr("did you mean 'prefill'?"));
  EXPECT_THAT(refused("w8s8-1k"), HasSubstr("did you mean 'small/w8s8-1kv'?"));
  EXPECT_THAT(refused("--shape large"), HasSubstr("expected a --shape of small | qwen3-0.6b"));
  EXPECT_THAT(refused("--threads -1"), HasSubstr("expected --threads of 0 to 1024"));
  EXPECT_THAT(refused("--accuracy nowhere"), HasSubstr("nowhere"));
}

TEST_F(Program, BenchStoppedBeforeAnyCellKeepsNothingAndSaysSo) {
  const Outcome stopped = interrupted("bench --threads 1 --out speed");
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("[bench] interrupted: nothing is kept"));
  EXPECT_FALSE(fs::exists(folder_ / "speed"));
  EXPECT_FALSE(fs::exists(folder_ / "speed.part"));
  EXPECT_THAT(stopped.out, IsEmpty());
}

TEST_F(Program, BenchStoppedLaterKeepsTheCellsThatItHas) {
  // Ctrl-C at the first line about the third cell.
  const Outcome stopped = run(
      "bench --quick --threads 1 --what memory --contexts 64..1024 --out speed", ".out",
      R"(sh -c '"$0" "$@" & until grep -q "cell 3/" .err || ! kill -0 $!; do sleep 0.01; done; kill -INT $!; wait $!')");
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  const record::Findings f =
      record::findings_from_json(base::Json::parse(read("speed/result.json")), "bench", "test");
  const std::size_t done = f.data.at("done").size(), left = f.data.at("left_out").size();
  EXPECT_GE(done, 2U);
  EXPECT_GE(left, 1U);
  EXPECT_EQ(done + left, 10U);
  EXPECT_EQ(f.data.at("left_out").back().at("reason"), "interrupted");
  EXPECT_THAT(stopped.out, HasSubstr("Warning: interrupted: what was measured until then is kept"));
}

TEST_F(Program, BenchJoinsAuditsWithWhatTheirDesignsCost) {
  const Outcome audit = run(fmt::format(
      "audit '{}/w8s8-1kv' --modulus 8 --items 64 --threads 1 -q --out audit", KVPHASE_MODELS));
  ASSERT_TRUE(audit.code == 0 || audit.code == 3) << audit.err;
  const Outcome outcome = run(std::string(kTiny) + "--contexts 64 --accuracy audit --out speed");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const record::Findings f =
      record::findings_from_json(base::Json::parse(read("speed/result.json")), "bench", "test");
  EXPECT_EQ(f.data.at("accuracy").at(0).at("design"), "w8s8-1kv");
  EXPECT_EQ(f.options.at("what").dump(), R"(["train","prefill","memory"])");
  EXPECT_THAT(outcome.out, HasSubstr("Accuracy, memory and time"));
  EXPECT_THAT(read("speed/report.html"), HasSubstr("id=\"trade-off\""));
  const Outcome none = run(fmt::format(
      "audit '{}/demo-chunked' --modulus 8 --items 64 --threads 1 -q --out demo", KVPHASE_MODELS));
  const Outcome unknown = run(std::string(kTiny) + "--accuracy demo");
  EXPECT_EQ(unknown.code, 2) << none.err << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("expected audits of designs that have names"));
}

}  // namespace
}  // namespace kvphase
