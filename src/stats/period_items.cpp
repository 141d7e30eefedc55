#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/random.h"
#include "stats/columns.h"
#include "stats/fold.h"
#include "stats/gap.h"
#include "stats/item_shift.h"
#include "stats/large_table.h"
#include "stats/min_p.h"
#include "stats/period.h"
#include "stats/period_choice.h"
#include "stats/period_fit.h"
#include "stats/sampled_folder.h"

namespace kvphase::stats {
namespace {

constexpr double kWorkLimit = 1e9;     // cells permuted under one null: about 5 s
constexpr double kSettlingWork = 2e8;  // the same for going on while p is near the level: about 1 s
constexpr double kPositionWork = 2e7;  // positions drawn under one null: about half a second
constexpr std::int64_t kFewestPermutations = 499;
constexpr double kOtherShare = 0.25;  // of the work of a sampled table's first null, for each other
// From kFewestItemsToShift on shifts are the first null, and that of nested periods; from 5 on they
// are asked for beside permutations.
constexpr std::size_t kFewestItemsToShiftBeside = 5;
constexpr std::int64_t kKeptPhases = 4'000'000;   // sums of draws held at a time
constexpr std::int64_t kWidestColumns = 1 << 20;  // positions that a table of columns may span

struct Shape {
  std::size_t longest = 0;  // observations of the longest informative item
  std::size_t informative = 0;
  std::unordered_set<std::int64_t> positions;  // of informative items, until there are enough
};

constexpr std::int64_t kLongestUnasked = 64;  // candidate, unless options.max_period says otherwise

// A candidate s needs twice as many distinct positions as phases: else phase and position are the
// same thing. Counting stops where no candidate asks for more.
Shape shape_of(const ScoreTable& table, const PeriodOptions& options) {
  const auto enough = 2 * static_cast<std::size_t>(std::max(options.max_period, kLongestUnasked));
  Shape shape;
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto scores = table.scores_of(i);
    if (std::ranges::all_of(scores, [&](double x) { return x == scores[0]; })) continue;
    ++shape.informative;
    shape.longest = std::max(shape.longest, scores.size());
    if (shape.positions.size() < enough) {
      const auto positions = table.positions_of(i);
      shape.positions.insert(positions.begin(), positions.end());
    }
  }
  return shape;
}

std::vector<std::int64_t> candidates_for(const Shape& shape, const PeriodOptions& options) {
  const auto k = static_cast<std::int64_t>(shape.longest);
  const std::int64_t top =
      options.max_period > 0
          ? options.max_period
          : std::min(kLongestUnasked, std::max(k / 2, std::min<std::int64_t>(k, 12)));
  std::vector<std::int64_t> candidates;
  for (std::int64_t s = options.min_period; s <= top; ++s) {
    if (options.divisor_of > 0 && options.divisor_of % s != 0) continue;
    if (2 * static_cast<std::size_t>(s) <= shape.positions.size()) candidates.push_back(s);
  }
  return candidates;
}

// Permutations of one null; `share` of what is done for the first.
std::int64_t affordable(std::int64_t wanted, const SampledFolder& folder, double share = 1) {
  const double limit = folder.sampled()       ? kSampledWork * share
                       : folder.by_position() ? kPositionWork * share
                                              : kWorkLimit;
  const auto most = static_cast<std::int64_t>(limit / static_cast<double>(folder.cells()));
  return std::min(wanted, std::max(kFewestPermutations, most));
}

struct Columns {
  std::vector<std::int64_t> positions;  // empty: items do not share their positions
  std::vector<double> weights;
  std::vector<double> means;  // of scores minus their item's mean
};

// Items at the same few positions make columns. Some cells may be missing; where fewer than half
// are filled, items merely overlap and there are no columns.
Columns columns_of(const ScoreTable& table) {
  const auto [lowest, highest] = std::ranges::minmax_element(table.position);
  const std::int64_t span = *highest - *lowest + 1;
  if (span > kWidestColumns) return {};
  std::vector<double> weight(static_cast<std::size_t>(span));
  std::vector<double> sum(static_cast<std::size_t>(span));
  for (std::size_t i = 0; i < table.items(); ++i) {
    const auto positions = table.positions_of(i);
    const auto scores = table.scores_of(i);
    const double mean =
        std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const auto at = static_cast<std::size_t>(positions[j] - *lowest);
      weight[at] += 1;
      sum[at] += scores[j] - mean;
    }
  }
  Columns columns;
  for (std::size_t k = 0; k < weight.size(); ++k) {
    if (weight[k] == 0) continue;
    columns.positions.push_back(*lowest + static_cast<std::int64_t>(k));
    columns.weights.push_back(weight[k]);
    columns.means.push_back(sum[k] / weight[k]);
  }
  const double cells =
      static_cast<double>(table.items()) * static_cast<double>(columns.positions.size());
  return 2 * static_cast<double>(table.cells()) >= cells ? columns : Columns{};
}

