// Does a period stand out from columns that merely differ? Internal to stats; shared by both
// searches.
//
// Where all observations sit at a few positions (residues of counts, positions that items share),
// these columns may differ for reasons without a period, and then some period always explains part
// of it. So the phases of a period must differ more than the columns inside a phase do, whether
// these differ by noise or not: columns are taken as a normal sample, y_j = mean + trend + phase +
// e_j, and two F tests ask for the phases (both exact for normal e_j of any variance):
//   all phases:  F = (explained / (s - 1)) / (left / columns left),   s - 1 of them
//   one phase:   F = (explained by the best single phase) / (left / columns left),   1 of them
// with `left` what all phases together leave. The second is what finds one weak phase of many.
// Multiplicity: the first p is divided by the candidate's share (s-1) / sum (s'-1) of the level,
// the second multiplied by the number of phases of all candidates; 1.2 times the smaller counts.
//
// Fewer than 12 columns leave no trend out: a trend over 8 residues that matters would be seen
// inside phases, and its degree of freedom is a quarter of all there is. With 12 or more a trend
// (degree 2 or 3) is a covariate, which can turn half of a long wave into a period; so the same
// tests with a straight line instead, of this period alone, must not contradict (`visible`).
//
// The price in power is that of estimating the noise from few columns (fit_power).
//
// What this cannot tell: two residues, equally weak and half a modulus apart, are a weak phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stats/columns.h"
#include "stats/period.h"

namespace kvphase::stats {

struct PeriodFit {
  double p = 1;  // adjusted for the candidates
  std::optional<double>
      p_visible;  // a straight line for a trend, this period alone; 12 columns or more
};

// y: a mean per column. searched: all candidates of the search, the period among them.
PeriodFit fit_period(const ColumnFolder& columns, const std::vector<double>& y, std::int64_t period,
                     std::span<const std::int64_t> searched);

// Chance that one phase of `period`, apart from all others, passes at `level` among `columns`
// columns of equal weight whose noise has no other source. lambda: the phases' sum of squares over
// the noise variance (n d^2 (s-1) / (s^2 sigma^2) for a dip d in n observations).
double fit_power(std::size_t columns, std::int64_t period, std::span<const std::int64_t> searched,
                 double lambda, double level);

// Sets result.p_fit, and withdraws result.period, with the reason, where it does not stand out.
// word: "residues" | "positions". p_order: of the columns in any order (rearranged_p), where it was
// worked out: it must not contradict either.
void apply_fit(PeriodResult& result, const PeriodFit& fit, std::optional<double> p_order,
               std::string_view word);

}  // namespace kvphase::stats
