// One training in several processes, as a launcher starts them, on this machine over the loopback:
// the same bytes as one process, and an end with a name whichever way a process is lost.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "tests/support/free_port.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr const char* kTiny =
    "--recipe small-wc --set model.width=16 --set model.head_width=8 --set model.rope_dims=8 "
    "--set model.ff_width=16 --set language.haystack=16 --set language.records=3 "
    "--set language.queries=3 --set batch=7 --set checkpoint_interval=10 "
    "--set validation_sequences=8 ";

class Ranks : public test::Program {
 protected:
  struct Process {
    pid_t pid = -1;
    std::string name;  // of its output files
  };
  struct End {
    int code = -1;  // exit status; 128 + signal when killed
    std::string out;
    std::string err;
  };

  // Starts one rank; `variables` are put before RANK and so on.
  Process start(std::int64_t rank, std::int64_t ranks, std::uint16_t port,
                const std::string& arguments) {
    const std::string name = fmt::format("rank{}.{}", rank, started_++);
    const std::string command = fmt::format(
        "cd '{}' && RANK={} WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={} exec '{}' train {} "
        "--join-seconds 60 >{}.out 2>{}.err",
        folder_.string(), rank, ranks, port, KVPHASE_PROGRAM, arguments, name, name);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    return {.pid = child, .name = name};
  }
  std::vector<Process> start_all(std::int64_t ranks, const std::string& arguments) {
    const std::uint16_t port = test::free_port();
    std::vector<Process> processes;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      processes.push_back(start(rank, ranks, port, arguments));
    }
    return processes;
  }
  End wait_for(const Process& process) const {
    int status = 0;
    EXPECT_EQ(::waitpid(process.pid, &status, 0), process.pid);
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = read(process.name + ".out"),
            .err = read(process.name + ".err")};
  }
  std::vector<End> run_all(std::int64_t ranks, const std::string& arguments) {
    std::vector<End> ends;
    for (const Process& process : start_all(ranks, arguments)) ends.push_back(wait_for(process));
    return ends;
  }

  // Waits until the log of a training has reached a step on the disk.
  void wait_for_state(const std::string& folder) const {
    for (int i = 0; i < 6000; ++i) {
      std::error_code absent;
      for (const auto& entry : fs::directory_iterator(folder_ / folder / "resume", absent)) {
        if (entry.path().extension() != ".part") return;
      }
      std::this_thread::sleep_for(10ms);
    }
    FAIL() << "no checkpoint in " << folder;
  }

  std::vector<std::string> log_rows(const std::string& folder) const {  // without the seconds
    std::vector<std::string> rows;
    std::istringstream text(read(folder + "/log.csv"));
    for (std::string line; std::getline(text, line);) {
      rows.push_back(line.substr(0, line.rfind(',')));
    }
    return rows;
  }
  void expect_same_training(const std::string& one, const std::string& other) const {
    for (const char* name : {"model.safetensors", "config.json", "tokens.json"}) {
      EXPECT_TRUE(read(one + "/" + name) == read(other + "/" + name)) << name << " of " << other;
    }
    EXPECT_EQ(log_rows(one), log_rows(other));
    base::Json a = base::Json::parse(read(one + "/card.json"));
    base::Json b = base::Json::parse(read(other + "/card.json"));
    for (const char* key : {"started", "seconds"}) {
      a.erase(key);
      b.erase(key);
    }
    EXPECT_EQ(a, b);
    EXPECT_FALSE(fs::exists(folder_ / other / "resume"));
  }
  void expect_reference(const std::string& folder, int threads, int steps) {
    const auto outcome = run(
        fmt::format("train {} --steps {} --threads {} -q --out {}", kTiny, steps, threads, folder));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  int started_ = 0;
};

TEST_F(Ranks, AnyNumberOfProcessesTrainsTheBytesOfOneProcessWithAsManyThreads) {
  for (const auto& [ranks, threads] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{2, 2}}) {
    const std::string one = fmt::format("one{}", ranks * threads);
    const std::string many = fmt::format("many{}x{}", ranks, threads);
    expect_reference(one, ranks * threads, 25);
    // 7 sequences: no two shares of the batch are alike in size.
    const auto ends =
        run_all(ranks, fmt::format("{} --steps 25 --threads {} -q --out {}", kTiny, threads, many));
    for (const End& end : ends) EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_THAT(ends[0].out, HasSubstr("trained in"));
    EXPECT_THAT(ends[1].out + ends[1].err, IsEmpty());
    expect_same_training(one, many);
  }
}

