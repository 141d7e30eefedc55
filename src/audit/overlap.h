// Do two data sets hold the same items? Files rarely say: item numbers start at 0 in both, and
// fresh items sit at the same positions by design. So answers are compared. Internal to audit/.
//
// Rows: an item's pattern is its replies and scores in the order of its positions. Patterns that an
// own data set holds once tell items apart; those seen more often (all right) say nothing. A fresh
// item that repeats a telling pattern of the first data may be that item. By chance a new item does
// so with probability about 2 f2 / n (Good and Turing 1953: f2 patterns seen exactly twice among n
// items); (2 f2 + 1) / n of the larger is taken, and the number of repeated ones is held against a
// binomial with it. Counts: residues with the same n and the same right answers; two independent
// binomials agree with probability of about 1 / (2 sqrt(pi) sd).
//
// What it cannot see: the same items answered differently (another model, sampling), items whose
// patterns are common, parts of counts.
#pragma once

#include <cstdint>
#include <optional>

#include "record/table.h"

namespace kvphase::audit {

struct Overlap {
  std::int64_t alike = 0;  // fresh items (counts: residues) that repeat one of the first data
  std::int64_t of = 0;     // fresh items, or residues with prompts
  double expected = 0;     // of them by chance, at most
  double p = 1;            // chance of so many
};

// Empty: nothing repeated, or the data are of different kinds.
std::optional<Overlap> find_overlap(const record::Dataset& first, const record::Dataset& fresh);

}  // namespace kvphase::audit
