#include "base/clock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

namespace kvphase::base {

namespace {

std::tm utc() {
  return fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
}

}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc()); }
std::string utc_stamp() { return fmt::format("{:%Y%m%d-%H%M%S}", utc()); }

std::string format_duration(double seconds) {
  const long total = std::lround(seconds);
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

}  // namespace kvphase::base
