#include "stats/position_folder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/parallel.h"

namespace kvphase::stats {
namespace {

constexpr std::size_t kStreams = 16;  // of draws; fixed, so that they do not depend on the cores

}  // namespace

PositionSums position_sums(const ScoreTable& table, std::size_t item) {
  const auto positions = table.positions_of(item);
  const auto scores = table.scores_of(item);
  const double mean =
      std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  PositionSums sums;
  for (std::size_t c = 0; c < scores.size(); ++c) {
    if (sums.position.empty() || sums.position.back() != positions[c]) {
      sums.position.push_back(positions[c]);
      sums.n.push_back(0);
      sums.sum.push_back(0);
      sums.squares.push_back(0);
    }
    const double x = scores[c] - mean;
    sums.n.back() += 1;
    sums.sum.back() += x;
    sums.squares.back() += x * x;
  }
  return sums;
}

PositionFolder::PositionFolder(PositionSums sums, std::vector<std::int64_t> candidates,
                               std::vector<std::size_t> carriers)
    : sums_(std::move(sums)), candidates_(std::move(candidates)), carriers_(std::move(carriers)) {
  std::vector<double> offsets;
  double observations = 0;
  for (std::size_t k = 0; k < positions(); ++k) {
    offsets.push_back(static_cast<double>(sums_.position[k] - sums_.position[0]));
    root_n_.push_back(std::sqrt(sums_.n[k]));
    observations += sums_.n[k];
    squares_ += sums_.squares[k];
  }
  degree_ = trend_degree(static_cast<std::size_t>(observations));
  // The basis is over root-weighted means, sum / sqrt(n).
  takes_ = trend_basis(offsets, sums_.n, degree_);
  gives_ = takes_;
  for (std::size_t at = 0; at < takes_.size(); ++at) {
    takes_[at] /= root_n_[at % positions()];
    gives_[at] *= root_n_[at % positions()];
  }
  for (const std::size_t m : carriers_) {
    for (const std::int64_t p : sums_.position) {
      cycle_.push_back(static_cast<std::uint32_t>(static_cast<std::size_t>(p) % m));
    }
  }
  for (const std::int64_t s : candidates_) {
    auto& size = sizes_.emplace_back(static_cast<std::size_t>(s));
    for (std::size_t k = 0; k < positions(); ++k) {
      size[static_cast<std::size_t>(sums_.position[k] % s)] += sums_.n[k];
    }
  }
}

std::size_t PositionFolder::groups(std::size_t candidate) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sizes_[candidate], [](double n) { return n > 0; }));
}

FoldSums PositionFolder::fold(std::vector<double> sum) const {
  const std::size_t count = sum.size();
  FoldSums sums{.between = {}, .total = squares_, .phases = {}};
  for (int d = 0; d < degree_; ++d) {
    const double* takes = takes_.data() + static_cast<std::size_t>(d) * count;
    const double* gives = gives_.data() + static_cast<std::size_t>(d) * count;
    double c[4] = {};  // partial sums, so that additions need not wait for each other
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4) {
      for (std::size_t j = 0; j < 4; ++j) c[j] += takes[k + j] * sum[k + j];
    }
    for (; k < count; ++k) c[0] += takes[k] * sum[k];
    const double all = (c[0] + c[1]) + (c[2] + c[3]);
    for (k = 0; k < count; ++k) sum[k] -= all * gives[k];
    sums.total -= all * all;
  }
  sums.total = std::max(0.0, sums.total);
  std::vector<std::vector<double>> cycles;
  for (std::size_t m = 0; m < carriers_.size(); ++m) {
    auto& cycle = cycles.emplace_back(carriers_[m]);
    const std::uint32_t* at = cycle_.data() + m * count;
    for (std::size_t k = 0; k < count; ++k) cycle[at[k]] += sum[k];
  }
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    const auto s = static_cast<std::size_t>(candidates_[c]);
    std::size_t home = 0;
    while (carriers_[home] % s != 0) ++home;
    double between = 0;
    for (std::size_t g = 0; g < s; ++g) {
      if (sizes_[c][g] == 0) continue;
      double phase = 0;
      for (std::size_t k = g; k < carriers_[home]; k += s) phase += cycles[home][k];
      between += phase * phase / sizes_[c][g];
    }
    sums.between.push_back(between);
  }
  if (keep_phases_) {
    sums.phases.resize(static_cast<std::size_t>(candidates_.back()));
    for (std::size_t k = 0; k < count; ++k) {
      sums.phases[static_cast<std::size_t>(sums_.position[k] % candidates_.back())] += sum[k];
    }
  }
  return sums;
}

FoldSums PositionFolder::observed() const { return fold(sums_.sum); }

std::vector<FoldSums> PositionFolder::permuted(std::int64_t classes, std::int64_t count,
                                               std::uint64_t seed) const {
  struct Class {
    double n = 0;
    double sum = 0;
    double squares = 0;
    double mean = 0;
    double deviation = 0;  // of one score
  };
  std::vector<Class> list(static_cast<std::size_t>(classes));
  std::vector<std::uint32_t> class_of(positions());
  for (std::size_t k = 0; k < positions(); ++k) {
    class_of[k] = static_cast<std::uint32_t>(sums_.position[k] % classes);
    Class& c = list[class_of[k]];
    c.n += sums_.n[k];
    c.sum += sums_.sum[k];
    c.squares += sums_.squares[k];
  }
  for (Class& c : list) {
    if (c.n < 2) continue;
    c.mean = c.sum / c.n;
    c.deviation = std::sqrt(std::max(0.0, c.squares - c.n * c.mean * c.mean) / (c.n - 1));
  }
  std::vector<FoldSums> draws(static_cast<std::size_t>(count));
  for_each_part(kStreams, [&](std::size_t stream) {
    base::Random random(base::derive_seed(seed, "stats.position_folder", {stream}));
    std::vector<double> drawn(list.size());  // of all prompts of a class
    std::vector<double> sum(positions());
    const std::size_t end = draws.size() * (stream + 1) / kStreams;
    for (std::size_t b = draws.size() * stream / kStreams; b < end; ++b) {
      std::ranges::fill(drawn, 0.0);
      for (std::size_t k = 0; k < positions(); ++k) {
        sum[k] = list[class_of[k]].deviation * root_n_[k] * random.normal();
        drawn[class_of[k]] += sum[k];
      }
      for (std::size_t k = 0; k < positions(); ++k) {
        const Class& c = list[class_of[k]];
        sum[k] += sums_.n[k] * (c.mean - drawn[class_of[k]] / c.n);
      }
      draws[b] = fold(sum);
    }
  });
  return draws;
}

}  // namespace kvphase::stats
