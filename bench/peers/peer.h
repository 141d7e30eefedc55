// What the side-by-side programs share: running a peer in a process of its own, and ratios of
// rounds that alternate.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace kvphase::peers {

// What a program returns whose work is run().
template <class Run>
int exit_code_of(const Run& run) {
  try {
    return run();
  } catch (const base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.kind() == base::ErrorKind::kUsage ? 2 : 4;
  }
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What the command prints, as JSON. The environment governs its BLAS. Throws an environment error
// when it fails; its own words are on stderr then.
inline base::Json run_peer(std::int64_t threads, const std::string& command) {
  const std::string line =
      fmt::format("OMP_NUM_THREADS={0} OPENBLAS_NUM_THREADS={0} exec {1}", threads, command);
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) throw base::environment_error("bench", "expected to run {}", line);
  std::string text;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    text.append(block.data(), count);
  }
  if (::pclose(pipe) != 0) {
    throw base::environment_error("bench", "expected the peer to succeed: {}", line);
  }
  return base::parse_json(text, "peer");
}

// A folder that goes with the program.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvphase-peer-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw base::environment_error("bench", "expected to make {}", pattern);
    }
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// "2.91 (2.80 to 3.10 over 3 rounds)": theirs / ours of each round, seconds.
struct Ratio {
  double median = 0, low = 0, high = 0;
  std::size_t rounds = 0;
  std::string text() const {
    return fmt::format("{:.2f} ({:.2f} to {:.2f} over {} rounds)", median, low, high, rounds);
  }
};
inline Ratio ratio_of(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
  return {.median = median(ratios),
          .low = *std::min_element(ratios.begin(), ratios.end()),
          .high = *std::max_element(ratios.begin(), ratios.end()),
          .rounds = ratios.size()};
}

}  // namespace kvphase::peers
