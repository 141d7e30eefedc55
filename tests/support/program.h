// Runs the program as a user does, by the shell, in a folder of the test's own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"

namespace kvphase::test {

struct Outcome {
  int code = 0;  // exit status; -1: killed
  std::string out;
  std::string err;
  double seconds = 0;

  std::size_t error_lines() const {
    return static_cast<std::size_t>(std::count(err.begin(), err.end(), '\n'));
  }
};

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvphase-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `kvphase ARGUMENTS`; `before` is shell put before it, e.g. "OMP_NUM_THREADS=1".
  Outcome run(const std::string& arguments, const std::string& out = ".out",
              const std::string& before = "") const {
    const std::string command = fmt::format("cd '{}' && {} '{}' {} >{} 2>.err", folder_.string(),
                                            before, KVPHASE_PROGRAM, arguments, out);
    const auto start = std::chrono::steady_clock::now();
    const int status = std::system(command.c_str());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = out == ".out" ? base::read_file(folder_ / out) : "",
            .err = base::read_file(folder_ / ".err"),
            .seconds = spent.count()};
  }
  // The same, with one Ctrl-C once the program has written to its standard error (that it is at
  // work, not how long it took to start, is what a stop needs).
  Outcome interrupted(const std::string& arguments) const {
    return run(
        arguments, ".out",
        R"(sh -c '"$0" "$@" & until [ -s .err ] || ! kill -0 $!; do sleep 0.02; done; kill -INT $!; wait $!')");
  }
  void write(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text);
  }
  std::string read(const std::string& name) const { return base::read_file(folder_ / name); }

  std::filesystem::path folder_;
};

}  // namespace kvphase::test
