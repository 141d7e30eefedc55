#include "stats/fold_scan.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include "stats/parallel.h"

namespace kvphase::stats {
namespace {

constexpr std::size_t kParts = 16;              // fixed, so that sums do not depend on the cores
constexpr std::size_t kMostRunCells = 1 << 18;  // kept per part: 2 MiB

// Several sums at once, so that the compiler may use vector instructions.
double dot(const double* a, const double* b, std::size_t n) {
  double s[8] = {};
  std::size_t j = 0;
  for (; j + 8 <= n; j += 8) {
    for (std::size_t k = 0; k < 8; ++k) s[k] += a[j + k] * b[j + k];
  }
  for (; j < n; ++j) s[0] += a[j] * b[j];
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

bool is_consecutive(std::span<const std::int32_t> positions) {
  bool consecutive = true;
  for (std::size_t j = 1; j < positions.size(); ++j) {
    consecutive &= positions[j] == positions[j - 1] + 1;
  }
  return consecutive;
}

// Trends by the positions they are over. Equal offsets have equal trends.
class Trends {
 public:
  const double* of_run(std::size_t n) {
    std::vector<double>& basis = runs_[n];
    if (basis.empty() && trend_degree(n) > 0) {
      std::vector<double> offsets(n);
      for (std::size_t j = 0; j < n; ++j) offsets[j] = static_cast<double>(j);
      basis = trend_basis(offsets, std::vector<double>(n, 1.0), trend_degree(n));
    }
    return basis.data();
  }
  // Items of one design often have the same offsets as the item before.
  const double* of(std::span<const std::int32_t> positions) {
    const bool same =
        std::ranges::equal(positions, pattern_, {}, [&](auto p) { return p - positions[0]; });
    if (!same) {
      pattern_.clear();
      std::vector<double> offsets;
      for (const auto p : positions) {
        pattern_.push_back(p - positions[0]);
        offsets.push_back(static_cast<double>(pattern_.back()));
      }
      const std::size_t n = positions.size();
      pattern_basis_ = trend_basis(offsets, std::vector<double>(n, 1.0), trend_degree(n));
    }
    return pattern_basis_.data();
  }

 private:
  std::map<std::size_t, std::vector<double>> runs_;
  std::vector<std::int32_t> pattern_;
  std::vector<double> pattern_basis_;
};

// Writes scores minus their mean; returns their sum of squares.
double centre(std::span<const double> scores, double* x) {
  double sum = 0;
  for (const double score : scores) sum += score;
  const double mean = sum / static_cast<double>(scores.size());
  for (std::size_t j = 0; j < scores.size(); ++j) x[j] = scores[j] - mean;
  return dot(x, x, scores.size());
}

// What one pass over a part of the items gathers.
struct Part {
  std::vector<FoldScan::Run> runs;
  std::vector<double> sums;
  std::vector<std::size_t> others;
  std::unordered_map<std::uint64_t, std::size_t> index;  // of runs
  double squares = 0;
  double total = 0;

  // The sums of a run; null when there is no room for one more.
  double* run(std::size_t start, std::size_t n, double items, std::size_t longest,
              std::size_t most_cells) {
    const std::uint64_t key = std::uint64_t{start} * (longest + 1) + n;
    auto at = index.find(key);
    if (at == index.end()) {
      if (sums.size() + n > most_cells) return nullptr;
      at = index.emplace(key, runs.size()).first;
      runs.push_back({.start = start, .n = n, .items = 0, .sum = sums.size()});
      sums.resize(sums.size() + n);
    }
    FoldScan::Run& run = runs[at->second];
    run.items += items;
    return sums.data() + run.sum;
  }
};

Part gather(const ScoreTable& table, std::span<const std::size_t> items, std::size_t longest) {
  Part part;
  Trends trends;
  std::vector<double> buffer(longest);
  double* x = buffer.data();
  for (const std::size_t i : items) {
    const auto positions = table.positions_of(i);
    const std::size_t n = positions.size();
    const double squares = centre(table.scores_of(i), x);
    part.squares += squares;
    part.total += squares;
    const bool consecutive = is_consecutive(positions);
    const double* basis = consecutive ? trends.of_run(n) : trends.of(positions);
    for (int d = 0; d < trend_degree(n); ++d, basis += n) {
      const double c = dot(basis, x, n);
      part.total -= c * c;
    }
    double* sum =
        consecutive ? part.run(static_cast<std::size_t>(positions[0]), n, 1, longest, kMostRunCells)
                    : nullptr;
    if (sum == nullptr) {
      part.others.push_back(i);
      continue;
    }
    for (std::size_t j = 0; j < n; ++j) sum[j] += x[j];
  }
  return part;
}

// Residue cycles that grow past their end, so that a run of positions is added as one vector.
class Carriers {
 public:
  Carriers(const std::vector<std::size_t>& moduli, std::size_t longest) {
    for (const std::size_t m : moduli) {
      list_.push_back({.modulus = m,
                       .sum = std::vector<double>(m + longest),
                       .edge = std::vector<double>(m + longest + 1)});
    }
  }

  void add_run(std::size_t start, std::span<const double> x, double items) {
    for (Carrier& carrier : list_) {
      const std::size_t at = start % carrier.modulus;
      for (std::size_t j = 0; j < x.size(); ++j) carrier.sum[at + j] += x[j];
      carrier.edge[at] += items;
      carrier.edge[at + x.size()] -= items;
    }
  }

  void add(std::span<const std::int32_t> positions, std::span<const double> x) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      add_run(static_cast<std::size_t>(positions[j]), x.subspan(j, 1), 1);
    }
  }

