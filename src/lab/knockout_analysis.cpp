#include "lab/knockout_analysis.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/random.h"
#include "base/stop.h"
#include "stats/item_bootstrap.h"
#include "stats/paired.h"

namespace kvphase::lab {
namespace {

using stats::Estimate;
using Values = std::vector<std::optional<double>>;

// 100 (knocked - clean) / clean per residue; empty where nothing was right.
Values changes(std::span<const double> clean, std::span<const double> knocked) {
  Values change(clean.size());
  for (std::size_t r = 0; r < clean.size(); ++r) {
    if (clean[r] > 0) change[r] = 100 * (knocked[r] - clean[r]) / clean[r];
  }
  return change;
}

// The mean over the residues of each phase; empty where a residue is.
Values folded(const Values& by_residue, std::size_t stride) {
  Values by_phase(stride);
  for (std::size_t phase = 0; phase < stride; ++phase) {
    double sum = 0, count = 0;
    bool whole = true;
    for (std::size_t r = phase; r < by_residue.size(); r += stride) {
      whole = whole && by_residue[r].has_value();
      sum += by_residue[r].value_or(0);
      count += 1;
    }
    if (whole && count > 0) by_phase[phase] = sum / count;
  }
  return by_phase;
}

std::optional<double> mean(const Values& values) {
  double sum = 0;
  for (const auto& value : values) {
    if (!value) return std::nullopt;
    sum += *value;
  }
  return values.empty() ? std::nullopt : std::optional(sum / static_cast<double>(values.size()));
}

// Largest loss minus mean loss, and where it is.
struct Concentration {
  std::optional<double> points;
  std::optional<std::int64_t> phase;
};
Concentration concentration(const Values& change) {
  const auto average = mean(change);
  if (!average) return {};
  const auto lowest = std::ranges::min_element(change);
  return {.points = *average - **lowest, .phase = lowest - change.begin()};
}

// The same, the phase chosen in one half of the items and its loss measured in the other, both
// ways round: 0 on average where the loss does not depend on phase.
std::optional<double> crossed(const Values& one, const Values& other) {
  const auto chosen = concentration(one).phase, also = concentration(other).phase;
  if (!chosen || !also) return std::nullopt;
  const auto above = [](const Values& change, std::int64_t phase) {
    return *mean(change) - *change[static_cast<std::size_t>(phase)];
  };
  return (above(other, *chosen) + above(one, *also)) / 2;
}

// items x 2 halves x (1 + sites) R sums: the clean answers first. An item is in one half; of every
// two neighbours a coin decides which is in the first.
std::vector<double> item_rows(const KnockoutAnswers& a, std::uint64_t seed) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const std::size_t half = R * (1 + a.sites.size());
  std::vector<double> rows(static_cast<std::size_t>(a.items) * 2 * half);
  base::Random random(base::derive_seed(seed, "knockout.halves"));
  bool second = false;
  for (std::size_t item = 0; item < static_cast<std::size_t>(a.items); ++item) {
    second = item % 2 == 0 ? random.uniform() < 0.5 : !second;
    const std::size_t begin = item * 2 * half + (second ? half : 0);
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t at = item * R + r;
      rows[begin + r] = a.clean[at];
      for (std::size_t s = 0; s < a.sites.size(); ++s) {
        rows[begin + (s + 1) * R + r] = a.knocked[s][at];
      }
    }
  }
  return rows;
}

std::vector<double> added(std::span<const double> a, std::span<const double> b) {
  std::vector<double> sum(a.begin(), a.end());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

std::vector<SiteResult> estimate(const KnockoutAnswers& a, const KnockoutOptions& options) {
  const auto R = static_cast<std::size_t>(a.modulus);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t half = R * (1 + a.sites.size());
  const std::size_t per_site = S + 4;  // phases, mean, points, concentration, crossed
  const double prompts = static_cast<double>(a.items) * static_cast<double>(R);
  const auto statistic = [&](std::span<const double> sums,
                             std::span<std::optional<double>> values) {
    const std::span<const double> first = sums.first(half), second = sums.subspan(half);
    const std::vector<double> all = added(first, second);
    const auto change_of = [&](std::span<const double> of, std::size_t s) {
      return folded(changes(of.first(R), of.subspan((s + 1) * R, R)), S);
    };
    for (std::size_t s = 0; s < a.sites.size(); ++s) {
      const Values change = change_of(all, s);
      const auto out = values.subspan(s * per_site, per_site);
      std::ranges::copy(change, out.begin());
      double points = 0;
      for (std::size_t r = 0; r < R; ++r) points += all[(s + 1) * R + r] - all[r];
      out[S] = mean(change);
      out[S + 1] = 100 * points / prompts;
      out[S + 2] = concentration(change).points;
      out[S + 3] = crossed(change_of(first, s), change_of(second, s));
    }
  };
  const std::vector<double> rows = item_rows(a, options.seed);
  const std::vector<Estimate> estimates =
      stats::bootstrap_statistic(rows, 2 * half, per_site * a.sites.size(), statistic,
                                 {.replicates = options.replicates,
                                  .seed = base::derive_seed(options.seed, "knockout.bootstrap")});
  std::vector<double> sums(half);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i % half] += rows[i];
  std::vector<SiteResult> results(a.sites.size());
  for (std::size_t s = 0; s < results.size(); ++s) {
    const auto first = estimates.begin() + static_cast<std::ptrdiff_t>(s * per_site);
    const auto phases = static_cast<std::ptrdiff_t>(S);
    results[s] = {
        .by_residue = changes(std::span(sums).first(R), std::span(sums).subspan((s + 1) * R, R)),
        .phases = {first, first + phases},
        .mean = first[phases],
        .points = first[phases + 1],
        .concentrated = first[phases + 2],
        .crossed = first[phases + 3]};
    results[s].worst_phase = concentration(folded(results[s].by_residue, S)).phase;
  }
  return results;
}

