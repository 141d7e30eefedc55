#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "stats/gap.h"
#include "stats/gap_null.h"
#include "stats/item_shift.h"
#include "stats/large_table.h"
#include "stats/parallel.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

// Work of one draw: items x (groups + what else an item takes, in groups' worth). Larger tables are
// sampled: 24 groups of 10,000 items are drawn in full.
constexpr std::size_t kItemCost = 16;
constexpr std::size_t kMostWork = 400'000;
constexpr double kWorkLimit = 1e9;  // of all draws: about a second of one core
constexpr std::int64_t kFewestReplicates = 199;

// A table as its null needs it: only groups that have observations, scores less the mean of all (so
// that a large common offset costs no digits).
struct FoldedItems {
  ItemShifts items;              // that vary: all of them, or a sample (large_table.h)
  ItemShifts rest;               // the same less what all items share at a group; sizes as above
  std::vector<std::int64_t> n;   // observations per group
  std::vector<double> expected;  // sums, were every score its item's mean
  std::vector<double> observed;  // sums, less that
  std::vector<double> still;     // observations of items that do not vary
  double root = 1;               // of the squares of all deviations over those of `items`
  double share = 1;              // of all observations that move over those of `items`

  // Sums of a draw. Independent deviations scatter with the root of their number: a group's sum is
  // put from the observations that moved there to those it has.
  void add_up(std::span<const double> sum, std::span<const double> size,
              std::vector<double>& out) const {
    for (std::size_t g = 0; g < n.size(); ++g) {
      double scale = root;
      if (!size.empty()) {
        const double moved = still[g] + share * size[g];
        scale = moved > 0 ? root * std::sqrt(static_cast<double>(n[g]) / moved) : 0;
      }
      out[g] = expected[g] + scale * sum[g];
    }
  }
};

FoldedItems fold_items(const ScoreTable& table, std::span<const std::size_t> varying,
                       std::span<const std::size_t> drawn, const GroupTotals& totals) {
  FoldedItems folded;
  std::vector<std::size_t> place(totals.n.size());
  for (std::size_t g = 0; g < place.size(); ++g) {
    place[g] = folded.n.size();
    if (totals.n[g] > 0) folded.n.push_back(totals.n[g]);
  }
  const std::size_t groups = folded.n.size();
  folded.items.groups = groups;
  for (auto* of : {&folded.expected, &folded.observed, &folded.still}) of->assign(groups, 0);
  const double all = std::accumulate(totals.sum.begin(), totals.sum.end(), 0.0) /
                     static_cast<double>(table.cells());
  std::vector<double> sum(groups), size(groups);  // of one item; zeros between items
  const auto group = [&](std::int32_t position) {
    return place[static_cast<std::size_t>(position) % place.size()];
  };
  double squares = 0, squares_drawn = 0, moved = 0, moved_drawn = 0;
  bool even = true;  // every item has as many observations in every group
  auto next = varying.begin();
  auto next_drawn = drawn.begin();
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    double mean = 0;
    for (const double x : scores) mean += x - all;
    mean /= static_cast<double>(scores.size());
    const bool varies = next != varying.end() && *next == i;
    for (const auto p : positions) {
      folded.expected[group(p)] += mean;
      folded.still[group(p)] += varies ? 0 : 1;
    }
    if (!varies) continue;
    ++next;
    for (std::size_t c = 0; c < scores.size(); ++c) {
      sum[group(positions[c])] += scores[c] - all - mean;
      size[group(positions[c])] += 1;
    }
    const auto count = static_cast<double>(scores.size());
    const bool taken = next_drawn != drawn.end() && *next_drawn == i;
    if (taken) {
      ++next_drawn;
      moved_drawn += count;
      even = even && std::ranges::all_of(size, [&](double x) { return x == size[0]; });
      folded.items.sum.insert(folded.items.sum.end(), sum.begin(), sum.end());
      folded.items.size.insert(folded.items.size.end(), size.begin(), size.end());
    }
    moved += count;
    for (const auto p : positions) {  // the first cell of a group takes its sum
      const double x = std::exchange(sum[group(p)], 0.0);
      size[group(p)] = 0;
      folded.observed[group(p)] += x;
      squares += x * x;
      squares_drawn += taken ? x * x : 0;
    }
  }
  if (squares_drawn > 0) folded.root = std::sqrt(squares / squares_drawn);
  folded.share = moved / moved_drawn;
  // The items' own means take one item's worth of scatter with them.
  const auto count = static_cast<double>(varying.size());
  const double restore = std::sqrt(count / (count - 1));
  folded.rest.groups = groups;
  for (std::size_t k = 0; k < folded.items.sum.size(); ++k) {
    const std::size_t g = k % groups;
    const double varies = static_cast<double>(folded.n[g]) - folded.still[g];
    const double shared = varies > 0 ? folded.observed[g] / varies * folded.items.size[k] : 0;
    folded.rest.sum.push_back(restore * (folded.items.sum[k] - shared));
  }
  if (even) folded.items.size = {};
  return folded;
}