TEST_F(Ranks, AKilledRankEndsTheOthersWithItsNameAndTheTrainingGoesOn) {
  expect_reference("whole", 3, 400);
  for (const std::size_t victim : {1U, 0U}) {
    const std::string folder = fmt::format("killed{}", victim);
    const auto processes = start_all(3, fmt::format("{} --steps 400 -q --out {}", kTiny, folder));
    wait_for_state(folder);
    ASSERT_EQ(::kill(processes[victim].pid, SIGKILL), 0);
    const auto killed = std::chrono::steady_clock::now();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const End end = wait_for(processes[rank]);
      if (rank == victim) {
        ASSERT_EQ(end.code, 128 + SIGKILL) << "it was too fast to be killed";
        continue;
      }
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - killed;
      std::printf("rank %zu, %.1f s after: %s", rank, spent.count(), end.err.c_str());
      EXPECT_EQ(end.code, 4);
      EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
      EXPECT_THAT(end.err, HasSubstr(fmt::format("[train] rank {} of 3 (", victim)));
      EXPECT_THAT(end.err,
                  HasSubstr(fmt::format(", pid {}) is gone after step ", processes[victim].pid)));
      EXPECT_THAT(end.err, HasSubstr(fmt::format("last checkpoint: {}/resume/step-", folder)));
      EXPECT_THAT(end.err,
                  HasSubstr(fmt::format("continue with: kvphase train --resume {}", folder)));
      EXPECT_LT(spent.count(), 20);
    }
    // By as many processes as before, or by one.
    if (victim == 0) {
      const auto ends = run_all(3, fmt::format("--resume {} -q", folder));
      for (const End& end : ends) EXPECT_EQ(end.code, 0) << end.err;
    } else {
      const auto resumed = run(fmt::format("train --resume {} -q", folder));
      EXPECT_EQ(resumed.code, 0) << resumed.err;
    }
    expect_same_training("whole", folder);
  }
}

TEST_F(Ranks, AStopOfAnyRankStopsAllAndIsResumed) {
  expect_reference("whole", 2, 400);
  const auto processes = start_all(2, fmt::format("{} --steps 400 -q --out stopped", kTiny));
  wait_for_state("stopped");
  ASSERT_EQ(::kill(processes[1].pid, SIGTERM), 0);
  const End first = wait_for(processes[0]);
  const End second = wait_for(processes[1]);
  EXPECT_EQ(first.code, 130) << first.err;
  EXPECT_EQ(second.code, 130) << second.err;
  EXPECT_THAT(first.err, ContainsRegex("stopped after step [0-9]+ of 400, saved"));
  EXPECT_THAT(second.err, IsEmpty());
  for (const End& end : run_all(2, "--resume stopped -q")) EXPECT_EQ(end.code, 0) << end.err;
  expect_same_training("whole", "stopped");
  // Complete: every rank says so.
  for (const End& end : run_all(2, "--resume stopped -q")) EXPECT_EQ(end.code, 0) << end.err;
}

TEST_F(Ranks, ARankThatHangsIsLostAfterTheTimeGiven) {
  const auto processes =
      start_all(2, fmt::format("{} --steps 1000000 -q --out hanging --silent-seconds 3", kTiny));
  wait_for_state("hanging");
  ASSERT_EQ(::kill(processes[1].pid, SIGSTOP), 0);
  const auto stopped = std::chrono::steady_clock::now();
  const End end = wait_for(processes[0]);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - stopped;
  std::printf("%.1f s after: %s", spent.count(), end.err.c_str());
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.err, HasSubstr("[train] rank 1 of 2 ("));
  EXPECT_GT(spent.count(), 2);
  EXPECT_LT(spent.count(), 20);
  ::kill(processes[1].pid, SIGKILL);
  wait_for(processes[1]);
}

TEST_F(Ranks, DifferentOptionsAreRefusedByName) {
  const std::uint16_t port = test::free_port();
  const std::vector<Process> processes = {
      start(0, 2, port, fmt::format("{} --seed 1 -q --out a", kTiny)),
      start(1, 2, port, fmt::format("{} --seed 2 --set learning_rate=0.5 -q --out a", kTiny))};
  for (const Process& process : processes) {
    const End end = wait_for(process);
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
    EXPECT_THAT(end.err,
                AllOf(HasSubstr("options.seed (1 on rank 0, 2 on rank 1)"),
                      HasSubstr("options.learning_rate (0.003 on rank 0, 0.5 on rank 1)")));
    std::printf("%s", end.err.c_str());
  }
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(Ranks, AnErrorOfTheFirstRankReachesAll) {
  fs::create_directories(folder_ / "used");
  write("used/mine", "precious");
  for (const End& end : run_all(2, fmt::format("{} -q --out used", kTiny))) {
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_THAT(end.err, HasSubstr("exists"));
  }
  EXPECT_EQ(read("used/mine"), "precious");
  for (const End& end : run_all(2, "-q --resume absent")) {
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_THAT(end.err, HasSubstr("absent"));
  }
}

TEST_F(Ranks, BadLaunchesGetOneLine) {
  struct Case {
    const char* variables;
    const char* arguments;
    const char* says;
    int code;
  };
  const std::string port = fmt::to_string(test::free_port());
  for (const Case& c : std::initializer_list<Case>{
           {"WORLD_SIZE=2", "", "got WORLD_SIZE without RANK, MASTER_ADDR, MASTER_PORT", 2},
           {"RANK=2 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={}", "", "RANK of 0 to 1", 2},
           {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={}", "",
            "expected rank 0 of 2 to listen", 4},
           {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={}", "", "got no sign of rank 1",
            4},
           {"RANK=0 WORLD_SIZE=9 MASTER_ADDR=localhost MASTER_PORT={}", "",
            "got a batch of 7 for 9 processes of 1 threads", 2},
           {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={}", "--backend mpi",
            "gloo or nccl", 2},
           {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT={}", "--silent-seconds 0",
            "--silent-seconds", 2},
       }) {
    const auto outcome =
        run(fmt::format("train {} --join-seconds 1 --out r {}", kTiny, c.arguments), ".out",
            fmt::format(fmt::runtime(c.variables), port));
    EXPECT_EQ(outcome.code, c.code) << c.variables << "\n" << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.says)) << c.variables;
  }
  EXPECT_FALSE(fs::exists(folder_ / "r"));
}

}  // namespace
}  // namespace kvphase
