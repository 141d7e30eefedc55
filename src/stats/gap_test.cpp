#include "stats/gap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "stats/published_counts.h"
#include "stats/simulate.h"

namespace kvphase::stats {
namespace {

ScoreTable random_table(std::int64_t items, std::int64_t offsets, double p, std::uint64_t seed) {
  base::Random random(seed);
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < items; ++i) {
    for (std::int64_t k = 0; k < offsets; ++k) {
      rows.push_back({i, k, random.uniform() < p ? 1.0 : 0.0});
    }
  }
  return make_score_table(rows);
}

TEST(Gap, RangeConstantsAgreeWithQualityControlTables) {
  const std::map<std::int64_t, double> table = {
      {1, 0},      {2, 1.128},  {3, 1.693},  {4, 2.059},  {5, 2.326},  {6, 2.534},  {8, 2.847},
      {10, 3.078}, {12, 3.258}, {16, 3.532}, {24, 3.895}, {32, 4.139}, {64, 4.687}, {128, 5.189}};
  for (const auto& [groups, expected] : table) {
    EXPECT_NEAR(studentized_range_mean(groups), expected, 6e-4) << groups;
  }
}

TEST(Gap, PublishedModelsHaveTheExpectedRawFoldedAndNoiseGaps) {
  struct Expected {
    double raw, noise, folded, folded_noise;  // percentage points
  };
  const std::map<std::string, Expected> table = {
      {"DeepSeek-V4-Flash-Base", {40.23, 8.9, 38.5, 4.5}},
      {"DeepSeek-V4-Flash-0731", {19.14, 5.0, 18.0, 2.6}},
      {"DeepSeek-V4-Pro-Base", {34.77, 8.0, 32.4, 4.1}},
      {"DeepSeek-V4-Pro-0813", {14.84, 6.5, 14.1, 3.3}},
      {"DeepSeek-V4.1-Flash-0910", {6.09, 1.5, 5.3, 0.3}}};
  std::size_t seen = 0;
  for (const auto& run : published_runs()) {
    const auto at = table.find(run.name);
    if (at == table.end()) continue;
    ++seen;
    const auto raw = gap_noise_counts(run.counts, {});
    const auto folded = gap_noise_counts(fold_counts(run.counts, run.stride), {});
    EXPECT_NEAR(100 * *raw.gap, at->second.raw, 0.005) << run.name;
    EXPECT_NEAR(100 * *folded.gap, at->second.folded, 0.05) << run.name;
    // Rounded to 0.1 in the table; the simulation adds about 0.03.
    EXPECT_NEAR(100 * *raw.noise, at->second.noise, 0.09) << run.name;
    EXPECT_NEAR(100 * *folded.noise, at->second.folded_noise, 0.09) << run.name;
    EXPECT_LT(*raw.p_value, 0.001) << run.name;
  }
  EXPECT_EQ(seen, table.size());
}

TEST(Gap, FullAttentionGapsAreWhatNoiseGives) {
  for (const auto& run : published_runs()) {
    if (run.stride != 0) continue;
    const auto gap = gap_noise_counts(run.counts, {});
    // 3.895 standard errors of one share, which is what d_P predicts for 24 residues.
    const double expected = run.name == "full_attn_1kv" ? 4.81 : 6.01;
    EXPECT_NEAR(100 * *gap.noise, expected, 0.06) << run.name;
    EXPECT_GT(*gap.p_value, 0.05) << run.name;
  }
}

TEST(Gap, NoiseOfEqualSharesFollowsTheTable) {
  struct Row {
    std::int64_t groups, n;
    double mean, high;
  };
  // Share 0.8; mean and 95th percentile in points.
  for (const Row& r : {Row{4, 25, 16.5, 28}, Row{4, 50, 11.8, 22}, Row{4, 100, 8.2, 15},
                       Row{4, 200, 5.7, 10}, Row{8, 50, 15.9, 24}, Row{8, 100, 11.4, 17}}) {
    const auto m = static_cast<std::size_t>(r.groups);
    const ResidueCounts counts{.correct = std::vector<std::int64_t>(m, r.n * 4 / 5),
                               .n = std::vector<std::int64_t>(m, r.n)};
    const auto gap = gap_noise_counts(counts, {.replicates = 20000});
    EXPECT_NEAR(100 * *gap.noise, r.mean, 0.25) << r.groups << " groups of " << r.n;
    // The gap moves in steps of 1/n.
    EXPECT_NEAR(100 * *gap.noise_high, r.high, 100.0 / static_cast<double>(r.n) + 0.01)
        << r.groups << " groups of " << r.n;
    EXPECT_EQ(*gap.p_value, 1) << "equal shares cannot beat noise";
  }
}

TEST(Gap, PermutationNoiseOfIndependentItemsEqualsTheBinomialOne) {
  const auto table = random_table(200, 8, 0.7, 5);
  const auto items = gap_noise_items(table, {.modulus = 4, .replicates = 4000});
  const auto counts = gap_noise_counts(counts_of(table, 4), {.replicates = 4000});
  EXPECT_EQ(*items.gap, *counts.gap);
  EXPECT_NEAR(*items.noise, *counts.noise, 0.05 * *counts.noise);
}

TEST(Gap, PermutationPFindsAWeakPhase) {
  std::vector<ScoreRow> rows;
  base::Random random(8);
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t k = 0; k < 8; ++k) {
      rows.push_back({i, k, random.uniform() < (k % 4 == 2 ? 0.4 : 0.9) ? 1.0 : 0.0});
    }
  }
  const auto gap = gap_noise_items(make_score_table(rows), {.modulus = 4, .replicates = 1000});
  EXPECT_LT(*gap.p_value, 0.002);
  EXPECT_GT(*gap.gap, *gap.noise_high);
}

