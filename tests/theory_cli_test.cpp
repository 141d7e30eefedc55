// kvphase theory as a user runs it: exit codes, streams and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Program = test::Program;
using test::Outcome;

constexpr const char* kSmall =
    "theory --stride 4 --heads 2 --records 4 --vocabulary 1024 --runs 60 --other-runs 0 "
    "--gated-runs 10 --sgd-runs 1 --rules 2 --optimised 2 --time 8000 --no-broken --quiet";

TEST_F(Program, TheoryWritesItsFilesAndRefusesToOverwriteThem) {
  const Outcome first = run(std::string(kSmall) + " --out study");
  EXPECT_EQ(first.code, 0) << first.err << first.out;
  EXPECT_THAT(first.err, IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ / "study.part"));
  EXPECT_THAT(first.out, HasSubstr("All 7 claims hold in this setting."));
  const base::Json result = base::Json::parse(read("study/result.json"));
  EXPECT_EQ(result.at("schema"), "kvphase.theory/1");
  EXPECT_EQ(result.at("context").at("seed"), 1);
  EXPECT_EQ(result.at("data").at("claims").size(), 7U);
  EXPECT_THAT(read("study/report.html"), HasSubstr("id=\"coverage\""));
  EXPECT_THAT(read("study/heads.csv"), StartsWith("gates,run,head,key_position"));
  const Outcome second = run(std::string(kSmall) + " --out study");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("exists"));
  EXPECT_THAT(second.out, IsEmpty());
}

TEST_F(Program, TheoryReturnsOneWhereAClaimFailsAndThreeWhereOneIsOpen) {
  const Outcome fails = run(  // too little time for any head to select a position
      "theory --stride 4 --heads 2 --records 4 --vocabulary 1024 --runs 20 --other-runs 0 "
      "--gated-runs 2 --sgd-runs 1 --rules 2 --optimised 2 --time 50 --no-broken --quiet --json");
  EXPECT_EQ(fails.code, 1) << fails.err;
  EXPECT_EQ(base::Json::parse(fails.out).at("data").at("claims").at(1).at("outcome"), "fails");
  const Outcome open =
      run("theory --stride 3 --heads 1 --records 4 --vocabulary 1024 --runs 1 --other-runs 0 "
          "--gated-runs 1 --sgd-runs 1 --rules 2 --optimised 2 --no-broken --quiet");
  EXPECT_EQ(open.code, 3) << open.out;
  EXPECT_THAT(open.out, HasSubstr("Open: "));
}

TEST_F(Program, TheoryStoppedByCtrlCSaysThatNothingIsKeptAndLeavesNoFolder) {
  const Outcome stopped = interrupted("theory --runs 100000 --out study");
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("[theory] interrupted: nothing is kept"));
  EXPECT_FALSE(fs::exists(folder_ / "study.part"));
  EXPECT_FALSE(fs::exists(folder_ / "study"));
}

TEST_F(Program, TheoryRefusesBadOptionsBeforeItMakesAFolder) {
  const Outcome outcome = run("theory --vocabulary 20 --out study");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("[theory] expected a vocabulary of at least"));
  EXPECT_FALSE(fs::exists(folder_ / "study"));
}

}  // namespace
}  // namespace kvphase
