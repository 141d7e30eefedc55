#include "stats/fold.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>

#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

constexpr std::int64_t kLongestCarrier =
    128;  // beyond it, clearing and folding cost more than adds

// Shifts that an item may take: so many that every phase of every carrier is as good as equally
// likely.
constexpr std::uint64_t kManyShifts = std::uint64_t{1} << 40;

// Four partial sums, so that the compiler may use vector instructions.
double dot(const double* a, const double* b, std::size_t n) {
  double s0 = 0;
  double s1 = 0;
  double s2 = 0;
  double s3 = 0;
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4) {
    s0 += a[j] * b[j];
    s1 += a[j + 1] * b[j + 1];
    s2 += a[j + 2] * b[j + 2];
    s3 += a[j + 3] * b[j + 3];
  }
  for (; j < n; ++j) s0 += a[j] * b[j];
  return (s0 + s1) + (s2 + s3);
}

// Carrier moduli for the candidates: merge into a common multiple while it stays short.
std::vector<std::int64_t> carrier_moduli(const std::vector<std::int64_t>& candidates) {
  std::vector<std::int64_t> moduli;
  for (auto s = candidates.rbegin(); s != candidates.rend(); ++s) {
    auto best = moduli.end();
    for (auto m = moduli.begin(); m != moduli.end(); ++m) {
      const auto merged = std::lcm(*m, *s);
      if (merged <= std::max(kLongestCarrier, *m) &&
          (best == moduli.end() || merged < std::lcm(*best, *s))) {
        best = m;
      }
    }
    if (best == moduli.end()) {
      moduli.push_back(*s);
    } else {
      *best = std::lcm(*best, *s);
    }
  }
  return moduli;
}

}  // namespace

int trend_degree(std::size_t n) { return n >= 24 ? 3 : (n >= 12 ? 2 : (n >= 6 ? 1 : 0)); }

std::vector<double> trend_basis(std::span<const double> offsets, std::span<const double> weights,
                                int degree) {
  const std::size_t n = offsets.size();
  std::vector<std::vector<double>> done;
  std::vector<double> constant(n);
  for (std::size_t j = 0; j < n; ++j) constant[j] = std::sqrt(weights[j]);
  const auto [low, high] = std::ranges::minmax_element(offsets);
  const double middle = n == 0 ? 0 : (*low + *high) / 2;
  const double half = n == 0 || *high == *low ? 1 : (*high - *low) / 2;
  std::vector<double> basis;
  for (int power = 0; power <= degree; ++power) {
    std::vector<double> v(n);
    for (std::size_t j = 0; j < n; ++j) {
      v[j] = constant[j] * std::pow((offsets[j] - middle) / half, power);
    }
    const double size = std::sqrt(dot(v.data(), v.data(), n));
    for (int pass = 0; pass < 2; ++pass) {  // twice is enough (Gram-Schmidt with one repetition)
      for (const auto& u : done) {
        const double c = dot(u.data(), v.data(), n);
        for (std::size_t j = 0; j < n; ++j) v[j] -= c * u[j];
      }
    }
    const double left = std::sqrt(dot(v.data(), v.data(), n));
    for (double& x : v) x = left > 1e-9 * size ? x / left : 0;
    if (power > 0) basis.insert(basis.end(), v.begin(), v.end());
    done.push_back(std::move(v));
  }
  return basis;
}

