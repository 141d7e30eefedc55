#include "task/residue_set.h"

#include <numeric>
#include <set>

#include "base/error.h"

namespace kvphase::task {
namespace {

constexpr std::int64_t kSteps = 8;

void check(std::int64_t R) {
  if (R % kSteps != 0) {
    throw base::usage_error("task",
                            "expected a modulus over {} to be a multiple of {}, got {}; use "
                            "--modulus {} or ask every residue",
                            kMostFullModulus, kSteps, R, (R / kSteps + 1) * kSteps);
  }
}

}  // namespace

std::vector<std::int64_t> audited_residues(std::int64_t R, bool every) {
  if (R < 2) throw base::usage_error("task", "expected a modulus of at least 2, got {}", R);
  std::vector<std::int64_t> residues(static_cast<std::size_t>(R));
  std::iota(residues.begin(), residues.end(), 0);
  if (every || R <= kMostFullModulus) return residues;
  check(R);
  std::set<std::int64_t> some = {R - 2, R - 1, 0, 1};
  for (std::int64_t r = 0; r < R; r += R / kSteps) some.insert(r);
  return {some.begin(), some.end()};
}

std::int64_t class_step(std::int64_t R, bool every) {
  if (every || R <= kMostFullModulus) return 1;
  check(R);
  return R / kSteps;
}

}  // namespace kvphase::task
