#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/stop.h"

namespace kvphase::base {
namespace {

struct Running {
  std::size_t job = 0;
  pid_t pid = -1;
  int pipe = -1;  // its stderr
  std::string partial;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::any_of(
        extra.begin(), extra.end(), [&](const auto& e) { return text.starts_with(e.first + "="); });
    if (!replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : extra) result.push_back(name + "=" + value);
  return result;
}

Running start(std::size_t index, const Job& job, std::size_t command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw environment_error("process", "expected a pipe, got: {}", std::strerror(errno));
  }
  std::vector<std::string> words = job.commands[command];
  std::vector<std::string> variables = environment_with(job.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  // A process group of its own: Ctrl-C in a terminal reaches it once, through run_jobs.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Running running{.job = index, .pipe = ends[0]};
  const int error = ::posix_spawnp(&running.pid, words.front().c_str(), &actions, &attributes,
                                   pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    throw environment_error("process", "expected to start {}, got: {}", words.front(),
                            std::strerror(error));
  }
  return running;
}

// Reads what is there; false at the end of the stream.
bool read_lines(Running& running, const std::function<void(std::string_view)>& on_line) {
  char buffer[4096];
  const ssize_t count = ::read(running.pipe, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return true;
  if (count > 0) running.partial.append(buffer, static_cast<std::size_t>(count));
  for (auto newline = running.partial.find('\n'); newline != std::string::npos;
       newline = running.partial.find('\n')) {
    on_line(std::string_view(running.partial).substr(0, newline));
    running.partial.erase(0, newline + 1);
  }
  if (count <= 0 && !running.partial.empty()) on_line(running.partial);
  return count > 0;
}

int wait_status(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::vector<JobOutcome> run_jobs(
    const std::vector<Job>& jobs, std::size_t workers,
    const std::function<void(const Job&, std::string_view line)>& on_line) {
  std::vector<JobOutcome> outcomes(jobs.size());
  std::vector<Running> running;
  std::size_t next = 0;
  bool interrupted = false;
  const auto launch = [&](std::size_t job) {
    running.push_back(start(job, jobs[job], outcomes[job].commands_run));
    ++outcomes[job].commands_run;
  };
  try {
    for (;;) {
      while (!stop_requested() && next < jobs.size() && running.size() < workers) launch(next++);
      if (running.empty()) break;
      std::vector<pollfd> waits;
      for (const Running& r : running) waits.push_back({.fd = r.pipe, .events = POLLIN});
      ::poll(waits.data(), waits.size(), 200);
      if (stop_requested() && !interrupted) {
        interrupted = true;
        for (const Running& r : running) ::kill(r.pid, SIGINT);
      }
      for (std::size_t i = waits.size(); i-- > 0;) {
        if (waits[i].revents == 0) continue;
        const std::size_t job = running[i].job;
        const bool open = read_lines(running[i], [&](std::string_view line) {
          outcomes[job].last_line = line;
          if (on_line) on_line(jobs[job], line);
        });
        if (open) continue;
        ::close(running[i].pipe);
        outcomes[job].status = wait_status(running[i].pid);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        const std::vector<int>& accepted = jobs[job].accepted;
        if (std::ranges::find(accepted, outcomes[job].status) == accepted.end()) continue;
        const bool more = outcomes[job].commands_run < jobs[job].commands.size();
        if (more && !stop_requested()) launch(job);
        outcomes[job].done = !more;
      }
    }
  } catch (...) {
    for (const Running& r : running) {
      ::kill(r.pid, SIGTERM);
      ::close(r.pipe);
      wait_status(r.pid);
    }
    throw;
  }
  return outcomes;
}

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace kvphase::base
