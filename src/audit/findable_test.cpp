#include "audit/findable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "stats/period.h"
#include "stats/sampling.h"
#include "stats/simulate.h"

namespace kvphase::audit {
namespace {

TEST(Findable, DipAndSizeAreInverse) {
  const FindableInput input{.observations = 1200, .variance = 0.16, .stride = 4};
  const double dip = findable_dip(input).value();
  EXPECT_NEAR(static_cast<double>(observations_for_dip(dip, input)), 1200, 1);
  FindableInput known = input;
  known.candidates = 1;
  EXPECT_LT(findable_dip(known).value(), dip) << "a known stride needs less";
  FindableInput more = input;
  more.observations = 4800;
  EXPECT_NEAR(findable_dip(more).value(), dip / 2, 1e-9) << "four times the data, half the dip";
}

TEST(Findable, IsUndefinedWithoutDataOrNoise) {
  EXPECT_EQ(findable_dip({.observations = 0, .variance = 0.1}), std::nullopt);
  EXPECT_EQ(findable_dip({.observations = 100, .variance = 0}), std::nullopt);
  EXPECT_EQ(noise_variance({}, true), std::nullopt);
  const auto one_each = stats::make_score_table({{0, 0, 1.0}, {1, 0, 0.0}});
  EXPECT_EQ(noise_variance(one_each, true), std::nullopt);
  EXPECT_DOUBLE_EQ(noise_variance(one_each, false).value(), 0.5);
}

// The real test, with its search, trend and guards, on simulated audits whose dip is the one that
// the formula calls findable in 80 of 100.
TEST(Findable, PromisesAboutThePowerThatSimulationGives) {
  base::Random random(11);
  int found = 0;
  constexpr int kRuns = 100;
  constexpr std::int64_t kItems = 30;
  const double accuracy = 0.8;
  // Within-item variance of a simulated score, measured once on data without a dip.
  const stats::SimulatedAudit flat{.items = 400, .accuracy = accuracy, .item_sd = 1};
  const double variance = noise_variance(stats::simulate(flat, random), true).value();
  const double dip =
      findable_dip(
          {.observations = kItems * 24, .variance = variance, .share = accuracy, .stride = 4})
          .value();
  for (int run = 0; run < kRuns; ++run) {
    const stats::SimulatedAudit audit{
        .items = kItems, .accuracy = accuracy, .item_sd = 1, .period = 4, .drop = dip};
    const auto result = stats::find_period(
        stats::simulate(audit, random),
        {.permutations = 199, .other_permutations = 199, .seed = static_cast<std::uint64_t>(run)});
    if (result.period) ++found;
  }
  fmt::print("a dip of {:.1f} points at {} items: a period was named in {} of {} runs\n", 100 * dip,
             kItems, found, kRuns);
  EXPECT_GE(found, 68);
  EXPECT_LE(found, 97);
}

// Counts: the period must also stand out from residues that merely differ, and these are few.
TEST(Findable, PromisesOfCountsAboutThePowerThatSimulationGives) {
  for (const std::int64_t modulus : {8, 24}) {
    std::vector<std::int64_t> searched;
    for (std::int64_t s = 2; s <= modulus / 2; ++s) {
      if (modulus % s == 0) searched.push_back(s);
    }
    constexpr std::int64_t kPrompts = 256;
    FindableInput input{.observations = kPrompts * modulus,
                        .variance = 0.16,
                        .share = 0.8,
                        .candidates = std::ssize(searched)};
    const double search_alone = findable_dip(input).value();
    input.columns = modulus;
    input.searched = searched;
    const double dip = findable_dip(input).value();
    EXPECT_GE(dip, search_alone);
    base::Random random(12);
    int found = 0;
    constexpr int kRuns = 100;
    for (int run = 0; run < kRuns; ++run) {
      stats::ResidueCounts counts;
      for (std::int64_t r = 0; r < modulus; ++r) {
        counts.n.push_back(kPrompts);
        const double share = 0.8 + dip / 4 - (r % 4 == 1 ? dip : 0);
        counts.correct.push_back(stats::draw_binomial(kPrompts, share, random));
      }
      if (stats::find_period(counts, {.permutations = 399,
                                      .other_permutations = 199,
                                      .seed = static_cast<std::uint64_t>(run)})
              .period) {
        ++found;
      }
    }
    fmt::print("counts mod {}: a dip of {:.1f} points (search alone {:.1f}): named in {} of {}\n",
               modulus, 100 * dip, 100 * search_alone, found, kRuns);
    EXPECT_GE(found, 68);
    EXPECT_LE(found, 98);
  }
  EXPECT_EQ(findable_dip({.observations = 100000,
                          .variance = 0.16,
                          .share = 0.8,
                          .candidates = 1,
                          .columns = 4,
                          .searched = {2}}),
            std::nullopt)
      << "no column is left over to show how they scatter";
}

}  // namespace
}  // namespace kvphase::audit
