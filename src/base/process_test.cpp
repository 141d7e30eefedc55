#include "base/process.h"

#include <gtest/gtest.h>

#include <map>

#include "base/clock.h"
#include "base/error.h"

namespace kvphase::base {
namespace {

Job shell(std::string name, const std::vector<std::string>& scripts) {
  Job job{.name = std::move(name)};
  for (const auto& script : scripts) job.commands.push_back({"sh", "-c", script});
  return job;
}

TEST(Jobs, RunSideBySideAndReportTheirLines) {
  std::map<std::string, std::vector<std::string>> lines;
  const Stopwatch watch;
  const auto outcomes = run_jobs(
      {shell("a", {"sleep 0.4; echo one >&2; echo two >&2"}),
       shell("b", {"sleep 0.4; printf unfinished >&2"})},
      2, [&](const Job& job, std::string_view line) { lines[job.name].emplace_back(line); });
  EXPECT_LT(watch.seconds(), 0.75);
  EXPECT_EQ(lines["a"], (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(lines["b"], std::vector<std::string>{"unfinished"});
  EXPECT_EQ(outcomes[0].status, 0);
}

TEST(Jobs, StopAtTheirFirstFailingCommandAndKeepItsReason) {
  const auto outcomes = run_jobs(
      {shell("a", {"true", "echo why >&2; exit 3", "echo never >&2"}), shell("b", {"kill -9 $$"})},
      1, {});
  EXPECT_EQ(outcomes[0].status, 3);
  EXPECT_EQ(outcomes[0].commands_run, 2U);
  EXPECT_EQ(outcomes[0].last_line, "why");
  EXPECT_EQ(outcomes[1].status, 128 + 9);
}

TEST(Jobs, GoOnAfterAnAcceptedStatusOnly) {
  Job job = shell("a", {"exit 3", "exit 3", "echo last >&2"});
  EXPECT_FALSE(run_jobs({job}, 1, {})[0].done);
  job.accepted = {0, 3};
  const auto outcome = run_jobs({job}, 1, {})[0];
  EXPECT_TRUE(outcome.done);
  EXPECT_EQ(outcome.commands_run, 3U);
  EXPECT_EQ(outcome.last_line, "last");
}

TEST(Jobs, SeeTheirEnvironment) {
  Job job = shell("a", {"test \"$KVPHASE_TEST\" = \"x y\""});
  job.environment = {{"KVPHASE_TEST", "x y"}};
  EXPECT_EQ(run_jobs({job}, 1, {})[0].status, 0);
}

TEST(Jobs, RefuseAMissingProgram) {
  EXPECT_THROW(run_jobs({{.name = "a", .commands = {{"/no/such/program"}}}}, 1, {}), Error);
}

}  // namespace
}  // namespace kvphase::base