Folder::Folder(const ScoreTable& table, std::vector<std::int64_t> candidates)
    : candidates_(std::move(candidates)) {
  const auto moduli = carrier_moduli(candidates_);
  for (const auto s : candidates_) {
    assert(s >= 2);
    const auto home = std::ranges::find_if(moduli, [&](auto m) { return m % s == 0; });
    carrier_of_.push_back(static_cast<std::size_t>(home - moduli.begin()));
    sizes_.emplace_back(static_cast<std::size_t>(s));
  }
  std::map<std::size_t, const double*> shared;  // bases of items with n consecutive positions
  bases_.reserve(table.items());                // pointers into it stay valid
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    const std::size_t n = scores.size();
    if (std::ranges::all_of(scores, [&](double x) { return x == scores[0]; })) continue;
    Row row{.first = cells_.size(), .n = n};
    const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(n);
    for (const double x : scores) {
      cells_.push_back(x - mean);
      row.squares += (x - mean) * (x - mean);
    }
    positions_.insert(positions_.end(), positions.begin(), positions.end());
    row.consecutive = true;
    for (std::size_t j = 1; j < n; ++j) {
      row.consecutive = row.consecutive && positions[j] == positions[j - 1] + 1;
    }
    row.degree = trend_degree(n);
    if (row.degree > 0) {
      const double*& basis = shared[row.consecutive ? n : 0];
      if (!row.consecutive || basis == nullptr) {
        std::vector<double> offsets;
        for (const auto p : positions) {
          offsets.push_back(static_cast<double>(p - positions[0]));
        }
        bases_.push_back(trend_basis(offsets, std::vector<double>(n, 1.0), row.degree));
        basis = bases_.back().data();
      }
      row.basis = basis;
    }
    for (const auto m : moduli) row.start.push_back(static_cast<std::size_t>(positions[0] % m));
    if (!row.consecutive) {
      row.scatter = scatter_.size();
      for (const auto m : moduli) {
        for (const auto p : positions) scatter_.push_back(static_cast<std::uint32_t>(p % m));
      }
    }
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      if (row.consecutive) {  // n div s whole cycles and the start of one more
        std::vector<double>& size = sizes_[c];
        const auto whole = static_cast<double>(n / size.size());
        for (double& x : size) x += whole;
        auto g = static_cast<std::size_t>(positions[0] % candidates_[c]);
        for (std::size_t j = n % size.size(); j > 0; --j) {
          size[g] += 1;
          g = g + 1 == size.size() ? 0 : g + 1;
        }
        continue;
      }
      for (const auto p : positions) sizes_[c][static_cast<std::size_t>(p % candidates_[c])] += 1;
    }
    rows_.push_back(std::move(row));
  }
  std::size_t longest = 0;
  std::size_t longest_run = 0;
  for (const Row& row : rows_) {
    longest = std::max(longest, row.n);
    if (row.consecutive) longest_run = std::max(longest_run, row.n);
  }
  for (const auto m : moduli) {
    carriers_.push_back({.modulus = static_cast<std::size_t>(m),
                         .sum = std::vector<double>(static_cast<std::size_t>(m) + longest_run)});
  }
  buffer_.resize(longest);
  detrended_.resize(longest);
}

std::size_t Folder::groups(std::size_t candidate) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sizes_[candidate], [](double n) { return n > 0; }));
}

std::vector<std::size_t> Folder::carriers() const {
  std::vector<std::size_t> moduli;
  for (const Carrier& carrier : carriers_) moduli.push_back(carrier.modulus);
  return moduli;
}

void Folder::clear() {
  for (auto& carrier : carriers_) std::ranges::fill(carrier.sum, 0.0);
}

void Folder::add(const Row& row, const double* x, double& total) {
  const std::size_t n = row.n;
  total += row.squares;
  const double* y = x;
  if (row.degree > 0) {
    double* out = detrended_.data();
    std::copy_n(x, n, out);
    for (int d = 0; d < row.degree; ++d) {
      const double* q = row.basis + static_cast<std::size_t>(d) * n;
      const double c = dot(q, x, n);
      total -= c * c;
      for (std::size_t j = 0; j < n; ++j) out[j] -= c * q[j];
    }
    y = out;
  }
  for (std::size_t k = 0; k < carriers_.size(); ++k) {
    if (row.consecutive) {
      double* sum = carriers_[k].sum.data() + row.start[k];
      for (std::size_t j = 0; j < n; ++j) sum[j] += y[j];
    } else {
      double* sum = carriers_[k].sum.data();
      const std::uint32_t* index = scatter_.data() + row.scatter + k * n;
      for (std::size_t j = 0; j < n; ++j) sum[index[j]] += y[j];
    }
  }
}

void Folder::wrap(std::vector<double>& sum, std::size_t modulus) {
  for (std::size_t k = modulus, to = 0; k < sum.size(); ++k) {
    sum[to] += sum[k];
    to = to + 1 == modulus ? 0 : to + 1;
  }
}

void Folder::wrap() {
  for (auto& carrier : carriers_) wrap(carrier.sum, carrier.modulus);
}