// Share of the total that each candidate explains; 0 when nothing is left to explain.
void append_shares(const FoldSums& sums, std::vector<double>& out) {
  for (const double between : sums.between) {
    out.push_back(sums.total > 0 ? between / sums.total : 0);
  }
}

// PeriodCandidate::clustering. A ratio within two standard errors of 1, were answers independent,
// is no sign of clusters.
double clustering(double observed, double shifted_mean, double permuted_mean, std::size_t items,
                  double df) {
  const double ratio = own_squares(observed, shifted_mean, items) / permuted_mean;
  const double error = std::sqrt(2 / (df * static_cast<double>(items - 1)));
  return ratio > 1 + 2 * error ? ratio : 1;
}

// Both nulls of a table of items.
class Nulls {
 public:
  Nulls(SampledFolder& folder, const PeriodOptions& options) : folder_(folder), options_(options) {
    const FoldSums sums = folder.observed();
    total_ = sums.total;
    append_shares(sums, observed_);
  }

  bool anything() const { return total_ > 0; }
  bool shifts_first() const { return folder_.items() >= kFewestItemsToShift; }
  bool both_decide() const {
    return !shifts_first() && folder_.items() >= kFewestItemsToShiftBeside;
  }

  // Draws the first null until p lies on one side of the level; fills the candidates.
  void first(PeriodResult& result) {
    result.permutations = affordable(options_.permutations, folder_);
    const std::uint64_t seed = base::derive_seed(options_.seed, "stats.period.permute");
    const auto more = [&](std::int64_t count, std::uint64_t of) {
      append(shifts_first(), count, of, first_);
      return min_p(observed_, first_);
    };
    MinP p = more(result.permutations, seed);
    const auto settling = static_cast<double>(folder_.cells()) * 2;
    for (std::uint64_t part = 1;
         options_.permutations >= kFewestToSettle &&
         result.permutations < kMostTimes * options_.permutations &&
         static_cast<double>(result.permutations) * settling <= kSettlingWork &&
         undecided(std::ranges::min(p.adjusted), result.permutations, options_.level);
         ++part) {
      p = more(result.permutations, base::derive_seed(seed, "stats.period.more", {part}));
      result.permutations *= 2;
    }
    for (std::size_t c = 0; c < observed_.size(); ++c) {
      result.candidates.push_back(
          {.period = folder_.candidates()[c], .p_raw = p.raw[c], .p_adjusted = p.adjusted[c]});
    }
  }

  void second(PeriodResult& result, std::int64_t draws) {
    if (!shifts_first() && !both_decide()) return;
    result.second_null = shifts_first() ? "scores permuted inside items; reported, not asked for"
                                        : "every item shifted as a whole by its own random amount";
    result.second_decides = both_decide();
    append(!shifts_first(), draws, base::derive_seed(options_.seed, "stats.period.second"),
           second_);
    result.p_second = std::ranges::min(min_p(observed_, second_).adjusted);
  }

  // Statistics, and log p of each candidate for ranking: against permutations where these were
  // drawn. What items share is in every draw of shifted ones, too, and holds strong periods down.
  std::vector<double> rank(PeriodResult& result) const {
    const bool permuted = !shifts_first() || !second_.empty();
    const std::vector<double> mean = means_of(shifts_first() && permuted ? second_ : first_);
    std::vector<double> log_p;
    for (std::size_t c = 0; c < observed_.size(); ++c) {
      PeriodCandidate& candidate = result.candidates[c];
      candidate.statistic = mean[c] > 0 ? observed_[c] / mean[c] : 0;
      const double df = static_cast<double>(folder_.groups(c)) - 1;
      log_p.push_back(df > 0 ? log_upper_chi_squared(df * candidate.statistic, df) : 0);
      if (shifts_first() && permuted && df > 0 && mean[c] > 0) {
        candidate.clustering =
            clustering(observed_[c], means_of(first_)[c], mean[c], folder_.items(), df);
      }
    }
    return log_p;
  }

