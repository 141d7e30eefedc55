// Which residues are asked when asking all of them costs too much: for a stride S over 64, the
// phases that straddle a window's boundary and steps of S/8.
#pragma once

#include <cstdint>
#include <vector>

namespace kvphase::task {

inline constexpr std::int64_t kMostFullModulus = 64;

// All of 0..R-1 for R <= 64 or `every`; else, 0, 1 and every R/8th: 11 of 128. R over 64
// must be a multiple of 8 then (usage error).
std::vector<std::int64_t> audited_residues(std::int64_t modulus, bool every);

// How the base positions of items are spread: their classes (base mod R) are 0, step, 2*step, ..
// A subset takes steps of R/8, so that prompts of one haystack need few shifted versions of it.
std::int64_t class_step(std::int64_t modulus, bool every);

}  // namespace kvphase::task
