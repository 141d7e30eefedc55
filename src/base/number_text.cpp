#include "base/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace kvphase::base {

std::string decimal_text(double value, int decimals) {
  constexpr double kManyDigits = 1e6;
  if (std::abs(value) >= kManyDigits) return fmt::format("{:.4g}", value);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // "-0.0" says something that the number does not.
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string score_text(double score) {
  const bool small = score != 0 && std::abs(score) < 0.01;
  return small ? fmt::format("{:.3g}", score) : decimal_text(score, 3);
}

}  // namespace kvphase::base
