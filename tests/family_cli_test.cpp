// A study of several cells as a user runs it, on models too briefly trained to learn anything.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/json.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Family : public test::Program {
 protected:
  // Contents of all result files, without what differs between runs.
  std::map<std::string, std::string> results(const std::string& study) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / study)) {
      if (entry.path().filename() != "result.json") continue;
      const std::string name = fs::relative(entry.path(), folder_ / study).string();
      base::Json json = base::Json::parse(read(study + "/" + name));
      json.erase("context");
      all[name] = json.dump();
    }
    return all;
  }

  std::map<std::string, fs::file_time_type> times(const std::string& study) const {
    std::map<std::string, fs::file_time_type> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / study)) {
      if (entry.is_regular_file()) all[entry.path().string()] = entry.last_write_time();
    }
    return all;
  }
};

constexpr const char* kStudy =
    "family --recipe small-wc --set steps=6 --set batch=4 --modulus 8 --items 16 "
    "--padding prefix --only full-1kv,w8s8-2kv-staggered ";

TEST_F(Family, TrainsAndAuditsEveryCellAndLeavesFinishedOnesAlone) {
  const auto first = run(std::string(kStudy) + "--out a --workers 2");
  ASSERT_EQ(first.code, 0) << first.err;
  const auto found = results("a");
  EXPECT_EQ(found.size(), 2U);
  for (const auto& [name, text] : found) EXPECT_THAT(first.out, HasSubstr(name.substr(0, 8)));
  const auto before = times("a");
  const auto again = run(std::string(kStudy) + "--out a --workers 2");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(times("a"), before);
  EXPECT_EQ(fs::exists(folder_ / "a" / "full-1kv-seed42" / "model" / "resume"), false);
}

TEST_F(Family, BeginsFromAnotherStudysModelsAndStaggeredOnesFromTheirAlignedTwins) {
  const std::string designs = "--only w4s4-2kv,w4s4-2kv-staggered ";
  const std::string common =
      "family --recipe small-wc --set steps=6 --set batch=4 --modulus 8 --items 16 --padding "
      "prefix ";
  ASSERT_EQ(run(common + "--only w4s4-2kv --out base").code, 0);
  const auto further = run(common + designs + "--from base --out further");
  ASSERT_EQ(further.code, 0) << further.err;
  const auto sha = [&](const std::string& cell) {
    const std::string card = read("further/" + cell + "/model/card.json");
    return base::Json::parse(card).at("options").at("initial").at("sha256").get<std::string>();
  };
  EXPECT_EQ(sha("w4s4-2kv-seed42"), sha("w4s4-2kv-staggered-seed42"));
  const auto absent = run(common + "--only w4s4-4kv --from base --out absent");
  EXPECT_EQ(absent.code, 2) << absent.err;
  EXPECT_THAT(absent.err, HasSubstr("w4s4-4kv-seed42"));
  EXPECT_FALSE(fs::exists(folder_ / "absent"));
  const auto other = run(common + designs + "--out further");
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("another --out"));
}

TEST_F(Family, InShardsGivesTheSameResultsAsAtOnce) {
  ASSERT_EQ(run(std::string(kStudy) + "--out whole --workers 2").code, 0);
  ASSERT_EQ(run(std::string(kStudy) + "--out parts --shard 1/2").code, 0);
  EXPECT_EQ(results("parts").size(), 1U);
  const auto listed = run(std::string(kStudy) + "--out parts --list");
  EXPECT_THAT(listed.out, AllOf(HasSubstr("finished"), HasSubstr("to do")));
  ASSERT_EQ(run(std::string(kStudy) + "--out parts --shard 2/2").code, 0);
  EXPECT_EQ(results("parts"), results("whole"));
}

TEST_F(Family, GoesOnWhereEachCellWasKilled) {
  const std::string longer =
      "family --recipe small-wc --set steps=40 --set batch=16 --set checkpoint_interval=5 "
      "--modulus 8 --items 16 --padding in-sequence --only w4s4-1kv ";
  ASSERT_EQ(run(longer + "--out whole").code, 0);
  int interrupted = 0;
  // In the foreground the signal comes once: otherwise also by the process group, and a second
  // interrupt ends the program at once.
  for (const char* timeout :
       {"timeout --foreground -s INT --preserve-status 0.7", "timeout --foreground -s KILL 0.8",
        "timeout --foreground -s INT --preserve-status 1.0"}) {
    const auto stopped = run(longer + "--out cut", ".out", timeout);
    if (stopped.code == 130) {
      ++interrupted;
      EXPECT_THAT(stopped.err, HasSubstr("the same command goes on"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // what a kill orphaned ends
  }
  EXPECT_GT(interrupted, 0);
  const auto outcome = run(longer + "--out cut");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(results("cut"), results("whole"));
}

TEST_F(Family, RefusesBeforeAnythingIsTrained) {
  const auto refused = [&](const std::string& options, const std::string& why) {
    const auto outcome = run("family --out new " + options);
    EXPECT_EQ(outcome.code, 2) << options << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(why)) << options;
    EXPECT_FALSE(fs::exists(folder_ / "new")) << options;
  };
  refused("--only w8s9", "did you mean 'w8s8-");
  refused("--shard 3/2", "1 <= i <= n");
  refused("--shape large", "small | qwen3-0.6b");
  refused("--set stepz=4", "did you mean 'steps'");
  refused("--recipe small-wc --modulus 24", "--modulus");
  refused("--set model.chunk.stride=99 --only w4s4-1kv", "stride");
  const auto ranks = run("family --out new", ".out", "WORLD_SIZE=2 RANK=0");
  EXPECT_EQ(ranks.code, 2);
  EXPECT_THAT(ranks.err, HasSubstr("--shard i/n"));
  fs::create_directories(folder_ / "used");
  write("used/file", "mine");
  const auto used = run(std::string(kStudy) + "--out used");
  EXPECT_EQ(used.code, 2);
  EXPECT_THAT(used.err, HasSubstr("expected a new folder"));
  ASSERT_EQ(run(std::string(kStudy) + "--out a --shard 1/2").code, 0);
  const auto other = run(std::string(kStudy) + "--out a --set batch=5");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("another --out"));
}

}  // namespace
}  // namespace kvphase
