#include "stats/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "stats/published_counts.h"

namespace kvphase::stats {
namespace {

TEST(Bootstrap, QuantilesInterpolate) {
  const std::vector<double> v = {0, 10, 20};
  EXPECT_EQ(sorted_quantile(v, 0), 0);
  EXPECT_EQ(sorted_quantile(v, 1), 20);
  EXPECT_EQ(sorted_quantile(v, 0.25), 5);
  EXPECT_EQ(sorted_quantile(std::vector<double>{3}, 0.4), 3);
}

TEST(Bootstrap, PointValuesAreThoseOfTheData) {
  const auto t =
      make_score_table({{0, 4, 1}, {0, 5, 0}, {0, 6, 1}, {1, 8, 1}, {1, 9, 1}, {1, 10, 0}});
  const auto r = bootstrap_items(t, {.modulus = 4, .replicates = 50});
  EXPECT_DOUBLE_EQ(*r.mean.value, 4.0 / 6);
  EXPECT_DOUBLE_EQ(*r.groups[0].mean.value, 1);
  EXPECT_EQ(*r.worst.value, 0.5);
  EXPECT_EQ(*r.worst_group, 1) << "the first of equals";
  EXPECT_EQ(*r.best_group, 0);
  EXPECT_EQ(*r.gap.value, 0.5);
  EXPECT_FALSE(r.groups[3].mean.value) << "phase 3 is missing";
  EXPECT_EQ(r.groups[3].mean.reason, "no observations in this group");
}

TEST(Bootstrap, TakesItemsAsAWhole) {
  // 50 items, all right or all wrong: 24 observations each say no more than one.
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 50; ++i) {
    for (std::int64_t k = 0; k < 24; ++k) rows.push_back({i, k, i % 2 == 0 ? 1.0 : 0.0});
  }
  const auto r = bootstrap_items(make_score_table(rows), {.modulus = 4});
  const double half = 1.96 * std::sqrt(0.25 / 50);
  EXPECT_NEAR(*r.mean.low, 0.5 - half, 0.025);
  EXPECT_NEAR(*r.mean.high, 0.5 + half, 0.025);
  EXPECT_LT(*r.gap.high, 0.6);
  EXPECT_EQ(*r.gap.low, 0);
  for (const auto& g : r.groups) EXPECT_NEAR(*g.worst_share, 0.25, 1e-9) << "ties share";
}

TEST(Bootstrap, FindsTheWorstPhaseInMostReplicates) {
  std::vector<ScoreRow> rows;
  base::Random random(2);
  for (std::int64_t i = 0; i < 100; ++i) {
    for (std::int64_t k = 0; k < 8; ++k) {
      rows.push_back({i, k, random.uniform() < (k % 4 == 3 ? 0.5 : 0.8) ? 1.0 : 0.0});
    }
  }
  const auto r = bootstrap_items(make_score_table(rows), {.modulus = 4});
  EXPECT_EQ(*r.worst_group, 3);
  EXPECT_GT(*r.groups[3].worst_share, 0.99);
  double total = 0;
  for (const auto& g : r.groups) total += *g.worst_share;
  EXPECT_NEAR(total, 1, 1e-9);
  EXPECT_LT(*r.gap.low, *r.gap.value);
  EXPECT_GT(*r.gap.high, *r.gap.value);
}

TEST(Bootstrap, SameSeedSameIntervals) {
  const auto t =
      make_score_table({{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}});
  const auto a = bootstrap_items(t, {.modulus = 2, .seed = 9});
  const auto b = bootstrap_items(t, {.modulus = 2, .seed = 9});
  EXPECT_EQ(*a.mean.low, *b.mean.low);
  EXPECT_EQ(*a.gap.high, *b.gap.high);
}

TEST(Bootstrap, OneItemOrNoneHasNoInterval) {
  const auto none = bootstrap_items(make_score_table({}), {.modulus = 3});
  EXPECT_FALSE(none.mean.value || none.worst.value || none.gap.value || none.worst_group);
  EXPECT_EQ(none.mean.reason, "no observations");
  const auto one = bootstrap_items(make_score_table({{0, 0, 1}, {0, 1, 0}}), {.modulus = 2});
  EXPECT_EQ(*one.gap.value, 1);
  EXPECT_FALSE(one.gap.low || one.groups[0].worst_share);
  EXPECT_NE(one.gap.reason.find("at least 2"), std::string::npos);
}

TEST(Bootstrap, CountsGiveBinomialIntervals) {
  for (const auto& run : published_runs()) {
    if (run.name != "DeepSeek-V4-Flash-Base") continue;
    const auto r = bootstrap_counts(run.counts, {});
    EXPECT_EQ(*r.worst_group, 3);
    EXPECT_EQ(*r.best_group, 5);
    EXPECT_NEAR(*r.mean.value, 0.526, 0.0005);
    EXPECT_NEAR(*r.groups[0].mean.high - *r.groups[0].mean.low,
                2 * 1.96 * std::sqrt(.4375 * .5625 / 256), 0.01);
    EXPECT_GT(*r.groups[3].worst_share, 0.5);
  }
}

TEST(Bootstrap, CountsWithEmptyGroupsAndConstantsAreDefined) {
  const auto r = bootstrap_counts({.correct = {5, 0, 0}, .n = {5, 0, 5}}, {.replicates = 20});
  EXPECT_EQ(*r.gap.value, 1);
  EXPECT_LT(*r.gap.low, 0.1) << "five right and five wrong do not prove a gap of 1";
  EXPECT_EQ(*r.gap.high, 1);
  EXPECT_FALSE(r.groups[1].mean.value);
  const auto none = bootstrap_counts({.correct = {0}, .n = {0}}, {});
  EXPECT_FALSE(none.mean.value);
  EXPECT_THROW(bootstrap_counts({.correct = {0}, .n = {1}}, {.replicates = 0}), base::Error);
}

// Value and interval, for messages.
std::string show(const Estimate& e) {
  const auto text = [](const std::optional<double>& x) { return x ? std::to_string(*x) : "-"; };
  return text(e.value) + " [" + text(e.low) + ", " + text(e.high) + "] " + e.reason;
}

void expect_width_or_reason(const GroupBootstrap& r, const std::string& what) {
  std::vector<std::pair<std::string, Estimate>> all = {
      {"mean", r.mean}, {"worst", r.worst}, {"best", r.best}, {"gap", r.gap}};
  for (std::size_t g = 0; g < r.groups.size(); ++g) {
    all.emplace_back("group " + std::to_string(g), r.groups[g].mean);
  }
  for (const auto& [name, e] : all) {
    EXPECT_EQ(e.low.has_value(), e.high.has_value()) << what << " " << name << " " << show(e);
    if (e.low) {
      EXPECT_LT(*e.low + 1e-9, *e.high) << what << " " << name << " " << show(e);
      EXPECT_LE(*e.low, *e.value) << what << " " << name << " " << show(e);
      EXPECT_GE(*e.high, *e.value) << what << " " << name << " " << show(e);
    } else {
      EXPECT_FALSE(e.reason.empty()) << what << " " << name << " " << show(e);
    }
  }
}

TEST(Bootstrap, NoIntervalHasZeroWidthOrLeavesOutItsEstimate) {
  struct Case {
    std::string name;
    std::int64_t items;
    std::function<double(std::int64_t, std::int64_t)> score;
    bool right_wrong = true;
  };
  base::Random random(4);
  for (const Case& c : std::vector<Case>{
           {"all right", 8, [](auto, auto) { return 1.0; }},
           {"all wrong", 8, [](auto, auto) { return 0.0; }},
           {"two items all right", 2, [](auto, auto) { return 1.0; }},
           {"one phase all wrong, the others all right", 8,
            [](auto, auto p) { return p % 4 == 3 ? 0.0 : 1.0; }},
           {"every item half right", 8, [](auto i, auto p) { return (i + p / 4) % 2 ? 1.0 : 0.0; }},
           {"one phase all right, the others noisy", 20,
            [&](auto, auto p) { return p % 4 == 0 || random.uniform() < 0.5 ? 1.0 : 0.0; }},
           {"ties", 100, [&](auto, auto) { return random.uniform() < 0.8 ? 1.0 : 0.0; }},
           {"margins that are all equal", 8, [](auto, auto) { return -1.5; }, false},
           {"margins of 0", 8, [](auto, auto) { return 0.0; }, false},
           {"one phase of margins all equal", 8,
            [&](auto, auto p) { return p % 4 == 1 ? 2.0 : random.normal(); }, false}}) {
    std::vector<ScoreRow> rows;
    for (std::int64_t i = 0; i < c.items; ++i) {
      for (std::int64_t k = 0; k < 8; ++k) rows.push_back({i, k, c.score(i, k)});
    }
    const ScoreTable table = make_score_table(rows);
    const auto r =
        bootstrap_items(table, {.modulus = 4, .replicates = 300, .right_wrong = c.right_wrong});
    expect_width_or_reason(r, c.name);
    if (!c.right_wrong) continue;
    const auto counts = counts_of(table, 4);
    expect_width_or_reason(bootstrap_counts(counts, {.replicates = 300}), c.name + ", counts");
  }
  // One observation per residue, each its own item.
  const auto single = make_score_table({{0, 0, 1}, {1, 1, 1}, {2, 2, 0}, {3, 3, 1}});
  expect_width_or_reason(
      bootstrap_items(single, {.modulus = 4, .replicates = 300, .right_wrong = true}), "n = 1");
  expect_width_or_reason(bootstrap_items(single, {.modulus = 4, .replicates = 300}),
                         "n = 1, score");
}

TEST(Bootstrap, AllRightIsBoundedExactly) {
  std::vector<ScoreRow> rows;
  for (std::int64_t i = 0; i < 59; ++i) {
    for (std::int64_t k = 0; k < 8; ++k) rows.push_back({i, k, 1});
  }
  const auto r = bootstrap_items(make_score_table(rows),
                                 {.modulus = 4, .replicates = 50, .right_wrong = true});
  EXPECT_NEAR(*r.mean.low, std::pow(0.025, 1.0 / 59), 1e-9) << "59 items, not 472 prompts";
  EXPECT_NEAR(*r.worst.low, std::pow(0.025, 1.0 / 59), 1e-9) << "one bound must hold";
  EXPECT_NEAR(*r.best.low, std::pow(0.025 / 4, 1.0 / 59), 1e-9) << "four phases at once";
  EXPECT_NEAR(*r.gap.high, 1 - std::pow(0.05 / 4, 1.0 / 59), 1e-9);
}

TEST(Bootstrap, OneGroupHasNoGap) {
  const auto r = bootstrap_counts({.correct = {3, 0}, .n = {5, 0}}, {.replicates = 20});
  EXPECT_EQ(*r.worst.value, 0.6);
  EXPECT_FALSE(r.gap.value || r.gap.low) << show(r.gap);
  EXPECT_EQ(r.gap.reason, "only one group has observations");
  const auto items = bootstrap_items(make_score_table({{0, 0, 1}, {1, 0, 0}, {2, 0, 1}}),
                                     {.modulus = 2, .replicates = 20});
  EXPECT_FALSE(items.gap.value) << show(items.gap);
}

// Phases that tie, far from one half: the extreme of several skewed shares.
TEST(Bootstrap, IntervalsOfWorstBestAndGapHoldWherePhasesTie) {
  constexpr int kRuns = 200;
  struct Case {
    double share;
    std::int64_t items;
    std::int64_t positions;
  };
  for (const Case& c : std::vector<Case>{
           {0.8, 50, 8}, {0.05, 40, 8}, {0.95, 40, 8}, {0.2, 20, 8}, {0.24, 20, 16}}) {
    int worst = 0;
    int best = 0;
    int gap = 0;
    int of_counts = 0;
    for (int run = 0; run < kRuns; ++run) {
      base::Random random(1000 + static_cast<std::uint64_t>(run));
      std::vector<ScoreRow> rows;
      for (std::int64_t i = 0; i < c.items; ++i) {
        for (std::int64_t k = 0; k < c.positions; ++k) {
          rows.push_back({i, k, random.uniform() < c.share ? 1. : 0.});
        }
      }
      const auto table = make_score_table(rows);
      const auto r = bootstrap_items(table, {.modulus = 4, .replicates = 300, .right_wrong = true});
      const auto covers = [&](const Estimate& e) {
        return *e.low <= c.share && c.share <= *e.high ? 1 : 0;
      };
      worst += covers(r.worst);
      best += covers(r.best);
      gap += *r.gap.low <= 0 ? 1 : 0;
      const auto counts = bootstrap_counts(counts_of(table, 4), {.replicates = 300});
      of_counts += covers(counts.worst) * covers(counts.best);
    }
    std::printf("share %.2f: covered in %d runs: worst %d, best %d, gap %d, counts %d\n", c.share,
                kRuns, worst, best, gap, of_counts);
    EXPECT_GE(worst, kRuns * 93 / 100) << c.share;
    EXPECT_GE(best, kRuns * 93 / 100) << c.share;
    EXPECT_GE(gap, kRuns * 93 / 100) << c.share;
    EXPECT_GE(of_counts, kRuns * 93 / 100) << c.share;
  }
}

}  // namespace
}  // namespace kvphase::stats