FoldSums Folder::fold(const auto& sum_of_carrier, const std::vector<std::vector<double>>& sizes,
                      double total) const {
  FoldSums result{.between = {}, .total = std::max(0.0, total), .phases = {}};
  result.between.reserve(candidates_.size());
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    const std::size_t modulus = carriers_[carrier_of_[c]].modulus;
    const std::vector<double>& sum = sum_of_carrier(carrier_of_[c]);
    const auto s = static_cast<std::size_t>(candidates_[c]);
    double between = 0;
    for (std::size_t g = 0; g < s; ++g) {
      if (sizes[c][g] == 0) continue;
      double t = 0;
      for (std::size_t k = g; k < modulus; k += s) t += sum[k];
      between += t * t / sizes[c][g];
    }
    result.between.push_back(between);
  }
  if (keep_phases_) {
    const std::vector<double>& sum = sum_of_carrier(carrier_of_.back());
    const auto s = static_cast<std::size_t>(candidates_.back());
    result.phases.resize(s);
    for (std::size_t k = 0; k < carriers_[carrier_of_.back()].modulus; ++k) {
      result.phases[k % s] += sum[k];
    }
  }
  return result;
}

FoldSums Folder::finish(double total) {
  wrap();
  const auto sum = [this](std::size_t k) -> const auto& { return carriers_[k].sum; };
  return fold(sum, sizes_, total);
}

FoldSums Folder::fold(const Carried& carried) const {
  const auto sum = [&](std::size_t k) -> const auto& { return carried.sum[k]; };
  return fold(sum, carried.sizes, carried.total);
}

Carried Folder::carry(double total) {
  wrap();
  Carried carried{.total = total, .items = rows_.size()};
  for (const auto& carrier : carriers_) {
    carried.sum.emplace_back(carrier.sum.begin(),
                             carrier.sum.begin() + static_cast<std::ptrdiff_t>(carrier.modulus));
  }
  for (const auto& row : rows_) carried.squares += row.squares;
  carried.sizes = sizes_;
  return carried;
}

void Carried::add(const Carried& other) {
  const auto add_all = [](auto& to, const auto& from) {
    if (to.empty()) to.resize(from.size());
    for (std::size_t k = 0; k < from.size(); ++k) {
      to[k].resize(from[k].size());
      for (std::size_t j = 0; j < from[k].size(); ++j) to[k][j] += from[k][j];
    }
  };
  add_all(sum, other.sum);
  add_all(sizes, other.sizes);
  squares += other.squares;
  total += other.total;
  items += other.items;
}

double Folder::add_observed() {
  clear();
  double total = 0;
  for (const auto& row : rows_) add(row, cells_.data() + row.first, total);
  return total;
}

FoldSums Folder::observed() { return finish(add_observed()); }

Carried Folder::carry_observed() { return carry(add_observed()); }

Carried Folder::carry_expected(std::int64_t classes) {
  clear();
  double total = 0;
  std::vector<double> sum(static_cast<std::size_t>(classes));
  std::vector<double> size(static_cast<std::size_t>(classes));
  std::vector<std::size_t> class_of(buffer_.size());
  for (const auto& row : rows_) {
    const double* x = cells_.data() + row.first;
    for (std::size_t j = 0; j < row.n; ++j) {
      if (j > 0 && row.consecutive) {
        class_of[j] = class_of[j - 1] + 1 == sum.size() ? 0 : class_of[j - 1] + 1;
      } else {
        class_of[j] = static_cast<std::size_t>(positions_[row.first + j] % classes);
      }
    }
    std::ranges::fill(sum, 0.0);
    std::ranges::fill(size, 0.0);
    for (std::size_t j = 0; j < row.n; ++j) {
      sum[class_of[j]] += x[j];
      size[class_of[j]] += 1;
    }
    for (std::size_t g = 0; g < sum.size(); ++g) sum[g] /= std::max(1.0, size[g]);
    for (std::size_t j = 0; j < row.n; ++j) buffer_[j] = sum[class_of[j]];
    add(row, buffer_.data(), total);
  }
  return carry(total);
}

void Folder::start_permuting(std::int64_t classes) {
  assert(classes >= 1);
  walk_ = cells_;
  order_.clear();
  class_ends_.clear();
  if (classes == 1) return;
  order_.resize(cells_.size());
  for (const auto& row : rows_) {
    const std::span order(order_.data() + row.first, row.n);
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    const auto class_of = [&](std::uint32_t j) { return positions_[row.first + j] % classes; };
    std::ranges::stable_sort(order, {}, class_of);
    auto& ends = class_ends_.emplace_back();
    for (std::uint32_t j = 1; j <= row.n; ++j) {
      if (j == row.n || class_of(order[j]) != class_of(order[j - 1])) ends.push_back(j);
    }
  }
}

