#include "audit/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "audit/wording.h"
#include "base/random.h"
#include "stats/period.h"

namespace kvphase::audit {
namespace {

using record::ComparedGroup;
using record::Comparison;
using record::DifferenceKind;
using record::Observation;

constexpr std::size_t kFewestItems = 6;  // fewer sign changes than 2^6 cannot reach p = 0.05

struct Pair {
  const Observation* a = nullptr;
  const Observation* b = nullptr;
  const Observation* again = nullptr;
  bool both() const { return a && b && a->correct && b->correct; }
  bool twice() const { return a && again && a->correct && again->correct; }
};
// One item: its pairs by residue.
using Item = std::map<std::int64_t, Pair>;

bool differ(const Observation& x, const Observation& y) { return x.answer != y.answer; }

std::map<std::int64_t, Item> pair_up(std::span<const Observation> a, std::span<const Observation> b,
                                     std::span<const Observation> again) {
  std::map<std::int64_t, Item> items;
  const auto add = [&](std::span<const Observation> from, const Observation* Pair::*side) {
    for (const Observation& o : from) {
      if (o.repeat == 0) items[o.item][o.residue].*side = &o;
    }
  };
  add(a, &Pair::a);
  add(b, &Pair::b);
  add(again, &Pair::again);
  return items;
}

// Sums for one group; variation is the sum until finish().
struct Tally {
  ComparedGroup group;
  double variation = 0;
  std::int64_t with_variation = 0;

  void add(const Observation& x, const Observation& y) {
    ++group.n;
    group.correct_a += *x.correct ? 1 : 0;
    group.correct_b += *y.correct ? 1 : 0;
    group.flips += differ(x, y) ? 1 : 0;
    if (const auto distance = total_variation(x.top, y.top)) {
      variation += *distance;
      ++with_variation;
    }
  }
  ComparedGroup finish() {
    if (with_variation > 0) group.variation = variation / static_cast<double>(with_variation);
    return group;
  }
};

// P(statistic of rows with random signs >= that of the rows as they are): rows[i] is item i's
// vector of differences, the statistic the sum of squares of the columns' sums. Counts the data as
// one of the draws.
double sign_flip_p(const std::vector<std::vector<double>>& rows, std::int64_t permutations,
                   std::uint64_t seed) {
  if (rows.empty()) return 1;
  const std::size_t columns = rows.front().size();
  std::vector<double> sums(columns);
  const auto statistic = [&](const std::function<bool()>& flip) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const auto& row : rows) {
      const double sign = flip() ? -1 : 1;
      for (std::size_t c = 0; c < columns; ++c) sums[c] += sign * row[c];
    }
    double total = 0;
    for (const double sum : sums) total += sum * sum;
    return total;
  };
  const double observed = statistic([] { return false; });
  base::Random random(seed);
  std::int64_t as_large = 1;
  for (std::int64_t k = 0; k < permutations; ++k) {
    // Sums of -1, 0 and 1 are exact, others nearly: ties count as "as large".
    const double drawn = statistic([&] { return (random.next() >> 63U) != 0; });
    if (drawn >= observed - 1e-9 * std::max(1.0, observed)) ++as_large;
  }
  return static_cast<double>(as_large) / static_cast<double>(permutations + 1);
}

