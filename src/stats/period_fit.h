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
// (degree 2 or 3) is a covariate, which can turn half of a long wave into a period, and a step in
// the middle is a line and a period of half of the columns; so the same tests beside a straight
// line instead, of this period alone, must not contradict at twice the level (`p_visible`), and
// with fewer than 3 cycles beside a line and the best single step, at the level (p is doubled).
//
// A multiple of a period must stand out in the same way from columns that differ inside its phases
// (fit_multiples): a step or one odd column on top of a period of 4 is no period of 12.
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
      p_visible;  // a line, and a step, for a trend, this period alone; 12 columns or more
};

// y: a mean per column. searched: all candidates of the search, the period among them.
PeriodFit fit_period(const ColumnFolder& columns, const std::vector<double>& y, std::int64_t period,
                     std::span<const std::int64_t> searched);

// The same p for phases mod each of `to` beside those mod `from`, a step and the trend, adjusted
// for all of `to`. 0, no objection, with fewer than 12 columns, too few to estimate their scatter
// beside two periods, and where `from` does not stand out itself.
std::vector<double> fit_multiples(const ColumnFolder& columns, const std::vector<double>& y,
                                  std::int64_t from, std::span<const std::int64_t> to,
                                  double level);

// The significant candidate that stands out most from columns that merely differ; empty: none does,
// or there are fewer than 12 columns.
// What the search calls the strongest may be another: out of two cycles of 12 positions the trend
// takes so much that 10 or 11 seem to explain more.
std::optional<std::size_t> best_fitting(const ColumnFolder& columns, const std::vector<double>& y,
                                        std::span<const PeriodCandidate> candidates, double level);

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
