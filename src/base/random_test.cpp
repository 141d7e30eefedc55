#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace kvphase::base {
namespace {

TEST(Random, GivesTheSameStreamEverywhere) {
  // xoshiro256** from SplitMix64(1), computed once with the authors' reference code's recurrence.
  Random a(1);
  Random b(1);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.next(), b.next()) << i;
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);  // SplitMix64's published first output for seed 0
}

TEST(Random, UniformIndexCoversItsRangeEvenly) {
  Random random(7);
  std::array<int, 5> counts{};
  for (int i = 0; i < 50000; ++i) ++counts[random.uniform_index(5)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(8000.0));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random(11);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
}

TEST(Random, SamplesWithoutReplacementAreDistinct) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    const auto sample = random.sample_without_replacement(10, 7);
    EXPECT_EQ(std::set<std::size_t>(sample.begin(), sample.end()).size(), 7U);
  }
}

TEST(Random, DerivedSeedsDependOnNameAndEveryIndex) {
  const std::set<std::uint64_t> seeds = {derive_seed(1, "a"),      derive_seed(2, "a"),
                                         derive_seed(1, "b"),      derive_seed(1, "a", {0}),
                                         derive_seed(1, "a", {1}), derive_seed(1, "a", {0, 0}),
                                         derive_seed(1, "ab"),     derive_seed(1, "a", {'b'})};
  EXPECT_EQ(seeds.size(), 8U);
}

TEST(Random, ContinuesFromASavedState) {
  Random a(5);
  a.next();
  Random b(99);
  b.set_state(a.state());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.next(), b.next());
}

}  // namespace
}  // namespace kvphase::base