// Shifts drawn one after another, cell by cell.
double naive_shifts_p(const ScoreTable& table, std::int64_t modulus, std::int64_t replicates,
                      std::uint64_t seed) {
  const GroupTotals totals = group_totals(table, modulus);
  const auto range = [&](const std::vector<double>& sum) {
    double low = 1e9;
    double high = -1e9;
    for (std::size_t g = 0; g < sum.size(); ++g) {
      low = std::min(low, sum[g] / static_cast<double>(totals.n[g]));
      high = std::max(high, sum[g] / static_cast<double>(totals.n[g]));
    }
    return high - low;
  };
  const double observed = range(totals.sum);
  std::int64_t as_large = 0;
  constexpr std::int64_t kWalks = 16;
  for (std::int64_t walk = 0; walk < kWalks; ++walk) {
    base::Random random(
        base::derive_seed(seed, "stats.gap_noise_items", {static_cast<std::uint64_t>(walk)}));
    for (auto b = replicates * walk / kWalks; b < replicates * (walk + 1) / kWalks; ++b) {
      const auto m = static_cast<std::size_t>(modulus);
      std::vector<double> means(m), deviations(m), n(m);
      for (std::size_t i = 0; i < table.items(); ++i) {
        const auto scores = table.scores_of(i);
        double mean = 0;
        for (const double x : scores) mean += x / static_cast<double>(scores.size());
        const bool varies = std::ranges::count(scores, scores[0]) != std::ssize(scores);
        const std::uint64_t by = varies ? ((random.next() >> 32) * m) >> 32 : 0;
        for (std::size_t c = 0; c < scores.size(); ++c) {
          const auto p = static_cast<std::size_t>(table.positions_of(i)[c]);
          means[p % m] += mean;
          deviations[(p + by) % m] += scores[c] - mean;
          n[(p + by) % m] += 1;
        }
      }
      for (std::size_t g = 0; g < m; ++g) {
        if (n[g] == 0) continue;
        means[g] += deviations[g] * std::sqrt(static_cast<double>(totals.n[g]) / n[g]);
      }
      as_large += range(means) >= observed - 1e-9 ? 1 : 0;
    }
  }
  return static_cast<double>(1 + as_large) / static_cast<double>(1 + replicates);
}

