// Westfall and Young's single-step min-p: one p-value per candidate from its own null distribution,
// and one adjusted for having looked at all of them, whatever their dependence.
#pragma once

#include <cstddef>
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

// log of P(chi^2 with df degrees of freedom > x): finite where the probability itself underflows.
double log_upper_chi_squared(double x, double df);

}  // namespace kvphase::stats
