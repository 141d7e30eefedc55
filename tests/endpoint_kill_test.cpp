// An audit of a server that is killed, interrupted or out of disk: nothing that was answered is
// lost, and the resumed run finds what an undisturbed one finds.
#include <gmock/gmock.h>
#include <signal.h>

#include <utility>

#include "base/random.h"
#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::completions;
using test::kLookupTask;
using test::Outcome;
using ::testing::HasSubstr;

class EndpointKill : public test::EndpointProgram {
 protected:
  // A model that takes its time, so that there is something to interrupt.
  static scripted::Handler slow_engine(double seconds) {
    const scripted::Handler engine = scripted::vllm_engine(test::weak_lookup(), "kvphase");
    return [engine, seconds](const scripted::Request& request) {
      scripted::Reply reply = engine(request);
      if (test::is_completion(request)) reply.delay = seconds;
      return reply;
    };
  }
  std::string start_or_resume(const std::string& url, const std::string& folder) const {
    const bool started = fs::exists(folder_ / folder / "manifest.json");
    return fmt::format("audit {} {} {} {}", url, kLookupTask, started ? "--resume" : "--out",
                       folder);
  }
  void expect_undisturbed(const std::string& url) {
    ASSERT_EQ(run(fmt::format("audit {} {} --out undisturbed", url, kLookupTask)).code, 0);
    EXPECT_EQ(findings("run"), findings("undisturbed"));
    const auto undisturbed = journal("undisturbed");
    EXPECT_EQ(journal("run").size(), undisturbed.size()) << "a prompt was journalled twice";
  }
};

TEST_F(EndpointKill, KillingAtAHundredRandomMomentsLosesAtMostTheRequestsInFlight) {
  constexpr int kKills = 100;
  constexpr std::int64_t kInFlight = 4;  // the default of --concurrency
  constexpr std::int64_t kProof = 3;     // requests of each session's position proof
  scripted::ScriptedServer server(slow_engine(0.004));
  base::Random random(1);
  std::int64_t in_the_middle = 0;  // kills that left an unfinished journal with lines
  std::int64_t all_lost = 0;
  const double startup =
      run(fmt::format("audit {} {} --dry-run", server.url(), kLookupTask)).seconds;
  for (int kill = 0; kill < kKills; ++kill) {
    const auto lines_before =
        fs::exists(folder_ / "run/journal.jsonl") ? std::ssize(journal("run")) : std::ptrdiff_t{0};
    run(start_or_resume(server.url(), "run"), ".out",
        fmt::format("timeout -s KILL {:.4f}",
                    startup * random.uniform() + 0.04 * random.uniform()));
    const auto lines =
        fs::exists(folder_ / "run/journal.jsonl") ? std::ssize(journal("run")) : std::ptrdiff_t{0};
    ASSERT_GE(lines, lines_before);
    // Over all sessions: what a killed one had under way may reach the server a little later.
    const std::int64_t lost = completions(server) - lines;
    ASSERT_LE(lost, (kill + 1) * (kProof + kInFlight)) << "kill " << kill;
    all_lost = lost;
    in_the_middle += lines > 0 && lines < 512 ? 1 : 0;
  }
  const std::int64_t before = std::ssize(journal("run"));
  const Outcome last = run(start_or_resume(server.url(), "run"));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_GE(in_the_middle, 20);
  fmt::print(
      "{} kills, {} of them with a part of the replies in the journal ({} of 512 at the "
      "end); {:.1f} requests a session were no line, its position proof of {} among them\n",
      kKills, in_the_middle, before, static_cast<double>(all_lost) / kKills, kProof);
  expect_undisturbed(server.url());
}

TEST_F(EndpointKill, AnInterruptEndsCleanlyAndTheRunIsResumed) {
  // The server itself interrupts the program, in the middle of its replies.
  const scripted::Handler engine = slow_engine(0.003);
  bool interrupted = false;
  scripted::ScriptedServer server([&](const scripted::Request& request) {
    if (request.index == 150 && !std::exchange(interrupted, true)) {
      ::kill(std::stoi(read("pid")), SIGINT);
    }
    return engine(request);
  });
  const Outcome stopped =
      run(start_or_resume(server.url(), "run"), ".out", "sh -c 'echo $$ >pid; exec \"$0\" \"$@\"'");
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("--resume run"));
  const auto lines = journal("run");
  EXPECT_GT(lines.size(), 100U);
  EXPECT_LT(lines.size(), 160U);
  for (const record::Observation& o : lines) EXPECT_TRUE(o.correct) << o.reply_class;
  ASSERT_EQ(run(start_or_resume(server.url(), "run")).code, 0);
  expect_undisturbed(server.url());
}

TEST_F(EndpointKill, AFullDiskIsSaidAndLosesNothing) {
  scripted::ScriptedServer server(slow_engine(0));
  const Outcome full = run(start_or_resume(server.url(), "run"), ".out",
                           "trap '' XFSZ; ulimit -f 40;");  // 20 KiB for any one file
  EXPECT_EQ(full.code, 4) << full.err;
  EXPECT_THAT(full.err, HasSubstr("journal.jsonl"));
  const std::string text = read("run/journal.jsonl");
  EXPECT_TRUE(text.ends_with("}\n")) << "the journal holds whole lines only";
  EXPECT_GT(journal("run").size(), 20U);
  ASSERT_EQ(run(start_or_resume(server.url(), "run")).code, 0);
  expect_undisturbed(server.url());
}

TEST_F(EndpointKill, AFolderLeftEmptyByAKillCanBeUsed) {
  scripted::ScriptedServer server(slow_engine(0));
  fs::create_directories(folder_ / "run");
  write("run/manifest.json.part", "{");
  EXPECT_EQ(run(fmt::format("audit {} {} --out run", server.url(), kLookupTask)).code, 0);
  fs::create_directories(folder_ / "mine");
  write("mine/notes.txt", "mine");
  EXPECT_EQ(run(fmt::format("audit {} {} --out mine", server.url(), kLookupTask)).code, 2);
}

}  // namespace
}  // namespace kvphase
