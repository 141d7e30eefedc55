// Wall-clock stamps and a stopwatch.
#pragma once

#include <chrono>
#include <string>

namespace kvphase::base {

std::string utc_stamp();                      // "20261130-032112", for file names
std::string utc_now();                        // "2026-11-30T03:21:12Z"
std::string format_duration(double seconds);  // "45 s", "3 min 05 s", "2 h 10 min"

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kvphase::base
