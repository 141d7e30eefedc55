#include "stats/columns.h"

#include <algorithm>
#include <cmath>

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

}  // namespace kvphase::stats