// The null of many items (item_shift.h).
NullGaps shifted_gaps(const ScoreTable& table, std::span<const std::size_t> varying,
                      const GapOptions& options, const GroupTotals& totals, std::string& method) {
  const auto groups = static_cast<std::size_t>(
      std::ranges::count_if(totals.n, [](std::int64_t n) { return n > 0; }));
  const bool sampled = varying.size() * (groups + kItemCost) > kMostWork;
  std::vector<std::size_t> sample;
  if (sampled) sample = sample_items(table, varying, options.seed);
  const FoldedItems folded = fold_items(table, varying, sampled ? sample : varying, totals);
  const double affordable =
      sampled ? kSampledWork / static_cast<double>(kSampleCells)
              : kWorkLimit / static_cast<double>(varying.size() * (groups + kItemCost));
  const auto replicates = static_cast<std::size_t>(std::min(
      options.replicates, std::max(kFewestReplicates, static_cast<std::int64_t>(affordable))));
  method = fmt::format(
      "every item shifted over the groups as a whole, by its own random amount, {} draws",
      replicates);
  if (sampled) {
    method += fmt::format(" of a random sample of {} items that stands for all {}", sample.size(),
                          table.items());
  }
  std::vector<double> observed(groups);
  for (std::size_t g = 0; g < groups; ++g) observed[g] = folded.expected[g] + folded.observed[g];
  NullGaps null{.gaps = std::vector<double>(replicates),
                .observed = *gap_of(observed, folded.n),
                .noise = std::vector<double>(replicates)};
  constexpr std::size_t kWalks = 16;  // fixed, so that draws do not depend on the cores
  for_each_part(kWalks, [&](std::size_t walk) {
    base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items", {walk}));
    std::vector<double> sum, rest, size, unused, sums(groups);
    const std::size_t end = replicates * (walk + 1) / kWalks;
    for (std::size_t b = replicates * walk / kWalks; b < end; ++b) {
      base::Random same = random;
      draw_shifts(folded.items, random, sum, size);
      folded.add_up(sum, size, sums);
      null.gaps[b] = *gap_of(sums, folded.n);
      draw_shifts(folded.rest, same, rest, unused);
      folded.add_up(rest, size, sums);
      null.noise[b] = *gap_of(sums, folded.n);
    }
  });
  return null;
}

// Scores permuted inside each of a few items. `fixed`: sums of the items that do not vary.
NullGaps permuted_gaps(const ScoreTable& table, std::span<const std::size_t> varying,
                       const GapOptions& options, const GroupTotals& totals,
                       const std::vector<double>& fixed) {
  std::vector<std::uint32_t> group(table.cells());
  for (std::size_t c = 0; c < table.cells(); ++c) {
    group[c] = static_cast<std::uint32_t>(table.position[c] % options.modulus);
  }
  NullGaps null{.gaps = {}, .observed = *gap_of(totals.sum, totals.n), .noise = {}};
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items"));
  std::vector<double> scores(table.score);
  std::vector<double> sum;
  for (std::int64_t b = 0; b < options.replicates; ++b) {
    sum = fixed;
    for (const std::size_t i : varying) {
      const std::size_t first = table.first[i];
      const std::size_t end = table.first[i + 1];
      fast_shuffle(std::span(scores).subspan(first, end - first), random);
      for (std::size_t c = first; c < end; ++c) sum[group[c]] += scores[c];
    }
    null.gaps.push_back(*gap_of(sum, totals.n));
  }
  return null;
}

