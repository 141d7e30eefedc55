#include "stats/columns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/min_p.h"

namespace kvphase::stats {

GroupFit::GroupFit(std::vector<double> weights, std::vector<std::size_t> group, std::size_t groups,
                   std::span<const double> trend)
    : weights_(std::move(weights)), group_(std::move(group)), sizes_(groups) {
  const std::size_t n = group_.size();
  for (std::size_t j = 0; j < n; ++j) sizes_[group_[j]] += weights_[j];
  std::vector<double> sum(groups);
  for (std::size_t from = 0; from < trend.size(); from += n) {
    // Without root weights: a direction's product with y is sum_j w_j v_j y_j.
    std::vector<double> v(n);
    for (std::size_t j = 0; j < n; ++j) v[j] = trend[from + j] / std::sqrt(weights_[j]);
    for (int pass = 0; pass < 2; ++pass) {  // twice is enough (Gram-Schmidt with one repetition)
      std::ranges::fill(sum, 0.0);
      for (std::size_t j = 0; j < n; ++j) sum[group_[j]] += weights_[j] * v[j];
      for (std::size_t j = 0; j < n; ++j) v[j] -= sum[group_[j]] / sizes_[group_[j]];
      for (std::size_t at = 0; at < trend_.size(); at += n) {
        double c = 0;
        for (std::size_t j = 0; j < n; ++j) c += trend_[at + j] * v[j];
        for (std::size_t j = 0; j < n; ++j) v[j] -= c * trend_[at + j] / weights_[j];
      }
    }
    double left = 0;
    for (std::size_t j = 0; j < n; ++j) left += weights_[j] * v[j] * v[j];
    if (!(left > 1e-9)) continue;  // of 1: a combination of the groups
    for (std::size_t j = 0; j < n; ++j) trend_.push_back(weights_[j] * v[j] / std::sqrt(left));
  }
}

double GroupFit::explained(std::span<const double> y) const {
  const std::size_t n = group_.size();
  std::vector<double> sum(sizes_.size());
  for (std::size_t j = 0; j < n; ++j) sum[group_[j]] += weights_[j] * y[j];
  double explained = 0;
  for (std::size_t g = 0; g < sum.size(); ++g) {
    if (sizes_[g] > 0) explained += sum[g] * sum[g] / sizes_[g];
  }
  for (std::size_t at = 0; at < trend_.size(); at += n) {
    double c = 0;
    for (std::size_t j = 0; j < n; ++j) c += trend_[at + j] * y[j];
    explained += c * c;
  }
  return explained;
}

double GroupFit::terms() const {
  return static_cast<double>(std::ranges::count_if(sizes_, [](double n) { return n > 0; })) +
         static_cast<double>(trend_.size()) / static_cast<double>(group_.size());
}

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

GroupFit ColumnFolder::phases(std::int64_t s, int degree) const {
  std::vector<std::size_t> group;
  for (const auto p : positions_) group.push_back(static_cast<std::size_t>(p % s));
  return {weights_, std::move(group), static_cast<std::size_t>(s), trend(degree)};
}

double ColumnFolder::squares(std::span<const double> y) const {
  double sum = 0;
  for (std::size_t j = 0; j < y.size(); ++j) sum += weights_[j] * y[j] * y[j];
  return sum;
}

std::span<const double> ColumnFolder::trend(int degree) const {
  return std::span(basis_).first(static_cast<std::size_t>(degree) * columns());
}

// Phases mod s beside phases mod `from`; `one` is the best phase mod s alone beside them.
ColumnFolder::Fit ColumnFolder::fit(const std::vector<double>& y, std::int64_t s, std::int64_t from,
                                    std::span<const double> trend) const {
  const auto grouped = [&](std::int64_t groups, const auto& group_of) {
    std::vector<std::size_t> group;
    for (const auto p : positions_) group.push_back(static_cast<std::size_t>(group_of(p)));
    return GroupFit(weights_, std::move(group), static_cast<std::size_t>(groups), trend);
  };
  const GroupFit full = grouped(s, [&](std::int64_t p) { return p % s; });
  const GroupFit without = grouped(from, [&](std::int64_t p) { return p % from; });
  const double explained = full.explained(y);
  const double base = without.explained(y);
  double one = 0;
  for (std::int64_t g = 0; g < s; ++g) {
    const GroupFit alone =
        grouped(from + 1, [&](std::int64_t p) { return p % s == g ? from : p % from; });
    one = std::max(one, alone.explained(y) - base);
  }
  return {.between = std::max(0.0, explained - base),
          .phases = full.terms() - without.terms(),
          .within = std::max(0.0, squares(y) - explained),
          .left = static_cast<double>(columns()) - full.terms(),
          .one = one};
}

ColumnFolder::Fit ColumnFolder::fit(const std::vector<double>& y, std::int64_t s,
                                    int degree) const {
  return fit(y, s, 1, trend(degree));
}

bool ColumnFolder::like_a_step(std::int64_t s) const {
  return positions_.back() - positions_.front() + 1 < 3 * s;
}

std::vector<double> ColumnFolder::trend_and_step(const std::vector<double>& y, std::int64_t s,
                                                 std::int64_t from, int degree) const {
  constexpr std::size_t kAside = 2;  // columns on either side of a step, at least
  const auto smooth = trend(degree);
  std::vector<double> best(smooth.begin(), smooth.end());
  if (like_a_step(s)) {
    const std::size_t n = columns();
    std::vector<std::size_t> group;
    for (const auto p : positions_) group.push_back(static_cast<std::size_t>(p % from));
    double most = -1;
    for (std::size_t at = kAside; at + kAside <= n; ++at) {
      std::vector<double> beside(smooth.begin(), smooth.end());
      const double size = std::sqrt(
          std::accumulate(weights_.begin() + static_cast<std::ptrdiff_t>(at), weights_.end(), 0.0));
      for (std::size_t j = 0; j < n; ++j) beside.push_back(j < at ? 0 : root_weights_[j] / size);
      const double explained =
          GroupFit(weights_, group, static_cast<std::size_t>(from), beside).explained(y);
      if (explained <= most) continue;
      most = explained;
      best = std::move(beside);
    }
  }
  return best;
}

ColumnFolder::Fit ColumnFolder::fit_beside_step(const std::vector<double>& y, std::int64_t s,
                                                std::int64_t from, int degree) const {
  return fit(y, s, from, trend_and_step(y, s, from, degree));
}

std::vector<ColumnFolder::Fit> ColumnFolder::fits_without_one(const std::vector<double>& y,
                                                              std::int64_t s, std::int64_t from,
                                                              int degree) const {
  const std::size_t n = columns();
  std::vector<double> beside = trend_and_step(y, s, from, degree);
  const std::size_t own = beside.size();
  std::vector<Fit> fits;
  for (std::size_t j = 0; j < n; ++j) {
    beside.resize(own);
    beside.resize(own + n);
    beside[own + j] = 1;  // a direction of its own takes the column out
    fits.push_back(fit(y, s, from, beside));
  }
  return fits;
}

AddedPhases::AddedPhases(const ColumnFolder& columns, std::int64_t from,
                         std::span<const std::int64_t> to)
    : base_(columns.phases(from)) {
  for (const auto s : to) {
    fits_.push_back(columns.phases(s));
    terms_.push_back(fits_.back().terms() - base_.terms());
  }
}

void AddedPhases::gains(std::span<const double> y, std::vector<double>& out) const {
  const double base = base_.explained(y);
  for (const GroupFit& fit : fits_) out.push_back(std::max(0.0, fit.explained(y) - base));
}

}  // namespace kvphase::stats
