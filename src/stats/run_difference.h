// Two models asked the same prompts: by how much do mean, worst group and gap differ?
//
// Groups are phases or residues. Items are the clusters: the prompts of one item may depend on one
// another and on the other model's answers to them in any way.
//
// Worst and gap are chosen after looking at all groups, so a resampled difference of them is biased
// where groups tie (a flat control), and a p-value from 2,000 replicates cannot survive a
// correction over hundreds of comparisons. So both rest on bounds for fixed groups instead. With
// group means A_g and B_h and P groups,
//   min A - min B = min_g max_h (A_g - B_h) <= A_g - min B  for every g,
// and max_h of one-sided upper bounds of A_g - B_h bounds A_g - min B whichever h is B's worst (an
// intersection-union test: no correction over h). One bound per g: Bonferroni over P, alpha / 2P.
// The lower bound exchanges the roles; the gap does the same with pairs of different groups, P(P-1)
// in place of P. The bounds hold for ties, contain the estimate, and are wide where many groups are
// near the extreme. p: twice the smallest level at which a bound excludes 0.
//
// Standard errors: linearised cluster sums, Student's t with items - 1 degrees of freedom (as
// paired.h's clustered mean); the variance of a contrast of c means is at least c / (n + 2)^2, n
// prompts each: Bonett and Price's for pairs without a discordant one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stats/estimate.h"

namespace kvphase::stats {

// One prompt, both replies usable.
struct PromptPair {
  std::int64_t item = 0;
  std::int64_t group_a = 0;  // 0..groups-1; differs from group_b where servers add tokens
  std::int64_t group_b = 0;
  double a = 0;  // score: right 1, wrong 0
  double b = 0;
};

struct DifferenceTest {
  Estimate estimate;        // A - B
  std::optional<double> p;  // two-sided, of no difference; empty with the estimate's reason
};

struct RunDifference {
  std::int64_t items = 0;
  std::int64_t prompts = 0;
  std::int64_t groups = 0;  // with prompts of both
  DifferenceTest mean;
  DifferenceTest worst;
  DifferenceTest gap;
  // Items that A has right at more prompts than B, and fewer: McNemar's test of items in its mid-p
  // form, which needs no normal approximation.
  std::int64_t items_for_a = 0;
  std::int64_t items_for_b = 0;
  std::optional<double> p_items;
};

// Throws a usage error for a group outside 0..groups-1. Fewer than two items: values, no tests.
RunDifference run_difference(std::span<const PromptPair> pairs, std::int64_t groups,
                             double level = 0.95);

}  // namespace kvphase::stats