 private:
  void append(bool shift, std::int64_t count, std::uint64_t seed, std::vector<double>& to) {
    for (const FoldSums& drawn :
         shift ? folder_.shifted(1, count, seed) : folder_.permuted(1, count, seed)) {
      append_shares(drawn, to);
    }
  }

  std::vector<double> means_of(const std::vector<double>& null) const {
    std::vector<double> mean(observed_.size());
    for (std::size_t k = 0; k < null.size(); ++k) mean[k % mean.size()] += null[k];
    const double draws = static_cast<double>(null.size()) / static_cast<double>(mean.size());
    for (double& x : mean) x /= draws;
    return mean;
  }

  SampledFolder& folder_;
  const PeriodOptions& options_;
  double total_ = 0;
  std::vector<double> observed_;  // a share per candidate
  std::vector<double> first_;     // draw by draw
  std::vector<double> second_;
};

// Moves from a period to its multiples. Null: inside (item, residue class mod the period) the order
// is arbitrary.
class Probe {
 public:
  // Keeps references to all but the options. columns: may be empty.
  Probe(const ScoreTable& table, SampledFolder& folder, const Columns& columns,
        std::int64_t permutations, const PeriodOptions& options)
      : folder_(folder),
        means_(columns.means),
        permutations_(permutations),
        level_(options.level),
        seed_(options.seed) {
    if (columns.positions.empty()) return;
    columns_.emplace(columns.positions, columns.weights, folder.candidates());
    const std::int64_t span = columns.positions.back() - columns.positions.front() + 1;
    by_position_.emplace(table, std::vector<std::int64_t>{span}, seed_);
    by_position_->keep_phases();
  }

  NestedP multiples(std::int64_t from, const std::vector<std::size_t>& to) {
    if (columns_) {
      const auto periods = periods_at(folder_.candidates(), to);
      NestedP added = of_columns(from, periods);
      must_fit(added, fit_multiples(*columns_, means_, from, periods, level_));
      if (folder_.items() >= kFewestItemsToShift) {
        const NestedP shifted = of_phases(from, to, true);
        for (std::size_t k = 0; k < to.size(); ++k) {
          added.p.adjusted[k] = std::max(added.p.adjusted[k], shifted.p.adjusted[k]);
        }
      }
      return added;
    }
    return of_phases(from, to, folder_.items() >= kFewestItemsToShift);
  }

  bool has_columns() const { return columns_.has_value(); }
  const ColumnFolder& columns() const { return *columns_; }

  // Do columns differ beyond the phases mod `from`?
  double misfit(std::int64_t from) { return of_columns(from, by_position_->candidates()).p.raw[0]; }

 private:
  // shift: whole items, by multiples of `from`; else scores are permuted inside classes.
  NestedP of_phases(std::int64_t from, const std::vector<std::size_t>& to, bool shift) {
    const auto& candidates = folder_.candidates();
    const auto base =
        static_cast<std::size_t>(std::ranges::find(candidates, from) - candidates.begin());
    std::vector<double> df;
    for (const std::size_t m : to) {
      df.push_back(static_cast<double>(folder_.groups(m) - folder_.groups(base)));
    }
    return against_draws(
        folder_, from, df,
        [&](const FoldSums& sums, std::vector<double>& out) {
          for (const std::size_t m : to) {
            out.push_back(sums.total > 0 ? (sums.between[m] - sums.between[base]) / sums.total : 0);
          }
        },
        shift);
  }