// Clean and knocked right answers of an item by phase: [2 S].
std::vector<double> phase_rows(const KnockoutAnswers& a, std::size_t S,
                               std::span<const std::uint8_t> knocked) {
  const auto R = static_cast<std::size_t>(a.modulus);
  std::vector<double> rows(static_cast<std::size_t>(a.items) * 2 * S);
  for (std::size_t at = 0; at < a.clean.size(); ++at) {
    double* row = rows.data() + at / R * 2 * S;
    row[at % R % S] += a.clean[at];
    row[S + at % R % S] += knocked[at];
  }
  return rows;
}

// What a guess may reach, as a share of prompts: one of the prompt's records, or of all values, and
// three standard errors of that over items (a guess is often the same at all residues of an item).
double guess_bound(const KnockoutAnswers& a, const KnockoutOptions& options) {
  const task::LookupLanguage& language = options.lookup.language;
  const auto choices =
      static_cast<double>(std::max<std::int64_t>(1, std::min(language.records, language.values)));
  const double guess = 1 / choices;
  return guess + 3 * std::sqrt(guess * (1 - guess) / static_cast<double>(a.items));
}

// By phase: knocked - mean - c (clean - mean), which is knocked - f - c (clean - f) with the share
// c kept of what exceeds a floor f at all phases together. Of the floors from 0 to `highest_floor`
// (and to the lowest accuracy of any phase) the one that leaves least.
std::vector<double> beyond_share(std::span<const double> sums, double highest_floor) {
  const std::size_t S = sums.size() / 2;
  const auto phases = static_cast<double>(S);
  const std::span<const double> clean = sums.first(S), knocked = sums.subspan(S);
  const double x = std::accumulate(clean.begin(), clean.end(), 0.0) / phases;
  const double y = std::accumulate(knocked.begin(), knocked.end(), 0.0) / phases;
  const double f = std::min({highest_floor, std::ranges::min(clean), std::ranges::min(knocked)});
  double xy = 0, xx = 0;
  for (std::size_t g = 0; g < S; ++g) {
    xy += (clean[g] - x) * (knocked[g] - y);
    xx += (clean[g] - x) * (clean[g] - x);
  }
  double share = 0;
  if (xx > 0) {
    const double without = y / x, with = (y - f) / (x - f);  // x > f, or xx were 0
    share = std::clamp(xy / xx, std::min(without, with), std::max(without, with));
  }
  std::vector<double> beyond(S);
  for (std::size_t g = 0; g < S; ++g) beyond[g] = knocked[g] - y - share * (clean[g] - x);
  return beyond;
}