  Carried finish(const std::vector<std::int64_t>& candidates) {
    Carried carried;
    std::vector<std::vector<double>> counts;
    for (Carrier& carrier : list_) {
      carried.sum.push_back(wrapped(carrier.sum, carrier.modulus));
      double running = 0;
      for (double& edge : carrier.edge) edge = running += edge;
      counts.push_back(wrapped(carrier.edge, carrier.modulus));
    }
    for (const std::int64_t candidate : candidates) {
      const auto s = static_cast<std::size_t>(candidate);
      std::size_t k = 0;
      while (list_[k].modulus % s != 0) ++k;
      carried.sizes.push_back(wrapped(counts[k], s));
    }
    return carried;
  }

 private:
  struct Carrier {
    std::size_t modulus = 0;
    std::vector<double> sum;   // modulus + longest item
    std::vector<double> edge;  // + where a run of observations starts, - after its end
  };

  static std::vector<double> wrapped(const std::vector<double>& sum, std::size_t modulus) {
    std::vector<double> cycle(modulus);
    for (std::size_t k = 0, to = 0; k < sum.size(); ++k) {
      cycle[to] += sum[k];
      to = to + 1 == modulus ? 0 : to + 1;
    }
    return cycle;
  }

  std::vector<Carrier> list_;
};

// Replaces values by the means of their classes.
class ClassMeans {
 public:
  explicit ClassMeans(std::int64_t classes) : classes_(static_cast<std::size_t>(classes)) {}

  // position_of(j): the residue classes are those of the positions.
  void replace(std::span<double> x, const auto& position_of) {
    if (classes_ == 0) return;
    sum_.assign(classes_, 0);
    size_.assign(classes_, 0);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const std::size_t g = position_of(j) % classes_;
      sum_[g] += x[j];
      size_[g] += 1;
    }
    for (std::size_t j = 0; j < x.size(); ++j) {
      const std::size_t g = position_of(j) % classes_;
      x[j] = sum_[g] / size_[g];
    }
  }

 private:
  std::size_t classes_ = 0;  // 0: leaves the values as they are
  std::vector<double> sum_;
  std::vector<double> size_;
};

void detrend(std::span<double> x, const double* basis) {
  for (int d = 0; d < trend_degree(x.size()); ++d, basis += x.size()) {
    const double c = dot(basis, x.data(), x.size());
    for (std::size_t j = 0; j < x.size(); ++j) x[j] -= c * basis[j];
  }
}

}  // namespace

FoldScan::FoldScan(const ScoreTable& table, std::vector<std::size_t> items,
                   std::vector<std::int64_t> candidates, std::vector<std::size_t> carriers)
    : table_(table),
      candidates_(std::move(candidates)),
      carriers_(std::move(carriers)),
      items_(items.size()) {
  for (const std::size_t i : items) {
    longest_ = std::max(longest_, table.first[i + 1] - table.first[i]);
  }
  std::vector<Part> parts(kParts);
  for_each_part(kParts, [&](std::size_t k) {
    const std::size_t from = items.size() * k / kParts;
    const std::size_t end = items.size() * (k + 1) / kParts;
    parts[k] = gather(table, std::span(items).subspan(from, end - from), longest_);
  });
  Part all = std::move(parts[0]);
  for (std::size_t k = 1; k < kParts; ++k) {
    const Part& part = parts[k];
    all.squares += part.squares;
    all.total += part.total;
    all.others.insert(all.others.end(), part.others.begin(), part.others.end());
    for (const Run& run : part.runs) {
      double* sum = all.run(run.start, run.n, run.items, longest_, kParts * kMostRunCells);
      for (std::size_t j = 0; j < run.n; ++j) sum[j] += part.sums[run.sum + j];
    }
  }
  runs_ = std::move(all.runs);
  sums_ = std::move(all.sums);
  others_ = std::move(all.others);
  squares_ = all.squares;
  total_ = all.total;
}

Carried FoldScan::carry(std::int64_t classes) const {
  ClassMeans means(classes);
  Trends trends;
  Carriers carriers(carriers_, longest_);
  std::vector<double> x;
  for (const Run& run : runs_) {
    x.assign(sums_.begin() + static_cast<std::ptrdiff_t>(run.sum),
             sums_.begin() + static_cast<std::ptrdiff_t>(run.sum + run.n));
    means.replace(x, [&](std::size_t j) { return run.start + j; });
    detrend(x, trends.of_run(run.n));
    carriers.add_run(run.start, x, run.items);
  }
  for (const std::size_t i : others_) {
    const auto positions = table_.positions_of(i);
    x.resize(positions.size());
    centre(table_.scores_of(i), x.data());
    means.replace(x, [&](std::size_t j) { return static_cast<std::size_t>(positions[j]); });
    detrend(x, trends.of(positions));
    carriers.add(positions, x);
  }
  Carried carried = carriers.finish(candidates_);
  carried.squares = squares_;
  carried.total = total_;
  carried.items = items_;
  return carried;
}

}  // namespace kvphase::stats
