#include "base/clock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

namespace kvphase::base {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

std::string format_duration(double seconds) {
  const long total = std::lround(seconds);
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

}  // namespace kvphase::base
