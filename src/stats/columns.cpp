#include "stats/columns.h"

#include <algorithm>
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

ColumnFolder::Fit ColumnFolder::fit(const std::vector<double>& y, std::int64_t s,
                                    int degree) const {
  const std::size_t n = columns();
  struct Residual {
    double squares = 0;
    double terms = 0;
  };
  // What is left of y after least squares on a constant, the trend and phases from..to-1.
  const auto residual = [&](std::int64_t from, std::int64_t to) {
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
      take_out(v);
      const double squares = take_out(v);
      if (!(squares > 1e-9 * before)) return;  // a combination of those before
      for (double& x : v) x /= std::sqrt(squares);
      basis.push_back(std::move(v));
    };
    add(root_weights_);
    for (int d = 0; d < degree; ++d) {
      const double* q = basis_.data() + static_cast<std::size_t>(d) * n;
      add(std::vector<double>(q, q + n));
    }
    for (std::int64_t g = from; g < to; ++g) {
      std::vector<double> phase(n);
      for (std::size_t j = 0; j < n; ++j) {
        phase[j] = positions_[j] % s == g ? root_weights_[j] : 0;
      }
      if (std::ranges::any_of(phase, [](double x) { return x != 0; })) add(std::move(phase));
    }
    std::vector<double> z(n);
    for (std::size_t j = 0; j < n; ++j) z[j] = root_weights_[j] * y[j];
    const double squares = take_out(z);
    return Residual{.squares = squares, .terms = static_cast<double>(basis.size())};
  };
  const Residual full = residual(0, s);
  const Residual without = residual(0, 0);
  double one = 0;
  for (std::int64_t g = 0; g < s; ++g) {
    one = std::max(one, without.squares - residual(g, g + 1).squares);
  }
  return {.between = std::max(0.0, without.squares - full.squares),
          .phases = full.terms - without.terms,
          .within = full.squares,
          .left = static_cast<double>(n) - full.terms,
          .one = one};
}

}  // namespace kvphase::stats