TEST(Gap, ShiftsOfFoldedItemsOnSeveralThreadsAreThoseOfTheirCells) {
  // Whole cycles; runs that hold none; constant items; missing cells.
  for (const std::int64_t offsets : {24, 20, 10}) {
    for (const double kept : {1.0, 0.8}) {
      base::Random random(static_cast<std::uint64_t>(offsets));
      std::vector<ScoreRow> rows;
      for (std::int64_t i = 0; i < 25; ++i) {
        const auto start = static_cast<std::int64_t>(random.uniform_index(50));
        for (std::int64_t k = 0; k < offsets; ++k) {
          const bool right = i % 5 == 0 || random.uniform() < (k % 8 == 2 ? 0.5 : 0.75);
          if (random.uniform() < kept) rows.push_back({i, start + k, right ? 1.0 : 0.0});
        }
      }
      const ScoreTable table = make_score_table(rows);
      for (const std::int64_t modulus : {2, 8, 16}) {
        const auto gap = gap_noise_items(table, {.modulus = modulus, .replicates = 600, .seed = 9});
        EXPECT_EQ(*gap.p_value, naive_shifts_p(table, modulus, 600, 9))
            << offsets << " offsets mod " << modulus;
      }
    }
  }
}

TEST(Gap, WithoutAShiftADrawIsTheGapItself) {
  // Of nine items eight are alike in both groups, so that only two draws exist: the data and its
  // mirror image, which has the same gap. Item means, a common offset and sizes that differ between
  // items change nothing.
  for (const double offset : {0.0, 1e8}) {
    std::vector<ScoreRow> rows;
    for (std::int64_t i = 0; i < 8; ++i) {
      for (std::int64_t k = 0; k < 4 + 4 * (i % 2); ++k) {
        rows.push_back({i, k, offset + 0.1 * static_cast<double>(i) + (k % 4 < 2 ? 1 : 0)});
      }
    }
    for (std::int64_t k = 0; k < 4; ++k) rows.push_back({8, k, offset + (k % 2 == 0 ? 0.7 : 0)});
    const auto gap = gap_noise_items(make_score_table(rows), {.modulus = 2, .replicates = 500});
    EXPECT_EQ(*gap.p_value, 1) << offset;
  }
}

// Shares of data sets with p <= 0.05.
double rejected(const SimulatedAudit& audit, std::int64_t modulus, int runs, std::uint64_t seed) {
  int hits = 0;
  for (int run = 0; run < runs; ++run) {
    base::Random random(base::derive_seed(seed, "run", {static_cast<std::uint64_t>(run)}));
    const auto gap = gap_noise_items(
        simulate(audit, random),
        {.modulus = modulus, .replicates = 199, .seed = static_cast<std::uint64_t>(run)});
    hits += *gap.p_value <= 0.05 ? 1 : 0;
  }
  std::printf("p <= 0.05 in %.3f of %d sets\n", static_cast<double>(hits) / runs, runs);
  return static_cast<double>(hits) / runs;
}

TEST(Gap, PatternsOfItemsOwnAreNoGapOverTheGroups) {
  // Scores permuted inside items: 0.65 over phases of 8, 0.46 over phases of 4.
  for (const std::int64_t range : {1000, 0}) {
    const SimulatedAudit audit{.items = 30,
                               .start_range = range,
                               .accuracy = 0.99,
                               .own_period = 8,
                               .own_drop = 10,
                               .own_chance = 0.3};
    for (const std::int64_t modulus : {4, 8, 24}) {
      EXPECT_LE(rejected(audit, modulus, 300, 1), 0.09) << "mod " << modulus << ", " << range;
    }
  }
}

TEST(Gap, TheLevelHoldsWhereGroupsHaveDifferentNumbersOfObservations) {
  for (const std::int64_t range : {1000, 0}) {
    const SimulatedAudit two_and_three{.items = 30, .offsets = 20, .start_range = range};
    const SimulatedAudit one_and_two{.items = 30, .offsets = 24, .start_range = range};
    for (const double share :
         {rejected(two_and_three, 8, 400, 2), rejected(one_and_two, 16, 400, 3)}) {
      EXPECT_LE(share, 0.085) << range;
      EXPECT_GE(share, 0.015) << range;
    }
  }
}

