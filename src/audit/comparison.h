// Two models asked the same prompts: is the difference between them noise, hidden tokens (a
// rotation), a function of position (a period), of length (a threshold), or there everywhere? Must
// not know models or files.
//
// Every test permutes whole items (clusters), so that what the prompts of an item share is no
// evidence:
//   alike     D = sum_r (sum_i (a_ir - b_ir))^2 over residues r and items i, a and b right (1) or
//             wrong (0); A and B swapped per item. Rejects when accuracies differ at some residue.
//   shifted   the same with a_i,(r+k) in place of a_ir: not rejected when B answers as A does k
//             residues later, as it must when B puts k tokens in front that A does not.
//   flips     how much oftener the answers of A and B differ than those of A asked twice; the two
//             pairings swapped per item.
//   period    stats::find_period of a_ir - b_ir by position.
//   threshold the largest difference, over lengths L, of the share of flips at lengths >= L and
//             < L in standard errors; lengths permuted over items.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/comparison.h"
#include "record/observation.h"

namespace kvphase::audit {

struct ComparisonOptions {
  std::int64_t modulus = 8;  // R
  double level = 0.05;       // of each question; the three kinds share it (Bonferroni)
  std::int64_t permutations = 2000;
  std::uint64_t seed = 1;
};

// Observations of A and B by item, residue; `again`: A asked a second time, or empty. Names and
// context of the record are the caller's to fill in. Prompts that only one side has are missing on
// the other.
record::Comparison compare(std::span<const record::Observation> a,
                           std::span<const record::Observation> b,
                           std::span<const record::Observation> again,
                           const ComparisonOptions& options);

// The least total variation distance, max over S of P_a(S) - P_b(S), that two lists of likeliest
// first tokens prove: what one list leaves out has at most its rest there. Exact for lists of the
// whole vocabulary. Tokens are matched by text without leading blanks, which servers show or not.
// Empty: a list is missing, or one names ids and the other texts.
std::optional<double> total_variation(std::span<const record::AnswerProbability> a,
                                      std::span<const record::AnswerProbability> b);

}  // namespace kvphase::audit
