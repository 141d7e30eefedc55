#include "stats/columns.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <cmath>
#include <numeric>

#include "stats/min_p.h"

namespace kvphase::stats {

ColumnFolder::ColumnFolder(std::vector<std::int64_t> positions, std::vector<double> weights,
                           std::vector<std::int64_t> candidates)
    : positions_(std::move(positions)),
      weights_(std::move(weights)),
      candidates_(std::move(candidates)) {
  std::vector<double> offsets;
  for (std::size_t j = 0; j < positions_.size(); ++j) {
    offsets.push_back(static_cast<double>(positions_[j] - positions_[0]));
    root_weights_.push_back(std::sqrt(weights_[j]));
  }
  degree_ = trend_degree(positions_.size());
  basis_ = trend_basis(offsets, weights_, degree_);
}

std::size_t ColumnFolder::groups(std::int64_t s) const {
  std::vector<bool> seen(static_cast<std::size_t>(s));
  for (const auto p : positions_) seen[static_cast<std::size_t>(p % s)] = true;
  return static_cast<std::size_t>(std::ranges::count(seen, true));
}

FoldSums ColumnFolder::fold(const std::vector<double>& y) const {
  const std::size_t n = y.size();
  double mean = 0;
  double weight = 0;
  for (std::size_t j = 0; j < n; ++j) {
    mean += weights_[j] * y[j];
    weight += weights_[j];
  }
  mean /= weight;
  std::vector<double> z(n);
  for (std::size_t j = 0; j < n; ++j) z[j] = root_weights_[j] * (y[j] - mean);
  for (int d = 0; d < degree_; ++d) {
    const double* q = basis_.data() + static_cast<std::size_t>(d) * n;
    double c = 0;
    for (std::size_t j = 0; j < n; ++j) c += q[j] * z[j];
    for (std::size_t j = 0; j < n; ++j) z[j] -= c * q[j];
  }
  FoldSums sums;
  for (const double x : z) sums.total += x * x;
  std::vector<double> t;
  std::vector<double> size;
  for (const auto candidate : candidates_) {
    t.assign(static_cast<std::size_t>(candidate), 0);
    size.assign(static_cast<std::size_t>(candidate), 0);
    for (std::size_t j = 0; j < n; ++j) {
      const auto g = static_cast<std::size_t>(positions_[j] % candidate);
      t[g] += root_weights_[j] * z[j];
      size[g] += weights_[j];
    }
    double between = 0;
    for (std::size_t g = 0; g < t.size(); ++g) {
      if (size[g] > 0) between += t[g] * t[g] / size[g];
    }
    sums.between.push_back(between);
  }
  return sums;
}

double ColumnFolder::rearranged_p(std::vector<double> y, std::int64_t orders,
                                  base::Random& random) const {
  const auto shares = [](const FoldSums& sums, std::vector<double>& out) {
    for (const double x : sums.between) out.push_back(sums.total > 0 ? x / sums.total : 0);
  };
  std::vector<double> observed;
  shares(fold(y), observed);
  std::vector<double> null;
  for (std::int64_t b = 0; b < orders; ++b) {
    random.shuffle(std::span(y));
    shares(fold(y), null);
  }
  return std::ranges::min(min_p(observed, null).adjusted);
}

double ColumnFolder::beyond_columns_p(const std::vector<double>& y, std::size_t searched) const {
  const std::size_t n = columns();
  const std::int64_t s = candidates_[0];
  // Least squares on phases and trend together: a trend taken out first would take part of the
  // pattern with it, and leave that part as misfit.
  std::vector<std::vector<double>> basis;
  const auto take_out = [&](std::vector<double>& v) {
    for (const auto& q : basis) {
      const double c = std::inner_product(q.begin(), q.end(), v.begin(), 0.0);
      for (std::size_t j = 0; j < n; ++j) v[j] -= c * q[j];
    }
    return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
  };
  const auto add = [&](std::vector<double> v) {
    const double before = std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
    const double squares = take_out(v);
    if (!(squares > 1e-9 * before)) return;  // a combination of those before
    for (double& x : v) x /= std::sqrt(squares);
    basis.push_back(std::move(v));
  };
  for (int d = 0; d < degree_; ++d) {
    const double* q = basis_.data() + static_cast<std::size_t>(d) * n;
    add(std::vector<double>(q, q + n));
  }
  add(root_weights_);
  const std::size_t without = basis.size();
  std::vector<double> z(n);
  for (std::size_t j = 0; j < n; ++j) z[j] = root_weights_[j] * y[j];
  const double before = take_out(z);
  for (std::int64_t g = 0; g < s; ++g) {
    std::vector<double> phase(n);
    for (std::size_t j = 0; j < n; ++j) phase[j] = positions_[j] % s == g ? root_weights_[j] : 0;
    if (std::ranges::any_of(phase, [](double x) { return x != 0; })) add(std::move(phase));
  }
  const double after = take_out(z);
  const auto phases = static_cast<double>(basis.size() - without);
  const double left = static_cast<double>(n) - static_cast<double>(basis.size());
  if (phases < 1 || left < 1) return 1;
  if (!(after > 1e-12 * before)) return before > 0 ? 0 : 1;
  const double f = ((before - after) / phases) / (after / left);
  const boost::math::fisher_f distribution(phases, left);
  const double p = boost::math::cdf(boost::math::complement(distribution, std::max(0.0, f)));
  return std::min(1.0, p * static_cast<double>(searched));
}

}  // namespace kvphase::stats
