#include "record/published.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"

namespace kvphase::record {
namespace {

std::string name_of(const PublishedCurve& c) {
  return fmt::format("{} seed {} {}", c.design, c.seed ? fmt::to_string(*c.seed) : "unknown",
                     c.padding);
}

TEST(Published, MeansAndGapsFollowFromTheCounts) {
  for (const PublishedCurve& c : published_curves()) {
    ASSERT_EQ(std::ssize(c.correct), c.modulus) << name_of(c);
    const auto n = static_cast<double>(c.prompts_per_residue);
    const double mean =
        100 * static_cast<double>(std::accumulate(c.correct.begin(), c.correct.end(), 0L)) /
        (n * static_cast<double>(c.modulus));
    const auto [low, high] = std::ranges::minmax_element(c.correct);
    EXPECT_GE(*low, 0);
    EXPECT_LE(*high, c.prompts_per_residue);
    const double gap = 100 * static_cast<double>(*high - *low) / n;
    EXPECT_NEAR(mean, c.mean_percent, 0.005 + 1e-9) << name_of(c);
    EXPECT_NEAR(gap, c.gap_points, 0.05 + 1e-9) << name_of(c);
    fmt::print("{}: mean {:.3f} printed {}, gap {:.2f} printed {}\n", name_of(c), mean,
               c.mean_percent, gap, c.gap_points);
  }
}

TEST(Published, EveryCurveIsThereOnce) {
  std::map<std::string, int> seen;
  for (const PublishedCurve& c : published_curves()) ++seen[name_of(c)];
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(published_curves().size(), 20U);  // eleven models, two without in-sequence padding
  EXPECT_NE(published_source().find("2609.36322"), std::string::npos);
}

TEST(Published, FoldsToADivisorOfItsModulus) {
  const PublishedCurve& c = published_curves().front();
  const Dataset folded = published_dataset(c, 8);
  EXPECT_EQ(folded.counts->n[7], 3 * c.prompts_per_residue);
  EXPECT_EQ(folded.counts->correct[7], c.correct[7] + c.correct[15] + c.correct[23]);
  EXPECT_THROW(published_dataset(c, 7), base::Error);
}

}  // namespace
}  // namespace kvphase::record