// The same of items too large to permute: the sums of an item's groups are those of sampling
// without replacement (position_folder.h). Right/wrong draws are exact, others normal with the same
// means and covariances.
NullGaps dealt_gaps(const ScoreTable& table, std::span<const std::size_t> varying,
                    const GapOptions& options, const GroupTotals& totals,
                    const std::vector<double>& fixed) {
  struct Item {
    GroupTotals totals;
    double count = 0;
    double sum = 0;
    double deviation = 0;  // of one score
  };
  const bool binary = is_binary(table);
  const std::size_t groups = totals.n.size();
  std::vector<Item> items;
  for (const std::size_t i : varying) {
    Item& item = items.emplace_back(Item{
        .totals = {.n = std::vector<std::int64_t>(groups), .sum = std::vector<double>(groups)}});
    item_totals(table, i, item.totals);
    const auto scores = table.scores_of(i);
    item.count = static_cast<double>(scores.size());
    for (const double x : item.totals.sum) item.sum += x;
    double squares = 0;
    for (const double x : scores) {
      squares += (x - item.sum / item.count) * (x - item.sum / item.count);
    }
    item.deviation = std::sqrt(squares / (item.count - 1));
  }
  NullGaps null{.gaps = {}, .observed = *gap_of(totals.sum, totals.n), .noise = {}};
  base::Random random(base::derive_seed(options.seed, "stats.gap_noise_items"));
  std::vector<double> sum;
  std::vector<double> dealt(groups);
  for (std::int64_t b = 0; b < options.replicates; ++b) {
    sum = fixed;
    for (const Item& item : items) {
      auto left = static_cast<std::int64_t>(item.count);
      auto good = static_cast<std::int64_t>(std::llround(item.sum));
      double drawn = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const std::int64_t n = item.totals.n[g];
        if (binary) {
          const std::int64_t right = draw_hypergeometric(left, good, n, random);
          left -= n;
          good -= right;
          sum[g] += static_cast<double>(right);
          continue;
        }
        dealt[g] = item.deviation * std::sqrt(static_cast<double>(n)) * random.normal();
        drawn += dealt[g];
      }
      for (std::size_t g = 0; g < groups && !binary; ++g) {
        const auto n = static_cast<double>(item.totals.n[g]);
        sum[g] += dealt[g] + n * (item.sum - drawn) / item.count;
      }
    }
    null.gaps.push_back(*gap_of(sum, totals.n));
  }
  return null;
}

// The null of a few items. They are taken as they are, one by one: their answers as independent.
NullGaps few_items_gaps(const ScoreTable& table, std::span<const std::size_t> varying,
                        const GapOptions& options, const GroupTotals& totals, std::string& method) {
  std::vector<double> fixed(totals.sum.size());  // items that do not vary: the same in every draw
  std::size_t cells = 0;
  auto next = varying.begin();
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    if (next != varying.end() && *next == i) {
      ++next;
      cells += scores.size();
      continue;
    }
    for (std::size_t c = 0; c < scores.size(); ++c) {
      fixed[static_cast<std::size_t>(positions[c] % options.modulus)] += scores[c];
    }
  }
  const bool deal = cells > kLargeItem;
  method += fmt::format(", {} {}", options.replicates,
                        deal ? "draws with the moments of permutations" : "permutations");
  if (table.items() > 1) {
    method += fmt::format(" ({} item{} too few to be shifted as a whole)", varying.size(),
                          varying.size() == 1 ? " that varies is" : "s that vary are");
  }
  return deal ? dealt_gaps(table, varying, options, totals, fixed)
              : permuted_gaps(table, varying, options, totals, fixed);
}

}  // namespace

GapNoise gap_noise_items(const ScoreTable& table, const GapOptions& options) {
  check_gap_options(options);
  const GroupTotals totals = group_totals(table, options.modulus);
  GapNoise result{.gap = gap_of(totals.sum, totals.n),
                  .n = static_cast<std::int64_t>(table.cells()),
                  .method = "permutation of scores inside items"};
  if (!result.gap) {
    result.reason = table.cells() == 0 ? "no observations" : kOneGroup;
    return result;
  }
  const std::vector<std::size_t> varying = informative_items(table);
  if (varying.empty()) {
    // Every draw is the data itself.
    result.noise = result.gap;
    result.noise_high = result.gap;
    result.p_value = 1;
    result.method += "; every item has the same score at all its positions: nothing to permute";
    return result;
  }
  summarise(result, varying.size() >= kFewestItemsToShift
                        ? shifted_gaps(table, varying, options, totals, result.method)
                        : few_items_gaps(table, varying, options, totals, result.method));
  return result;
}

}  // namespace kvphase::stats
