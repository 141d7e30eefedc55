#include "lab/shared.h"

#include "base/error.h"

namespace kvphase::lab {

void check_stride(std::int64_t stride, std::int64_t modulus, std::string_view scope) {
  if (stride >= 2 && modulus % stride == 0 && modulus / stride >= 2) return;
  throw base::usage_error(scope,
                          "expected a modulus that is twice the stride {} or another multiple, got "
                          "{}; use --modulus {} or another --stride",
                          stride, modulus, 2 * stride);
}

std::vector<std::string> names_of_phases(std::int64_t stride) {
  std::vector<std::string> names;
  for (std::int64_t phase = 0; phase < stride; ++phase) names.push_back(fmt::format("{}", phase));
  return names;
}

std::string p_cell(std::optional<double> p) {
  if (!p) return "-";
  return *p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", *p);
}

}  // namespace kvphase::lab
