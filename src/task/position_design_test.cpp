#include "task/position_design.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvphase::task {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;
};

// Moments over items of the target's position at residue r, by the definition.
Moments moments_at(const std::vector<std::int64_t>& bases, std::int64_t modulus, std::int64_t r) {
  double sum = 0;
  double squares = 0;
  for (const std::int64_t base : bases) {
    const std::int64_t position = base + ((r - base) % modulus + modulus) % modulus;
    EXPECT_EQ(position % modulus, r);
    sum += static_cast<double>(position);
    squares += static_cast<double>(position * position);
  }
  const auto n = static_cast<double>(bases.size());
  return {sum / n, squares / n - (sum / n) * (sum / n)};
}

TEST(PositionDesign, MeanAndVarianceAreExactlyEqualWithAMultipleOfRSquaredItems) {
  for (const std::int64_t modulus : {2, 4, 6, 8, 12, 24}) {
    for (const std::int64_t extra : {0, 1, 5}) {
      const PositionDesign design{.modulus = modulus,
                                  .room = least_room(modulus) + extra % modulus,
                                  .items = modulus * modulus};
      const auto bases = base_positions(design);
      const Moments first = moments_at(bases, modulus, 0);
      for (std::int64_t r = 1; r < modulus; ++r) {
        const Moments other = moments_at(bases, modulus, r);
        EXPECT_NEAR(other.mean, first.mean, 1e-9) << "R " << modulus << " r " << r;
        EXPECT_NEAR(other.variance, first.variance, 1e-6) << "R " << modulus << " r " << r;
      }
    }
  }
}

TEST(PositionDesign, MeanIsExactAndVarianceBoundedWithAnyMultipleOfR) {
  for (const std::int64_t modulus : {4, 6, 8, 24}) {
    for (std::int64_t items = modulus; items <= 10 * modulus; items += modulus) {
      const auto bases =
          base_positions({.modulus = modulus, .room = least_room(modulus), .items = items});
      const Moments first = moments_at(bases, modulus, 0);
      for (std::int64_t r = 1; r < modulus; ++r) {
        const Moments other = moments_at(bases, modulus, r);
        EXPECT_NEAR(other.mean, first.mean, 1e-9);
        EXPECT_LE(std::abs(other.variance - first.variance),
                  2 * static_cast<double>(modulus * modulus) / static_cast<double>(items) + 1e-9)
            << "R " << modulus << " items " << items << " r " << r;
      }
    }
  }
}

TEST(PositionDesign, LongRoomsAreUsedAndVarianceIsExact) {
  const PositionDesign design{.modulus = 24, .room = 1000, .items = 576};
  const auto bases = base_positions(design);
  for (const std::int64_t base : bases) {
    ASSERT_GE(base, 0);
    ASSERT_LT(base, design.room);
  }
  const Moments first = moments_at(bases, 24, 0);
  EXPECT_GT(first.variance, 60000);  // close to (1000^2)/12
  for (std::int64_t r = 1; r < 24; ++r) {
    EXPECT_NEAR(moments_at(bases, 24, r).variance, first.variance, 1e-3) << r;
  }
}

TEST(PositionDesign, BasesStayInsideTheSmallestRoom) {
  for (const std::int64_t modulus : {2, 3, 8, 24}) {
    for (const std::int64_t base :
         base_positions({.modulus = modulus, .room = least_room(modulus), .items = modulus * 6})) {
      EXPECT_GE(base, 0);
      EXPECT_LT(base, least_room(modulus));
    }
  }
}

}  // namespace
}  // namespace kvphase::task
