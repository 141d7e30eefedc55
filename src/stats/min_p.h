// Westfall and Young's single-step min-p: one p-value per candidate from its own null distribution,
// and one adjusted for having looked at all of them, whatever their dependence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvphase::stats {

struct MinP {
  std::vector<double> raw;       // C; (1 + null as large) / (1 + B)
  std::vector<double> adjusted;  // C; share of null draws whose smallest p is as small
};

// observed: C statistics, larger = stronger. null: B rows of C, drawn jointly.
// Statistics that differ by less than 1e-9 of their size are ties (counted against the
// observation). Draws with the same smallest p (the largest of different candidates' nulls, above
// all) are ordered by their statistic relative to its candidate's mean over all draws, the
// observation among them: the order treats all draws alike, so the level is kept, and a strong
// pattern's p is not held up by candidates that do not show it.
MinP min_p(std::span<const double> observed, std::span<const double> null);

// The same where the rows of `null` are all that can happen, with their probabilities: exact.
MinP min_p_exact(std::span<const double> observed, std::span<const double> null,
                 std::span<const double> probability);

// Whether p, from this many draws, may lie on either side of `level` by chance (99.9 %).
bool undecided(double p, std::int64_t draws, double level);
// A test whose p is undecided goes on drawing, up to this many times what was asked for; not when
// fewer than kFewestToSettle were asked for, as in a study of many data sets.
inline constexpr std::int64_t kMostTimes = 16;
inline constexpr std::int64_t kFewestToSettle = 1000;

// log of P(chi^2 with df degrees of freedom > x): finite where the probability itself underflows.
double log_upper_chi_squared(double x, double df);

}  // namespace kvphase::stats