// Under the null beyond_share leaves 0 at every phase. Items drawn with replacement say how far
// from 0 chance takes it. Whole items: an item's answers at the same phase of neighbouring windows
// go together, so its positions are not exchangeable, whether or not phases differ.
PhaseTest test_items(const KnockoutAnswers& a, std::span<const std::uint8_t> knocked,
                     double highest_floor, const KnockoutOptions& options, std::uint64_t seed) {
  constexpr std::int64_t kFewest = 8;
  if (a.items < kFewest) return {.reason = "fewer than 8 items"};
  const auto S = static_cast<std::size_t>(options.stride);
  const auto items = static_cast<std::size_t>(a.items);
  const std::vector<double> rows = phase_rows(a, S, knocked);
  const auto distance = [&](std::span<const double> from, std::span<const double> to) {
    double squares = 0;
    for (std::size_t g = 0; g < S; ++g) squares += (from[g] - to[g]) * (from[g] - to[g]);
    return squares;
  };
  std::vector<double> sums(2 * S);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i % (2 * S)] += rows[i];
  const std::vector<double> found = beyond_share(sums, highest_floor);
  // A sample of n items varies by (n - 1) / n less around its mean.
  const auto n = static_cast<double>(items);
  const double observed =
      distance(found, std::vector<double>(S)) * (n - 1) / n * (1 - 1e-9);  // ties count
  base::Random random(seed);
  std::int64_t as_far = 0;
  for (std::int64_t k = 0; k < options.permutations; ++k) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t i = 0; i < items; ++i) {
      const double* row = rows.data() + random.uniform_index(items) * 2 * S;
      for (std::size_t c = 0; c < 2 * S; ++c) sums[c] += row[c];
    }
    as_far += distance(beyond_share(sums, highest_floor), found) >= observed ? 1 : 0;
  }
  return {.p = static_cast<double>(as_far + 1) / static_cast<double>(options.permutations + 1)};
}

// Does the net change follow the phase? Under the null every phase keeps the same share of what its
// accuracy exceeds a guess by, net of what is gained.
PhaseTest test_net(const KnockoutAnswers& a, const KnockoutOptions& options, std::size_t site) {
  const std::vector<std::uint8_t>& knocked = a.knocked[site];
  if (std::ranges::count(a.clean, 1) == 0) return {.reason = "no prompt is right without it"};
  if (knocked == a.clean) return {.reason = "no answer changes"};
  if (std::ranges::count(knocked, 1) == 0) return {.reason = "every right answer is lost"};
  const double highest_floor = guess_bound(a, options) * static_cast<double>(a.clean.size()) /
                               static_cast<double>(options.stride);
  return test_items(a, knocked, highest_floor, options,
                    base::derive_seed(options.seed, "knockout.net", {site}));
}

// Does the share of right answers that stay right follow the phase?
PhaseTest test_lost(const KnockoutAnswers& a, const KnockoutOptions& options, std::size_t site) {
  std::vector<std::uint8_t> kept(a.clean.size());
  for (std::size_t at = 0; at < kept.size(); ++at) {
    kept[at] = a.clean[at] != 0 && a.knocked[site][at] != 0 ? 1 : 0;
  }
  if (std::ranges::count(a.clean, 1) == 0) return {.reason = "no prompt is right without it"};
  if (kept == a.clean) return {.reason = "no right answer is lost"};
  if (std::ranges::count(kept, 1) == 0) return {.reason = "every right answer is lost"};
  return test_items(a, kept, 0, options, base::derive_seed(options.seed, "knockout.lost", {site}));
}

void correct(std::vector<SiteResult>& results, PhaseTest SiteResult::*test) {
  std::vector<double> p;
  for (const SiteResult& r : results) {
    if ((r.*test).p) p.push_back(*(r.*test).p);
  }
  const std::vector<double> adjusted = stats::holm(p);
  auto next = adjusted.begin();
  for (SiteResult& r : results) {
    if ((r.*test).p) (r.*test).p_holm = *next++;
  }
}

void test_sites(std::vector<SiteResult>& results, const KnockoutAnswers& a,
                const KnockoutOptions& options) {
  for (std::size_t s = 0; s < results.size(); ++s) {
    base::stop_if_requested("knockout");
    results[s].net = test_net(a, options, s);
    if (results[s].net.p && !results[s].crossed.value) {
      results[s].net = {.reason = "a residue has no right answer in half of the items"};
    }
    results[s].lost = test_lost(a, options, s);
  }
  correct(results, &SiteResult::net);
  correct(results, &SiteResult::lost);
}

}  // namespace

bool depends_on_phase(const SiteResult& r) {
  return r.net.found() && r.crossed.value && r.crossed.low.value_or(*r.crossed.value) > 0;
}

Tally tally(const KnockoutAnswers& a, const std::vector<SiteResult>& results, bool layers,
            PhaseTest SiteResult::*test) {
  Tally t;
  for (std::size_t s = 0; s < results.size(); ++s) {
    if (a.sites[s].whole_layer != layers) continue;
    const bool named =
        test == &SiteResult::net ? depends_on_phase(results[s]) : (results[s].*test).found();
    t.found += named ? 1 : 0;
    t.tested += (results[s].*test).p ? 1 : 0;
    t.all += 1;
  }
  return t;
}

std::vector<SiteResult> analyse(const KnockoutAnswers& a, const KnockoutOptions& options) {
  std::vector<SiteResult> results = estimate(a, options);
  test_sites(results, a, options);
  return results;
}

}  // namespace kvphase::lab