// Rows b_ir - a_i,(r+shift) of the items that have all residues of both.
std::vector<std::vector<double>> differences(const std::map<std::int64_t, Item>& items,
                                             std::int64_t modulus, std::int64_t shift) {
  std::vector<std::vector<double>> rows;
  for (const auto& [id, item] : items) {
    if (std::ssize(item) != modulus ||
        !std::ranges::all_of(item, [](const auto& entry) { return entry.second.both(); })) {
      continue;
    }
    std::vector<double> row;
    for (std::int64_t r = 0; r < modulus; ++r) {
      row.push_back((*item.at(r).b->correct ? 1.0 : 0.0) -
                    (*item.at((r + shift) % modulus).a->correct ? 1.0 : 0.0));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double size_of(const std::vector<std::vector<double>>& rows) {
  double total = 0;
  for (std::size_t c = 0; !rows.empty() && c < rows.front().size(); ++c) {
    double sum = 0;
    for (const auto& row : rows) sum += row[c];
    total += sum * sum;
  }
  return total;
}

std::optional<record::Rotation> find_rotation(const std::map<std::int64_t, Item>& items,
                                              double p_unshifted,
                                              const ComparisonOptions& options) {
  const std::int64_t R = options.modulus;
  const double unshifted = size_of(differences(items, R, 0));
  std::vector<std::int64_t> fits;
  std::optional<record::Rotation> best;
  double smallest = unshifted;
  for (std::int64_t shift = 1; shift < R; ++shift) {
    const auto rows = differences(items, R, shift);
    const double size = size_of(rows);
    // A rotation explains the difference, it does not merely lessen it.
    if (size > unshifted / 4) continue;
    const double p = sign_flip_p(
        rows, options.permutations,
        base::derive_seed(options.seed, "compare.shifted", {static_cast<std::uint64_t>(shift)}));
    if (p <= options.level) continue;
    fits.push_back(shift);
    if (size < smallest) {
      smallest = size;
      best = record::Rotation{.shift = shift, .every = R, .p_here = p, .p_unshifted = p_unshifted};
    }
  }
  if (!best) return std::nullopt;
  // All fits a constant step apart: the curve repeats, and so do the shifts.
  for (std::int64_t step = 2; step < R; ++step) {
    if (R % step != 0) continue;
    const bool all = std::ssize(fits) == R / step && std::ranges::all_of(fits, [&](std::int64_t s) {
                       return (s - best->shift) % step == 0;
                     });
    if (all) {
      best->shift %= step;
      best->every = step;
      return best;
    }
  }
  // Several shifts fit without a pattern: which of them is not known.
  return fits.size() == 1 ? best : std::nullopt;
}

struct LengthSplit {
  std::int64_t length = 0;
  double statistic = 0;
};

// The split of lengths with the largest difference of flips, in standard errors.
LengthSplit best_split(std::span<const std::pair<std::int64_t, double>> length_and_flips,
                       std::span<const std::int64_t> n, std::span<const std::int64_t> lengths) {
  LengthSplit best;
  for (std::size_t k = 1; k < lengths.size(); ++k) {
    double flips[2] = {0, 0};
    double count[2] = {0, 0};
    for (std::size_t i = 0; i < length_and_flips.size(); ++i) {
      const int side = length_and_flips[i].first >= lengths[k] ? 1 : 0;
      flips[side] += length_and_flips[i].second;
      count[side] += static_cast<double>(n[i]);
    }
    if (count[0] == 0 || count[1] == 0) continue;
    const double share = (flips[0] + flips[1]) / (count[0] + count[1]);
    const double error = std::sqrt(share * (1 - share) * (1 / count[0] + 1 / count[1]));
    if (error == 0) continue;
    const double z = (flips[1] / count[1] - flips[0] / count[0]) / error;
    if (z > best.statistic) best = {.length = lengths[k], .statistic = z};
  }
  return best;
}

void find_threshold(const std::map<std::int64_t, Item>& items, const ComparisonOptions& options,
                    Comparison& result) {
  std::vector<std::pair<std::int64_t, double>> flips;  // of an item, with its length
  std::vector<std::int64_t> n;
  std::vector<std::int64_t> lengths;
  for (const auto& [id, item] : items) {
    double sum = 0;
    std::int64_t count = 0;
    std::int64_t length = 0;
    for (const auto& [residue, pair] : item) {
      if (!pair.both()) continue;
      sum += differ(*pair.a, *pair.b) ? 1 : 0;
      ++count;
      length = std::max(length, pair.a->length);
    }
    if (count == 0) continue;
    flips.emplace_back(length, sum);
    n.push_back(count);
    lengths.push_back(length);
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  if (lengths.size() < 2) return;
  const LengthSplit found = best_split(flips, n, lengths);
  base::Random random(base::derive_seed(options.seed, "compare.threshold"));
  std::int64_t as_large = 1;
  std::vector<std::int64_t> shuffled;
  for (const auto& [length, sum] : flips) shuffled.push_back(length);
  auto permuted = flips;
  for (std::int64_t k = 0; k < options.permutations; ++k) {
    random.shuffle(std::span(shuffled));
    for (std::size_t i = 0; i < permuted.size(); ++i) permuted[i].first = shuffled[i];
    if (best_split(permuted, n, lengths).statistic >= found.statistic - 1e-12) ++as_large;
  }
  result.p_threshold =
      static_cast<double>(as_large) / static_cast<double>(options.permutations + 1);
  if (found.length > 0) result.threshold = found.length;
}

void find_period_of(const std::map<std::int64_t, Item>& items, const ComparisonOptions& options,
                    Comparison& result) {
  std::vector<stats::ScoreRow> rows;
  for (const auto& [id, item] : items) {
    for (const auto& [residue, pair] : item) {
      if (!pair.both()) continue;
      rows.push_back({.item = id,
                      .position = residue,
                      .score = (*pair.a->correct ? 1.0 : 0.0) - (*pair.b->correct ? 1.0 : 0.0)});
    }
  }
  const stats::PeriodResult found = stats::find_period(
      stats::make_score_table(std::move(rows), "compare"),
      {.level = options.level / 3, .seed = base::derive_seed(options.seed, "compare.period")});
  result.period = found.period;
  result.p_period = found.p_value;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0
             ? "undefined"
             : fmt::format("{:.1f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

void conclude(Comparison& c) {
  const std::string rates =
      fmt::format("A is right on {} and B on {} of {} prompts, their answers differ on {}",
                  percent(c.all.correct_a, c.all.n), percent(c.all.correct_b, c.all.n), c.all.n,
                  percent(c.all.flips, c.all.n)) +
      (c.noise ? fmt::format(" (A asked twice: on {})", percent(c.noise->flips, c.noise->n)) : "");
  const double shared = c.level / 3;
  if (c.kind == DifferenceKind::kInconclusive) {
    c.sentence += rates + ".";
    return;
  }
  const bool differs = c.p_correct.value_or(1) <= c.level || c.p_flips.value_or(1) <= c.level;
  if (c.p_threshold && *c.p_threshold <= shared && c.threshold) {
    c.kind = DifferenceKind::kThreshold;
    c.sentence = fmt::format("From {} tokens on A and B differ ({}): {}.", *c.threshold,
                             p_text(c.p_threshold), rates);
    c.next_step =
        "Look for a limit of that length in the engines' settings: context, sliding window, cache "
        "pages, rope scaling, batch size of the prefill.";
  } else if (!differs) {
    c.kind = DifferenceKind::kNone;
    c.sentence = fmt::format(
        "No difference beyond noise ({}): {}.",
        p_text(c.p_flips ? std::min(*c.p_flips, c.p_correct.value_or(1)) : c.p_correct), rates);
    c.next_step = c.noise ? "The engine is not the cause as far as these prompts show."
                          : "Ask with the A/A repeat to know how small a difference would show.";
  } else if (c.rotation) {
    c.kind = DifferenceKind::kRotation;
    c.sentence = fmt::format(
        "B answers as A does {} tokens later{} (alike when shifted: {}; unshifted: {}): {}.",
        c.rotation->shift,
        c.rotation->every < c.modulus ? fmt::format(" (modulo {})", c.rotation->every) : "",
        p_text(c.rotation->p_here), p_text(c.rotation->p_unshifted), rates);
    c.next_step =
        "B very likely puts that many tokens in front which A does not (a BOS, a chat template, a "
        "system prompt): the model is the same, its phases are turned.";
  } else if (c.period) {
    c.kind = DifferenceKind::kPeriod;
    c.sentence = fmt::format("The difference of A and B follows a period of {} ({}): {}.",
                             *c.period, p_text(c.p_period), rates);
    c.next_step =
        "One of the engines treats some phases otherwise: compare how they compress, page or cut "
        "the cache; the curve by residue shows which phases.";
  } else {
    c.kind = DifferenceKind::kEverywhere;
    c.sentence =
        fmt::format("A and B differ, alike at all positions ({}): {}.",
                    p_text(std::min(c.p_correct.value_or(1), c.p_flips.value_or(1))), rates);
    c.next_step = "Look at weights, quantisation, templates and sampling rather than at positions.";
  }
}

}  // namespace

std::optional<double> total_variation(std::span<const record::AnswerProbability> a,
                                      std::span<const record::AnswerProbability> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const auto by_id = [](const record::AnswerProbability& p) { return p.token.starts_with('#'); };
  if (std::ranges::all_of(a, by_id) != std::ranges::all_of(b, by_id)) return std::nullopt;
  struct Shares {
    std::optional<double> a;
    std::optional<double> b;
  };
  std::map<std::string_view, Shares> tokens;
  const auto add = [&](std::span<const record::AnswerProbability> list,
                       std::optional<double> Shares::*side) {
    double rest = 1;
    for (const auto& [token, logprob] : list) {
      const std::string_view name =
          std::string_view(token).substr(std::min(token.find_first_not_of(' '), token.size()));
      std::optional<double>& share = tokens[name].*side;
      share = share.value_or(0) + std::exp(logprob);
      rest -= std::exp(logprob);
    }
    return std::max(0.0, rest);
  };
  const double rest_a = add(a, &Shares::a);
  const double rest_b = add(b, &Shares::b);
  double more_a = 0;  // P_a(S) - P_b(S) over the tokens S that both name and a finds likelier
  double more_b = 0;
  double only_a = 0;
  double only_b = 0;
  for (const auto& [token, p] : tokens) {
    if (p.a && p.b) {
      more_a += std::max(0.0, *p.a - *p.b);
      more_b += std::max(0.0, *p.b - *p.a);
    } else {
      only_a += p.a.value_or(0);
      only_b += p.b.value_or(0);
    }
  }
  const double distance =
      std::max(more_a + std::max(0.0, only_a - rest_b), more_b + std::max(0.0, only_b - rest_a));
  return std::min(1.0, distance);
}

Comparison compare(std::span<const Observation> a, std::span<const Observation> b,
                   std::span<const Observation> again, const ComparisonOptions& options) {
  const auto items = pair_up(a, b, again);
  const std::int64_t R = options.modulus;
  Comparison result{.modulus = R, .level = options.level};
  Tally all;
  Tally noise;
  std::vector<Tally> residues(static_cast<std::size_t>(R));
  std::map<std::int64_t, Tally> lengths;
  std::vector<std::vector<double>> more_flips;  // per item: flips of A and B less those of A twice
  for (const auto& [id, item] : items) {
    double flips = 0;
    bool any = false;
    for (const auto& [residue, pair] : item) {
      ++result.planned;
      result.missing_a += pair.a && pair.a->correct ? 0 : 1;
      result.missing_b += pair.b && pair.b->correct ? 0 : 1;
      if (pair.both()) {
        all.add(*pair.a, *pair.b);
        residues[static_cast<std::size_t>(((residue % R) + R) % R)].add(*pair.a, *pair.b);
        lengths[pair.a->length].add(*pair.a, *pair.b);
      }
      if (pair.twice()) noise.add(*pair.a, *pair.again);
      if (pair.both() && pair.twice()) {
        any = true;
        flips += (differ(*pair.a, *pair.b) ? 1 : 0) - (differ(*pair.a, *pair.again) ? 1 : 0);
      }
    }
    if (any) more_flips.push_back({flips});
  }
  result.all = all.finish();
  if (noise.group.n > 0) result.noise = noise.finish();
  for (std::int64_t r = 0; r < R; ++r) {
    result.residues.push_back(residues[static_cast<std::size_t>(r)].finish());
    result.residues.back().index = r;
  }
  if (lengths.size() > 1) {
    for (auto& [length, tally] : lengths) {
      result.lengths.push_back(tally.finish());
      result.lengths.back().index = length;
    }
  }

  const auto unshifted = differences(items, R, 0);
  if (result.all.n == 0) {
    result.sentence = "Inconclusive: no prompt has a usable reply of both; ";
    result.next_step = "Find out why replies are missing: the first error of each kind says it.";
  } else if (unshifted.size() < kFewestItems) {
    result.sentence =
        fmt::format("Inconclusive: {} items have replies of both at all residues, {} are needed; ",
                    unshifted.size(), kFewestItems);
    result.next_step = "Ask more items, or find out why replies are missing.";
  } else {
    result.kind = DifferenceKind::kNone;
    result.p_correct = sign_flip_p(unshifted, options.permutations,
                                   base::derive_seed(options.seed, "compare.alike"));
    if (more_flips.size() >= kFewestItems) {
      result.p_flips = sign_flip_p(more_flips, options.permutations,
                                   base::derive_seed(options.seed, "compare.flips"));
      // Fewer flips than the noise are no difference.
      double total = 0;
      for (const auto& row : more_flips) total += row.front();
      if (total <= 0) result.p_flips = 1;
    }
    if (*result.p_correct <= options.level) {
      result.rotation = find_rotation(items, *result.p_correct, options);
    }
    find_period_of(items, options, result);
    find_threshold(items, options, result);
  }
  conclude(result);
  if (!result.noise) {
    result.notes.emplace_back(
        "Without an A/A repeat, flips of answers have no noise floor: only right and wrong were "
        "tested.");
  }
  return result;
}

}  // namespace kvphase::audit