TEST(Gap, TheNoiseLeavesOutWhatItemsShare) {
  base::Random random(11);
  std::vector<ScoreRow> flat, dip;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t k = 0; k < 24; ++k) {
      const double x = random.normal();
      flat.push_back({i, i + k, x});
      dip.push_back({i, i + k, x - ((i + k) % 8 == 3 ? 4 : 0)});
    }
  }
  const GapOptions options{.modulus = 8, .replicates = 2000};
  const auto without = gap_noise_items(make_score_table(flat), options);
  const auto with = gap_noise_items(make_score_table(dip), options);
  EXPECT_NEAR(*with.noise, *without.noise, 0.01) << "equal groups would show no dip";
  EXPECT_NEAR(*without.noise, studentized_range_mean(8) / std::sqrt(120.0), 0.03);
  EXPECT_LT(*with.p_value, 0.001);
}

TEST(Gap, FewItemsArePermutedAndTheMethodSaysSo) {
  const auto method = [](std::int64_t items) {
    return gap_noise_items(random_table(items, 24, 0.5, 3), {.modulus = 8, .replicates = 50})
        .method;
  };
  EXPECT_EQ(method(1), "permutation of scores inside items, 50 permutations");
  EXPECT_EQ(method(8),
            "permutation of scores inside items, 50 permutations (8 items that vary are too few to "
            "be shifted as a whole)");
  EXPECT_EQ(method(9),
            "every item shifted over the groups as a whole, by its own random amount, 50 draws");
}

TEST(Gap, CrossFittedGapIsUnbiasedWhenPhasesAreAlikeAndKeepsALargeOne) {
  double raw = 0;
  double fitted = 0;
  constexpr int kRuns = 60;
  for (int k = 0; k < kRuns; ++k) {
    const auto table = random_table(40, 8, 0.8, 100 + static_cast<std::uint64_t>(k));
    raw += *gap_noise_items(table, {.modulus = 4, .replicates = 1}).gap / kRuns;
    fitted += *cross_fitted_gap(table, 4, 20).value / kRuns;
  }
  EXPECT_GT(raw, 0.06) << "the raw gap is biased";
  EXPECT_NEAR(fitted, 0, 0.02);

  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 10; ++i) {
    for (std::int64_t k = 0; k < 4; ++k) rows.push_back({i, k, k == 1 ? 0.0 : (k == 2 ? 1.0 : .5)});
  }
  EXPECT_DOUBLE_EQ(*cross_fitted_gap(make_score_table(rows), 4).value, 1);
}

TEST(Gap, IsDefinedOrExplainedForTinyAndConstantData) {
  const auto none = gap_noise_items(make_score_table({}), {.modulus = 4});
  EXPECT_FALSE(none.gap || none.p_value);
  EXPECT_EQ(none.reason, "no observations");
  const auto one = gap_noise_items(make_score_table({{0, 0, 1}}), {.modulus = 4});
  EXPECT_FALSE(one.gap);
  EXPECT_FALSE(one.reason.empty());
  const auto flat = gap_noise_items(make_score_table({{0, 0, 1}, {0, 1, 1}}), {.modulus = 2});
  EXPECT_EQ(*flat.gap, 0);
  EXPECT_EQ(*flat.noise, 0) << "every permutation is the data itself";
  EXPECT_EQ(*flat.p_value, 1);
  const auto two = gap_noise_items(make_score_table({{0, 0, 1}, {0, 1, 0}}), {.modulus = 2});
  EXPECT_EQ(*two.p_value, 1) << "both orders of two scores give the same gap";
  EXPECT_FALSE(cross_fitted_gap(make_score_table({{0, 0, 1}}), 2).value);
  EXPECT_FALSE(cross_fitted_gap(make_score_table({{0, 0, 1}, {1, 1, 0}}), 2).value)
      << "no group lies in both halves";
  const auto zero = gap_noise_counts({.correct = {0, 0}, .n = {0, 0}}, {});
  EXPECT_FALSE(zero.gap);
  const auto missing = gap_noise_counts({.correct = {0, 4, 2}, .n = {0, 4, 4}}, {});
  EXPECT_DOUBLE_EQ(*missing.gap, 0.5) << "the empty group takes no part";
  EXPECT_EQ(*gap_noise_counts({.correct = {4, 4}, .n = {4, 4}}, {}).p_value, 1);
  EXPECT_THROW(gap_noise_items(make_score_table({{0, 0, 1}}), {.modulus = 0}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
