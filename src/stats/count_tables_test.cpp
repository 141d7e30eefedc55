#include "stats/count_tables.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "stats/period.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

TEST(CountTables, AreAllThereIsWithProbabilitiesThatAddUp) {
  const ResidueCounts counts{.correct = {2, 0, 1, 3}, .n = {3, 2, 0, 4}};
  // By trying everything.
  std::set<std::vector<std::int64_t>> expected;
  for (std::int64_t a = 0; a <= 3; ++a) {
    for (std::int64_t b = 0; b <= 2; ++b) {
      for (std::int64_t d = 0; d <= 4; ++d) {
        if (a + b + d == 5) expected.insert({a, b, 0, d});
      }
    }
  }
  const ResidueCounts five{.correct = {2, 0, 0, 3}, .n = counts.n};
  EXPECT_EQ(number_of_tables(five), static_cast<double>(expected.size()));
  double sum = 0;
  for_each_table(five, [&](std::span<const std::int64_t> table, double p) {
    EXPECT_EQ(expected.erase({table.begin(), table.end()}), 1U);
    sum += p;
  });
  EXPECT_TRUE(expected.empty());
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(CountTables, ProbabilitiesAreThoseOfDealing) {
  const ResidueCounts counts{.correct = {1, 2, 0}, .n = {2, 3, 2}};
  std::map<std::vector<std::int64_t>, double> exact;
  for_each_table(counts, [&](std::span<const std::int64_t> table, double p) {
    exact[{table.begin(), table.end()}] = p;
  });
  base::Random random(3);
  constexpr int kDraws = 20000;
  std::map<std::vector<std::int64_t>, double> drawn;
  for (int b = 0; b < kDraws; ++b) {
    const std::int64_t first = draw_hypergeometric(7, 3, 2, random);
    const std::int64_t second = draw_hypergeometric(5, 3 - first, 3, random);
    drawn[{first, second, 3 - first - second}] += 1.0 / kDraws;
  }
  for (const auto& [table, p] : exact) {
    EXPECT_NEAR(drawn[table], p, 0.015) << table[0] << " " << table[1] << " " << table[2];
  }
}

TEST(CountTables, POfSmallCountsDoesNotDependOnTheSeed) {
  const ResidueCounts counts{.correct = {4, 1, 4, 1, 4, 2, 4, 1},
                             .n = std::vector<std::int64_t>(8, 4)};
  std::set<double> p;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    p.insert(*find_period(counts, {.permutations = 200, .seed = seed}).p_value);
  }
  ASSERT_EQ(p.size(), 1U) << "exact";
  // Many draws come close to it: few tables more would be enumerated than drawn.
  std::printf("exact p %.6f of %.0f tables\n", *p.begin(), number_of_tables(counts));
  EXPECT_LT(*p.begin(), 0.01);
}

TEST(CountTables, DrawsGoOnUntilChanceDoesNotDecide) {
  // p near 0.05: with 1,000 draws its third digit is chance.
  const ResidueCounts near{.correct = {205, 195, 205, 195, 205, 195, 205, 195},
                           .n = std::vector<std::int64_t>(8, 256)};
  const auto r = find_period(near, {.permutations = 1000, .other_permutations = 500});
  std::printf("p = %.4f after %lld draws of 1000 asked for\n", *r.p_value,
              static_cast<long long>(r.permutations));
  EXPECT_GT(r.permutations, 1000);
  EXPECT_NE(r.method.find("more than asked for"), std::string::npos) << r.method;
  const ResidueCounts clear{.correct = {240, 120, 240, 120, 240, 120, 240, 120},
                            .n = std::vector<std::int64_t>(8, 256)};
  EXPECT_EQ(find_period(clear, {.permutations = 1000}).permutations, 1000);
}

}  // namespace
}  // namespace kvphase::stats
