#include "stats/period_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/non_central_f.hpp>

#include "stats/period_choice.h"

namespace kvphase::stats {
namespace {

// P(F as large) of `squares` with df degrees of freedom against what the fit leaves.
double upper_p(double squares, double df, const ColumnFolder::Fit& fit) {
  if (df < 1 || fit.left < 1 || !(squares > 0)) return 1;
  if (!(fit.within > 1e-12 * squares)) return 0;
  const double f = (squares / df) / (fit.within / fit.left);
  return boost::math::cdf(boost::math::complement(boost::math::fisher_f(df, fit.left), f));
}

// What the p-values of all phases and of one phase are multiplied by.
struct Price {
  double all = 0;
  double one = 0;
};

// from: the period below, 1 for none.
Price price_of(std::int64_t period, std::span<const std::int64_t> searched, std::int64_t from = 1) {
  Price price;
  for (const auto s : searched) {
    price.all += static_cast<double>(s - from) / static_cast<double>(period - from);
    price.one += static_cast<double>(s);
  }
  return price;
}

// For taking the smaller of two p-values that mostly reject together: with it the calibration
// study's settings stay below 0.06 at level 0.05 (without it one reaches 0.065; twice would be
// sure).
constexpr double kTwoTests = 1.2;

double smaller_p(const ColumnFolder::Fit& fit, const Price& price) {
  return std::min(1.0, kTwoTests * std::min(price.all * upper_p(fit.between, fit.phases, fit),
                                            price.one * upper_p(fit.one, 1, fit)));
}

}  // namespace

PeriodFit fit_period(const ColumnFolder& columns, const std::vector<double>& y, std::int64_t period,
                     std::span<const std::int64_t> searched) {
  const bool many = columns.columns() >= kColumnsToRearrange;
  PeriodFit fit{.p = smaller_p(columns.fit(y, period, many ? columns.degree() : 0),
                               price_of(period, searched))};
  if (many) {
    // Beside a step twice: half of the level.
    fit.p_visible = std::min(1.0, (columns.like_a_step(period) ? 2 : 1) *
                                      smaller_p(columns.fit_beside_step(y, period, 1, 1),
                                                price_of(period, std::span(&period, 1))));
  }
  return fit;
}

std::vector<double> fit_multiples(const ColumnFolder& columns, const std::vector<double>& y,
                                  std::int64_t from, std::span<const std::int64_t> to,
                                  double level) {
  std::vector<double> p(to.size());
  if (columns.columns() < kColumnsToRearrange) return p;
  const PeriodFit below = fit_period(columns, y, from, std::span(&from, 1));
  if (below.p > level || below.p_visible.value_or(0) > guard_level(level)) return p;
  for (std::size_t k = 0; k < to.size(); ++k) {
    p[k] = smaller_p(columns.fit_beside_step(y, to[k], from, columns.degree()),
                     price_of(to[k], to, from));
    if (p[k] > level || !columns.like_a_step(to[k])) continue;
    // Of two cycles one odd column makes half a phase.
    const Price alone = price_of(to[k], std::span(&to[k], 1), from);
    for (const auto& fit : columns.fits_without_one(y, to[k], from, columns.degree())) {
      p[k] = std::max(p[k], smaller_p(fit, alone));
    }
  }
  return p;
}

std::optional<std::size_t> best_fitting(const ColumnFolder& columns, const std::vector<double>& y,
                                        std::span<const PeriodCandidate> candidates, double level) {
  std::optional<std::size_t> best;
  if (columns.columns() < kColumnsToRearrange) return best;
  double least = level;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (candidates[c].p_adjusted > level) continue;
    const PeriodFit fit = fit_period(columns, y, candidates[c].period, columns.candidates());
    if (fit.p > least || fit.p_visible.value_or(0) > guard_level(level)) continue;
    best = c;
    least = fit.p;
  }
  return best;
}

double fit_power(std::size_t columns, std::int64_t period, std::span<const std::int64_t> searched,
                 double lambda, double level) {
  const int degree = columns >= kColumnsToRearrange ? trend_degree(columns) : 0;
  const double left =
      static_cast<double>(columns) - static_cast<double>(period) - static_cast<double>(degree);
  if (left < 1) return 0;
  const Price price = price_of(period, searched);
  const auto power = [&](double df, double alpha) {
    const double critical = boost::math::quantile(
        boost::math::complement(boost::math::fisher_f(df, left), std::min(alpha, 0.999)));
    return boost::math::cdf(
        boost::math::complement(boost::math::non_central_f(df, left, lambda), critical));
  };
  return std::max(power(static_cast<double>(period - 1), level / (kTwoTests * price.all)),
                  power(1, level / (kTwoTests * price.one)));
}

void apply_fit(PeriodResult& result, const PeriodFit& fit, std::optional<double> p_order,
               std::string_view word) {
  result.p_fit = fit.p;
  const std::int64_t period = *result.period;
  const std::string differ = fmt::format("{} differ (period {} alone would be p = {:.2g})", word,
                                         period, result.p_value.value_or(1));
  std::string why;
  if (fit.p > result.level) {
    why = fmt::format(
        "{}, but period {} does not explain how: its phases differ no more than "
        "{} of one phase do (p = {:.2g})",
        differ, period, word, fit.p);
  } else if (fit.p_visible.value_or(0) > guard_level(result.level)) {
    why = invisible(period, *fit.p_visible);
  } else if (p_order.value_or(0) > result.level) {
    why = fmt::format(
        "{}, but period {} does not explain how: their pattern is no more periodic "
        "than in any other order (p = {:.2g})",
        differ, period, *p_order);
  }
  if (!why.empty()) {
    result.reason = result.reason.empty() ? why : why + "; " + result.reason;
    result.period.reset();
    return;
  }
  if (result.p_misfit.value_or(1) <= misfit_level(result.level)) {
    const std::string also =
        fmt::format("{} also differ beyond this period (p = {:.2g})", word, *result.p_misfit);
    result.reason = result.reason.empty() ? also : also + "; " + result.reason;
  }
}

}  // namespace kvphase::stats