  // Phases and trend are fitted together (GroupFit).
  NestedP of_columns(std::int64_t from, const std::vector<std::int64_t>& to) {
    const AddedPhases added(*columns_, from, to);
    std::vector<double> y(columns_->columns());
    const auto span = by_position_->candidates()[0];
    return against_draws(
        *by_position_, from, added.terms(), [&](const FoldSums& sums, std::vector<double>& out) {
          for (std::size_t j = 0; j < y.size(); ++j) {
            const auto at = static_cast<std::size_t>(columns_->positions()[j] % span);
            y[j] = sums.phases[at] / columns_->weights()[j];
          }
          added.gains(y, out);
        });
  }

  // gains(sums, out) appends one number per multiple.
  NestedP against_draws(SampledFolder& folder, std::int64_t from, const std::vector<double>& df,
                        const auto& gains, bool shift = false) const {
    std::vector<double> observed;
    gains(folder.observed(), observed);
    std::vector<double> null;
    const std::uint64_t seed =
        base::derive_seed(seed_, "stats.period.nested", {static_cast<std::uint64_t>(from)});
    const std::int64_t together =
        std::max<std::int64_t>(1, kKeptPhases / folder.candidates().back());
    for (std::int64_t done = 0; done < permutations_; done += together) {
      const std::int64_t count = std::min(together, permutations_ - done);
      const std::uint64_t part =
          base::derive_seed(seed, "part", {static_cast<std::uint64_t>(done)});
      for (const FoldSums& sums :
           shift ? folder.shifted(from, count, part) : folder.permuted(from, count, part)) {
        gains(sums, null);
      }
    }
    return nested_p(observed, null, df, shift ? folder.items() : 0);
  }

  SampledFolder& folder_;  // by the candidates
  const std::vector<double>& means_;
  std::int64_t permutations_;
  double level_;
  std::uint64_t seed_;
  std::optional<ColumnFolder> columns_;
  std::optional<SampledFolder> by_position_;  // tells columns apart
};

// Where items share their positions, the period must stand out from positions that merely differ
// (period_fit.h). Where they do not, its phases must differ without a trend being taken out, too.
// Withdraws the period when it does not.
void check_fit(PeriodResult& result, const ScoreTable& table, const std::vector<double>& means,
               Probe& probe, std::int64_t permutations, const PeriodOptions& options) {
  const std::int64_t period = *result.period;
  if (!probe.has_columns()) {
    const auto p = gap_noise_items(
                       table, {.modulus = period, .replicates = permutations, .seed = options.seed})
                       .p_value;
    if (p.value_or(0) <= guard_level(options.level)) return;
    result.reason = invisible(period, *p);
    result.period.reset();
    return;
  }
  result.p_misfit = probe.misfit(period);
  const ColumnFolder& folded = probe.columns();
  std::optional<double> p_order;
  if (result.p_misfit.value_or(1) <= misfit_level(options.level) &&
      folded.columns() >= kColumnsToRearrange) {
    base::Random orders(base::derive_seed(options.seed, "stats.period.rearrange"));
    p_order = folded.rearranged_p(means, permutations, orders);
  }
  apply_fit(result, fit_period(folded, means, period, folded.candidates()), p_order, "positions");
}

std::string describe(const PeriodResult& result, const SampledFolder& folder, bool shifts,
                     std::int64_t others, const PeriodOptions& options, std::size_t longest) {
  return fmt::format(
      "item-level: epoch folding of centred scores, {}, {} {}{}, min-p over {} candidates; nested "
      "periods by {} {}{}",
      describe_trend(trend_degree(longest)), result.permutations,
      shifts ? "random shifts of whole items" : "permutations inside items",
      result.permutations < options.permutations
          ? fmt::format(" ({} asked for; bounded for a large table)", options.permutations)
          : (result.permutations > options.permutations ? kMoreDraws : ""),
      result.candidates.size(), others,
      shifts ? "shifts that keep residue classes" : "permutations inside residue classes",
      folder.sampled()
          ? fmt::format(
                "; a random sample of {} items is drawn from and stands for all {} that vary",
                folder.sampled_items(), folder.items())
      : folder.by_position()
          ? "; permuted position by position, as normal draws with the moments of permutations"
          : "");
}

}  // namespace

