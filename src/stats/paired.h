// Comparing phases on the same items: differences, a test over all phases, tests of pairs. Put
// together in contrasts.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/estimate.h"
#include "stats/score_table.h"

namespace kvphase::stats {

// Items x phases: each cell the mean score of one item at one phase. Items that miss a phase are
// left out (and counted): a paired comparison has no partner for them.
struct PhaseMatrix {
  std::size_t phases = 0;
  std::vector<double> cell;  // items x phases, row by row
  std::int64_t dropped = 0;  // items that miss a phase

  std::size_t items() const { return phases == 0 ? 0 : cell.size() / phases; }
  std::span<const double> row(std::size_t i) const {
    return std::span(cell).subspan(i * phases, phases);
  }
};
PhaseMatrix phase_matrix(const ScoreTable& table, std::int64_t phases);

// Mean over all observations with the clustered standard error (Miller 2024, appendix A, with the
// small-sample factor): sqrt(C/(C-1) sum_c (sum_{i in c} (s_i - mean))^2) / n, C items, n
// observations. Interval: Student's t with C-1 degrees of freedom, for right/wrong cut off at 0 and
// 1. Assumes independent items only. No spread: no error, with a reason.
struct ClusteredMean {
  Estimate estimate;  // n: observations
  std::optional<double> standard_error;
  std::int64_t items = 0;
};
ClusteredMean clustered_mean(const ScoreTable& table, double level = 0.95);

// Mean over items of (score at phase a - score at phase b), Student's t interval over items. On
// fresh items with a and b chosen before, this is the confirmed gap: unbiased, unlike the raw one.
// Where all items differ by the same -1, 0 or 1 there is no spread: Bonett and Price's interval.
Estimate phase_difference(const ScoreTable& table, std::int64_t phases, std::int64_t a,
                          std::int64_t b, double level = 0.95);

// The difference of two groups of different items, score at phase a - at phase b, every observation
// taken as independent: newcombe_difference for right/wrong, else Welch's t. n: observations.
Estimate unpaired_difference(const ScoreTable& table, std::int64_t phases, std::int64_t a,
                             std::int64_t b, double level = 0.95);

// p_a - p_b of two independent shares (Newcombe 1998, method 10): with Wilson's limits l, u,
// low = d - sqrt((p_a - l_a)^2 + (u_b - p_b)^2), high = d + sqrt((u_a - p_a)^2 + (p_b - l_b)^2).
Estimate newcombe_difference(std::int64_t correct_a, std::int64_t n_a, std::int64_t correct_b,
                             std::int64_t n_b, double level = 0.95);

// The same for right/wrong pairs from the four-fold table: n12 items right only at a, n21 only at
// b, of N (Bonett and Price 2012): with 1 added to each discordant count and 2 to N, d =
// (n12-n21)/N and SE = sqrt(n12+n21-(n12-n21)^2/N)/N. Keeps its coverage at small N, where Wald's
// does not.
Estimate bonett_price_difference(std::int64_t n12, std::int64_t n21, std::int64_t n,
                                 double level = 0.95);

// Cochran's Q (1950): do the phases differ at all? Q = P(P-1) sum_p (T_p - Tbar)^2 /
// (P sum L_i - sum L_i^2), written as (P-1) sum_p (T_p - Tbar)^2 / sum_ip (x_ip - xbar_i)^2, which
// is the same for 0/1 cells and holds for means and continuous scores too.
//
// p_permutation takes items as units: from 9 informative items on, every item's cells are moved
// over the phases together and by its own random amount (item_shift.h; of more than 250,000 cells a
// random sample of items), so that neighbours which go together or a pattern that repeats inside
// the P phases stay; with fewer, cells are permuted inside items. Left out when permutations is 0.
// p_chi_squared, with P-1 degrees of freedom, is of many informative items whose cells are
// exchangeable inside an item: it holds for independent answers, and for patterns of an item's own
// whose period is P, but not where they repeat inside the P phases (period 8 among 24 residues:
// 0.14 of sets at 0.05).
//
// An item with equal cells carries nothing; none left: p = 1, "no discordant item".
struct CochranResult {
  std::optional<double> q;
  std::optional<double> p_chi_squared;
  std::optional<double> p_permutation;
  std::int64_t items = 0;
  std::int64_t informative = 0;
  std::int64_t dropped = 0;
  std::string method;
  std::string reason;
};
CochranResult cochran_q(const PhaseMatrix& matrix, std::int64_t permutations = 10000,
                        std::uint64_t seed = 1);

// McNemar's test of two phases in its mid-p form (Fagerland, Lydersen and Laake 2013):
// 2 BinomCDF(min(b, c); b+c, 1/2) - pmf(min); 1 - pmf/2 when b = c. b, c: discordant items.
// No discordant item: 1.
double mcnemar_mid_p(std::int64_t b, std::int64_t c);

// An e-value for the same hypothesis that stays valid however often one looks:
// Beta(b+1/2, c+1/2)/Beta(1/2, 1/2) 2^(b+c) (mixture of likelihood ratios under Jeffreys' prior);
// reject at >= 1/alpha.
double mcnemar_e_value(std::int64_t b, std::int64_t c);

// Holm's step-down adjustment (1979), in the order given.
std::vector<double> holm(std::span<const double> p);

}  // namespace kvphase::stats
