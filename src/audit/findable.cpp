#include "audit/findable.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_chi_squared.hpp>
#include <cmath>

#include "stats/interval.h"
#include "stats/period_fit.h"

namespace kvphase::audit {
namespace {

// Non-centrality at which chi-squared with `df` rejects at `alpha` with chance `power`.
double needed_lambda(double df, double alpha, double power) {
  const double critical =
      boost::math::quantile(boost::math::complement(boost::math::chi_squared(df), alpha));
  // P(chi'^2 > critical) = power, solved for the non-centrality.
  return boost::math::non_central_chi_squared::find_non_centrality(df, critical, 1 - power);
}

// At which both the search and the comparison with columns succeed; empty where nothing does.
std::optional<double> lambda_for(const FindableInput& input) {
  const double power = 1 - (1 - input.power) / 2;
  const double search = needed_lambda(static_cast<double>(input.stride - 1),
                                      input.level / static_cast<double>(input.candidates), power);
  if (input.columns == 0) return search;
  constexpr double kMost = 1e5;
  const auto enough = [&](double lambda) {
    return stats::fit_power(static_cast<std::size_t>(input.columns), input.stride, input.searched,
                            lambda, input.level) >= power;
  };
  if (enough(search)) return search;
  if (!enough(kMost)) return std::nullopt;
  double low = search;
  double high = kMost;
  for (int step = 0; step < 60; ++step) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// Observations, as a real number, at which a dip is found.
double size_for(double dip, double lambda, const FindableInput& input) {
  const auto s = static_cast<double>(input.stride);
  double variance = input.variance;
  if (input.share && *input.share > 0 && *input.share < 1) {
    const auto v = [](double p) { return p * (1 - p); };
    const double weak = std::clamp(*input.share - dip, 0.0, 1.0);
    variance *= (s - 1 + v(weak) / v(*input.share)) / s;
  }
  return lambda * variance * s * s / (dip * dip * (s - 1));
}

}  // namespace

std::optional<double> findable_dip(const FindableInput& input) {
  if (input.observations < 2 || !(input.variance > 0)) return std::nullopt;
  const std::optional<double> lambda = lambda_for(input);
  if (!lambda) return std::nullopt;
  // size_for falls as the dip grows; bisection on a scale that covers shares and scores.
  const auto wanted = static_cast<double>(input.observations);
  double low = 1e-9;
  double high = 1e6 * std::sqrt(input.variance);
  if (input.share) {
    high = *input.share;  // no phase can lose more than everything
    if (size_for(high, *lambda, input) > wanted) return std::nullopt;
  }
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (size_for(middle, *lambda, input) > wanted ? low : high) = middle;
  }
  return high;
}

std::optional<double> findable_dip_of_equal(std::int64_t independent, FindableInput input) {
  input.share = stats::clopper_pearson_lower(independent, independent, input.level).low;
  if (!input.share) return std::nullopt;
  input.variance = *input.share * (1 - *input.share);
  return findable_dip(input);
}

std::int64_t observations_for_dip(double dip, const FindableInput& input) {
  return static_cast<std::int64_t>(std::ceil(size_for(dip, lambda_for(input).value(), input)));
}

std::optional<double> noise_variance(const stats::ScoreTable& table, bool paired) {
  double squares = 0;
  double freedom = 0;
  const auto add = [&](std::size_t from, std::size_t to) {
    if (to - from < 2) return;
    double mean = 0;
    for (std::size_t c = from; c < to; ++c) mean += table.score[c];
    mean /= static_cast<double>(to - from);
    for (std::size_t c = from; c < to; ++c) {
      squares += (table.score[c] - mean) * (table.score[c] - mean);
    }
    freedom += static_cast<double>(to - from) - 1;
  };
  if (paired) {
    for (std::size_t i = 0; i < table.items(); ++i) add(table.first[i], table.first[i + 1]);
  } else {
    add(0, table.cells());
  }
  if (freedom <= 0) return std::nullopt;
  return squares / freedom;
}

}  // namespace kvphase::audit
