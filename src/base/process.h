// Child processes: independent jobs of one program, run side by side, their stderr read line by
// line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvphase::base {

struct Job {
  std::string name;
  // Commands (program and arguments) run one after the other until one fails.
  std::vector<std::vector<std::string>> commands;
  std::vector<int> accepted = {0};  // exit statuses that are no failure
  std::vector<std::pair<std::string, std::string>>
      environment;  // set in addition to this process's
};

struct JobOutcome {
  int status = 0;  // exit status of the last command run; 128 + signal when killed
  std::size_t commands_run = 0;
  std::string last_line;  // of its stderr: the reason when it failed
  bool done = false;      // all commands ran, none failed
};

// Runs the jobs, at most `workers` at a time, in order. on_line gets every stderr line of a job as
// it comes, from one thread at a time; stdout is discarded. Stops starting commands on
// base::stop_requested() and passes SIGINT on to the running ones. Throws an environment error when
// a program cannot be started.
std::vector<JobOutcome> run_jobs(
    const std::vector<Job>& jobs, std::size_t workers,
    const std::function<void(const Job&, std::string_view line)>& on_line);

// The path of the running program.
std::string program_path();

}  // namespace kvphase::base