PeriodResult find_period(const ScoreTable& table, const PeriodOptions& options) {
  check_options(options);
  PeriodResult result{.level = options.level,
                      .observations = static_cast<std::int64_t>(table.cells()),
                      .data_kind = "item-level"};
  const Shape shape = shape_of(table, options);
  result.items = static_cast<std::int64_t>(shape.informative);
  if (table.cells() == 0) {
    result.reason = "no observations";
    return result;
  }
  const Columns columns = columns_of(table);
  result.columns = static_cast<std::int64_t>(columns.positions.size());
  if (shape.informative == 0) {
    result.reason = "every item has the same score at all its positions: nothing varies with phase";
    return result;
  }
  const auto candidates = candidates_for(shape, options);
  if (candidates.empty()) {
    result.reason = fmt::format(
        "{} distinct position{}: a period of s needs at least 2s of them, so none can be tested",
        shape.positions.size(), shape.positions.size() == 1 ? "" : "s");
    return result;
  }
  SampledFolder folder(table, candidates, options.seed);
  Nulls nulls(folder, options);
  if (!nulls.anything()) {
    result.reason = "nothing is left after centring and detrending every item";
    return result;
  }
  nulls.first(result);
  const double smallest =
      std::ranges::min(result.candidates, {}, &PeriodCandidate::p_adjusted).p_adjusted;
  const std::int64_t others = affordable(options.other_permutations, folder, kOtherShare);
  if (options.always_second || smallest <= options.level) nulls.second(result, others);
  const std::vector<double> log_p = nulls.rank(result);
  result.method = describe(result, folder, nulls.shifts_first(), others, options, shape.longest);

  const auto best = static_cast<std::size_t>(std::ranges::min_element(log_p) - log_p.begin());
  result.p_value = result.candidates[best].p_adjusted;
  if (smallest > options.level) {
    result.p_value = smallest;
    result.reason = nulls.shifts_first() ? "no candidate stands out from items shifted as a whole"
                                         : "no candidate stands out from permutations inside items";
    if (nulls.shifts_first() && result.p_second.value_or(1) <= options.level) {
      result.reason += fmt::format(
          "; from permutations inside items one would (p = {:.2g}): answers inside an item go "
          "together, as with phases of its own, which items do not share",
          *result.p_second);
    }
    return result;
  }
  if (result.second_decides && result.p_second.value_or(0) > options.level) {
    result.reason =
        "the pattern stands out from permutations, but not from items shifted as a whole: slow "
        "drift, or phases of each item's own, would look the same";
    return result;
  }
  Probe probe(table, folder, columns, others, options);
  name_period(
      result, log_p,
      [&](std::int64_t from, const std::vector<std::size_t>& to) {
        return probe.multiples(from, to);
      },
      [&] { check_fit(result, table, columns.means, probe, others, options); },
      [&]() -> std::optional<std::size_t> {
        if (!probe.has_columns()) return std::nullopt;
        return best_fitting(probe.columns(), columns.means, result.candidates, options.level);
      });
  if (result.period && !result.p_second) {
    const std::string drift = fmt::format(
        "fewer than {} items that vary: too few for the second null, so slow drift is "
        "not excluded",
        kFewestItemsToShiftBeside);
    result.reason += result.reason.empty() ? drift : "; " + drift;
  }
  return result;
}

ScoreTable pool_items(const ScoreTable& table) {
  ScoreTable pooled;
  const std::size_t cells = table.cells();
  if (cells == 0) return pooled;
  pooled.ids = {0};
  pooled.first = {0, cells};
  pooled.position.resize(cells);
  pooled.score.resize(cells);
  const auto [low, high] = std::ranges::minmax(table.position);
  const auto span = static_cast<std::size_t>(high - low) + 1;
  if (span <= 4 * cells) {  // by counting: linear for huge tables
    std::vector<std::size_t> next(span + 1);
    for (const auto p : table.position) ++next[static_cast<std::size_t>(p - low) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (std::size_t c = 0; c < cells; ++c) {
      const std::size_t to = next[static_cast<std::size_t>(table.position[c] - low)]++;
      pooled.position[to] = table.position[c];
      pooled.score[to] = table.score[c];
    }
    return pooled;
  }
  std::vector<std::size_t> order(cells);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return table.position[c]; });
  for (std::size_t to = 0; to < cells; ++to) {
    pooled.position[to] = table.position[order[to]];
    pooled.score[to] = table.score[order[to]];
  }
  return pooled;
}

}  // namespace kvphase::stats
