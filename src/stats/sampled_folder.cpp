#include "stats/sampled_folder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "stats/large_table.h"
#include "stats/parallel.h"

namespace kvphase::stats {
namespace {

// Walks of a sampled null and the cells that they may copy together. The number of walks follows
// from the data alone, so that draws do not depend on the cores.
constexpr std::size_t kMostWalks = 16;
constexpr std::size_t kCopiedCells = 4'000'000;

// The informative items of a table too large to permute; empty: permute them all.
std::vector<std::size_t> too_many(const ScoreTable& table) {
  if (table.cells() <= kLargeItem) return {};
  std::vector<std::size_t> items = informative_items(table);
  const std::size_t most = items.size() == 1 ? kLargeItem : kLargeCells;
  if (items.empty() || cells_of(table, items) <= most) return {};
  return items;
}

Folder make_folder(const ScoreTable& table, const std::vector<std::size_t>& informative,
                   std::vector<std::int64_t> candidates, std::uint64_t seed) {
  if (informative.empty()) return {table, std::move(candidates)};
  if (informative.size() == 1) return {ScoreTable{}, std::move(candidates)};
  return {take_items(table, sample_items(table, informative, seed)), std::move(candidates)};
}

}  // namespace

SampledFolder::SampledFolder(const ScoreTable& table, std::vector<std::int64_t> candidates,
                             std::uint64_t seed)
    : SampledFolder(table, too_many(table), std::move(candidates), seed) {}

SampledFolder::SampledFolder(const ScoreTable& table, std::vector<std::size_t> informative,
                             std::vector<std::int64_t> candidates, std::uint64_t seed)
    : folder_(make_folder(table, informative, std::move(candidates), seed)) {
  if (informative.empty()) return;
  if (informative.size() == 1) {
    positions_.emplace(position_sums(table, informative[0]), folder_.candidates(),
                       folder_.carriers());
    return;
  }
  scan_.emplace(table, std::move(informative), folder_.candidates(), folder_.carriers());
  observed_ = {.all = scan_->observed(), .some = folder_.carry_observed()};
  centred_ = observed_;
  for (Carried* carried : {&centred_.all, &centred_.some}) {
    for (auto& sum : carried->sum) std::ranges::fill(sum, 0.0);
  }
}

std::size_t SampledFolder::items() const {
  return positions_ ? 1 : scan_ ? scan_->items() : folder_.items();
}

std::size_t SampledFolder::groups(std::size_t candidate) const {
  if (positions_) return positions_->groups(candidate);
  if (!scan_) return folder_.groups(candidate);
  return static_cast<std::size_t>(
      std::ranges::count_if(observed_.all.sizes[candidate], [](double n) { return n > 0; }));
}

SampledFolder::Null SampledFolder::expect(std::int64_t classes) {
  if (classes == 1) return centred_;
  return {.all = scan_->expected(classes), .some = folder_.carry_expected(classes)};
}

// A sum may come to lie at any place of its carrier that is the same mod `classes`.
SampledFolder::Null SampledFolder::expect_shifted(std::int64_t classes) const {
  Null null = observed_;
  null.sizes_change = true;
  for (Carried* carried : {&null.all, &null.some}) {
    for (auto& sum : carried->sum) {
      const std::size_t step = std::gcd(static_cast<std::size_t>(classes), sum.size());
      for (std::size_t g = 0; g < step; ++g) {
        double mean = 0;
        for (std::size_t k = g; k < sum.size(); k += step) mean += sum[k];
        mean *= static_cast<double>(step) / static_cast<double>(sum.size());
        for (std::size_t k = g; k < sum.size(); k += step) sum[k] = mean;
      }
    }
  }
  return null;
}

FoldSums SampledFolder::scale(Carried some, const Null& null) const {
  // What is left of a sum of squares inside residue classes is the same share of it in the sample
  // as in all items, to within the sample's error of that share: a few in a thousand.
  const double root = std::sqrt(observed_.all.squares / observed_.some.squares);
  for (std::size_t k = 0; k < some.sum.size(); ++k) {
    for (std::size_t j = 0; j < some.sum[k].size(); ++j) {
      some.sum[k][j] = null.all.sum[k][j] + root * (some.sum[k][j] - null.some.sum[k][j]);
    }
  }
  some.total *= observed_.all.squares / observed_.some.squares;
  if (!null.sizes_change) {
    some.sizes = observed_.all.sizes;
    return folder_.fold(some);
  }
  some.total = observed_.all.total;  // what detrending leaves moves with the item
  for (std::size_t c = 0; c < some.sizes.size(); ++c) {
    const auto count = [&](const Carried& of) {
      return std::reduce(of.sizes[c].begin(), of.sizes[c].end());
    };
    const double ratio = count(observed_.all) / count(observed_.some);
    for (double& size : some.sizes[c]) size *= ratio;
  }
  return folder_.fold(some);
}

void SampledFolder::keep_phases() {
  folder_.keep_phases();
  if (positions_) positions_->keep_phases();
}

FoldSums SampledFolder::observed() {
  if (positions_) return positions_->observed();
  return scan_ ? folder_.fold(observed_.all) : folder_.observed();
}

// Every permutation deals the scores of an item anew, so that walks from the same data are
// independent and may be done side by side.
std::vector<FoldSums> SampledFolder::draw(const Null& null, const Draw& next, std::int64_t count,
                                          std::uint64_t seed) {
  std::vector<FoldSums> draws(static_cast<std::size_t>(count));
  // Few but very long items make a large sample: it is not copied for every core then.
  const std::size_t walks = std::clamp<std::size_t>(kCopiedCells / folder_.cells(), 1, kMostWalks);
  for_each_part(walks, [&](std::size_t walk) {
    Folder folder = folder_;  // its trends stay those of folder_
    base::Random random(base::derive_seed(seed, "stats.sampled_folder", {walk}));
    const std::size_t end = draws.size() * (walk + 1) / walks;
    for (std::size_t b = draws.size() * walk / walks; b < end; ++b) {
      draws[b] = scale(next(folder, random), null);
    }
  });
  return draws;
}

std::vector<FoldSums> SampledFolder::permuted(std::int64_t classes, std::int64_t count,
                                              std::uint64_t seed) {
  if (positions_) return positions_->permuted(classes, count, seed);
  folder_.start_permuting(classes);
  if (scan_) {
    const auto next = [](Folder& folder, base::Random& random) {
      return folder.carry_permuted(random);
    };
    return draw(expect(classes), next, count, seed);
  }
  std::vector<FoldSums> draws;
  base::Random random(seed);
  for (std::int64_t b = 0; b < count; ++b) draws.push_back(folder_.permuted(random));
  return draws;
}

std::vector<FoldSums> SampledFolder::shifted(std::int64_t classes, std::int64_t count,
                                             std::uint64_t seed) {
  assert(!positions_);
  if (scan_) {
    const auto next = [classes](Folder& folder, base::Random& random) {
      return folder.carry_shifted(classes, random);
    };
    return draw(expect_shifted(classes), next, count, seed);
  }
  std::vector<FoldSums> draws;
  base::Random random(seed);
  for (std::int64_t b = 0; b < count; ++b) draws.push_back(folder_.shifted(classes, random));
  return draws;
}

}  // namespace kvphase::stats
