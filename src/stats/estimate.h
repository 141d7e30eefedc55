// An estimate as statistics hand it out. Undefined is empty with a reason, never 0 and never NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvphase::stats {

struct Estimate {
  std::optional<double> value;
  std::optional<double> low;  // interval of nominal coverage `level`; empty side: no bound
  std::optional<double> high;
  std::int64_t n = 0;  // what the method counts: observations, items or pairs
  double level = 0.95;
  std::string method;  // the exact name, with what was assumed
  std::string reason;  // why value or interval is empty
};

}  // namespace kvphase::stats
