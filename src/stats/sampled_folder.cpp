#include "stats/sampled_folder.h"

#include <algorithm>
#include <cmath>

#include "stats/large_table.h"

namespace kvphase::stats {
namespace {

constexpr std::size_t kPart = 4096;  // items folded at a time: bounds the memory

// The informative items of a table too large to permute; empty: permute them all.
std::vector<std::size_t> too_many(const ScoreTable& table) {
  if (table.cells() <= kLargeCells) return {};
  std::vector<std::size_t> items = informative_items(table);
  if (items.size() < 2 || cells_of(table, items) <= kLargeCells) return {};
  return items;
}

Folder make_folder(const ScoreTable& table, const std::vector<std::size_t>& informative,
                   std::vector<std::int64_t> candidates, std::uint64_t seed) {
  if (informative.empty()) return {table, std::move(candidates)};
  return {take_items(table, sample_items(table, informative, seed)), std::move(candidates)};
}

// Calls visit(Folder) for one part of the items after the other.
void for_parts(const ScoreTable& table, const std::vector<std::size_t>& items,
               const std::vector<std::int64_t>& candidates, const auto& visit) {
  for (std::size_t from = 0; from < items.size(); from += kPart) {
    const auto part = std::span(items).subspan(from, std::min(kPart, items.size() - from));
    Folder folder(take_items(table, part), candidates);
    visit(folder);
  }
}

}  // namespace

SampledFolder::SampledFolder(const ScoreTable& table, std::vector<std::int64_t> candidates,
                             std::uint64_t seed)
    : table_(table),
      informative_(too_many(table)),
      folder_(make_folder(table, informative_, std::move(candidates), seed)) {
  sampled_ = !informative_.empty();
  if (!sampled_) return;
  for_parts(table_, informative_, folder_.candidates(),
            [&](Folder& part) { observed_.all.add(part.carry_observed()); });
  observed_.some = folder_.carry_observed();
  centred_ = observed_;
  for (Carried* carried : {&centred_.all, &centred_.some}) {
    for (auto& sum : carried->sum) std::ranges::fill(sum, 0.0);
  }
}

std::size_t SampledFolder::items() const {
  return sampled_ ? informative_.size() : folder_.items();
}

std::size_t SampledFolder::groups(std::size_t candidate) const {
  if (!sampled_) return folder_.groups(candidate);
  return static_cast<std::size_t>(
      std::ranges::count_if(observed_.all.sizes[candidate], [](double n) { return n > 0; }));
}

SampledFolder::Null SampledFolder::expect(std::int64_t classes) {
  if (classes == 1) return centred_;
  Null null;
  for_parts(table_, informative_, folder_.candidates(),
            [&](Folder& part) { null.all.add(part.carry_expected(classes)); });
  null.some = folder_.carry_expected(classes);
  return null;
}

FoldSums SampledFolder::scale(Carried some, const Null& null) const {
  const double root = std::sqrt(null.some.spread > 0 ? null.all.spread / null.some.spread : 0);
  for (std::size_t k = 0; k < some.sum.size(); ++k) {
    for (std::size_t j = 0; j < some.sum[k].size(); ++j) {
      some.sum[k][j] = null.all.sum[k][j] + root * (some.sum[k][j] - null.some.sum[k][j]);
    }
  }
  some.total *= observed_.all.squares / observed_.some.squares;
  some.sizes = observed_.all.sizes;
  return folder_.fold(some);
}

FoldSums SampledFolder::observed() {
  return sampled_ ? folder_.fold(observed_.all) : folder_.observed();
}

void SampledFolder::start_permuting(std::int64_t classes) {
  folder_.start_permuting(classes);
  if (sampled_) permuting_ = expect(classes);
}

FoldSums SampledFolder::permuted(base::Random& random) {
  return sampled_ ? scale(folder_.carry_permuted(random), permuting_) : folder_.permuted(random);
}

FoldSums SampledFolder::turned(base::Random& random) {
  return sampled_ ? scale(folder_.carry_turned(random), centred_) : folder_.turned(random);
}

}  // namespace kvphase::stats