double Folder::add_permuted(base::Random& random) {
  assert(walk_.size() == cells_.size());
  clear();
  double total = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& row = rows_[i];
    double* x = walk_.data() + row.first;
    if (class_ends_.empty()) {
      fast_shuffle({x, row.n}, random);
    } else {
      const std::uint32_t* order = order_.data() + row.first;
      std::uint32_t begin = 0;
      for (const std::uint32_t end : class_ends_[i]) {
        for (std::uint32_t j = begin; j < end; ++j) buffer_[j] = x[order[j]];
        fast_shuffle({buffer_.data() + begin, end - begin}, random);
        for (std::uint32_t j = begin; j < end; ++j) x[order[j]] = buffer_[j];
        begin = end;
      }
    }
    add(row, x, total);
  }
  return total;
}

double Folder::add_shifted(std::int64_t classes, base::Random& random) {
  clear();
  if (without_trend_.empty()) {
    without_trend_ = cells_;
    left_ = 0;
    for (const auto& row : rows_) {
      double* y = without_trend_.data() + row.first;
      left_ += row.squares;
      for (int d = 0; d < row.degree; ++d) {
        const double* q = row.basis + static_cast<std::size_t>(d) * row.n;
        const double c = dot(q, y, row.n);
        left_ -= c * c;
        for (std::size_t j = 0; j < row.n; ++j) y[j] -= c * q[j];
      }
    }
  }
  for (auto& carrier : carriers_) carrier.size.assign(carrier.sum.size() + 1, 0.0);
  for (const auto& row : rows_) {
    const double* y = without_trend_.data() + row.first;
    const std::uint64_t by =
        static_cast<std::uint64_t>(classes) * random.uniform_index(kManyShifts);
    for (std::size_t k = 0; k < carriers_.size(); ++k) {
      Carrier& carrier = carriers_[k];
      const std::size_t ahead = by % carrier.modulus;
      if (row.consecutive) {
        const std::size_t start = (row.start[k] + ahead) % carrier.modulus;
        double* sum = carrier.sum.data() + start;
        for (std::size_t j = 0; j < row.n; ++j) sum[j] += y[j];
        carrier.size[start] += 1;  // here only where a run begins and ends
        carrier.size[start + row.n] -= 1;
      } else {
        const std::uint32_t* index = scatter_.data() + row.scatter + k * row.n;
        for (std::size_t j = 0; j < row.n; ++j) {
          const std::size_t at = (index[j] + ahead) % carrier.modulus;
          carrier.sum[at] += y[j];
          carrier.size[at] += 1;
          carrier.size[at + 1] -= 1;
        }
      }
    }
  }
  for (auto& carrier : carriers_) {
    std::partial_sum(carrier.size.begin(), carrier.size.end(), carrier.size.begin());
    wrap(carrier.size, carrier.modulus);
  }
  return left_;
}

std::vector<std::vector<double>> Folder::shifted_sizes() const {
  std::vector<std::vector<double>> sizes;
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    const Carrier& carrier = carriers_[carrier_of_[c]];
    auto& size = sizes.emplace_back(static_cast<std::size_t>(candidates_[c]));
    std::size_t g = 0;
    for (std::size_t k = 0; k < carrier.modulus; ++k) {
      size[g] += carrier.size[k];
      g = g + 1 == size.size() ? 0 : g + 1;
    }
  }
  return sizes;
}

FoldSums Folder::permuted(base::Random& random) { return finish(add_permuted(random)); }
FoldSums Folder::shifted(std::int64_t classes, base::Random& random) {
  const double total = add_shifted(classes, random);
  wrap();
  const auto sum = [this](std::size_t k) -> const auto& { return carriers_[k].sum; };
  return fold(sum, shifted_sizes(), total);
}
Carried Folder::carry_permuted(base::Random& random) { return carry(add_permuted(random)); }
Carried Folder::carry_shifted(std::int64_t classes, base::Random& random) {
  Carried carried = carry(add_shifted(classes, random));
  carried.sizes = shifted_sizes();
  return carried;
}

}  // namespace kvphase::stats
