#include "stats/interval.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::stats {
namespace {

struct Row {
  std::int64_t correct;
  std::int64_t n;
  double wilson_low;
  double wilson_high;
  double exact_low;
  double exact_high;
};

TEST(Interval, AgreesWithPublishedTables) {
  // Computed with R 4 (binom.test, prop.test without continuity correction), four digits.
  for (const Row& r : {Row{50, 50, .9287, 1, .9289, 1}, Row{20, 20, .8389, 1, .8316, 1},
                       Row{45, 50, .7864, .9565, .7819, .9667},
                       Row{97, 100, .9155, .9897, .9148, .9938}, Row{0, 20, 0, .1611, 0, .1684}}) {
    const Estimate w = wilson(r.correct, r.n);
    const Estimate c = clopper_pearson(r.correct, r.n);
    EXPECT_NEAR(*w.low, r.wilson_low, 5e-5) << r.correct << "/" << r.n;
    EXPECT_NEAR(*w.high, r.wilson_high, 5e-5) << r.correct << "/" << r.n;
    EXPECT_NEAR(*c.low, r.exact_low, 5e-5) << r.correct << "/" << r.n;
    EXPECT_NEAR(*c.high, r.exact_high, 5e-5) << r.correct << "/" << r.n;
  }
}

TEST(Interval, OneSidedLowerBoundsAtAlphaOverFourPhases) {
  struct Bound {
    std::int64_t correct;
    std::int64_t n;
    double low;
  };
  for (const Bound& b : {Bound{50, 50, .916}, Bound{100, 100, .957}, Bound{97, 100, .906},
                         Bound{20, 20, .803}, Bound{45, 50, .764}}) {
    EXPECT_NEAR(*clopper_pearson_lower(b.correct, b.n, 0.05 / 4).low, b.low, 5e-4)
        << b.correct << "/" << b.n;
  }
}

TEST(Interval, UpperBoundMirrorsTheLowerOne) {
  for (std::int64_t x = 0; x <= 12; ++x) {
    const Estimate low = clopper_pearson_lower(x, 12, 0.03);
    const Estimate high = clopper_pearson_upper(12 - x, 12, 0.03);
    EXPECT_NEAR(*low.low, 1 - *high.high, 1e-12) << x;
    EXPECT_FALSE(low.high || high.low);
  }
}

TEST(Interval, IsUndefinedWithoutObservations) {
  for (const Estimate& e : {wilson(0, 0), clopper_pearson(0, 0), clopper_pearson_lower(0, 0)}) {
    EXPECT_FALSE(e.value || e.low || e.high);
    EXPECT_EQ(e.reason, "no observations");
  }
}

TEST(Interval, OneAndTwoTrialsGiveProperIntervals) {
  for (std::int64_t n = 1; n <= 2; ++n) {
    for (std::int64_t x = 0; x <= n; ++x) {
      const Estimate w = wilson(x, n);
      EXPECT_LE(0, *w.low);
      EXPECT_LE(*w.low, *w.value) << x << "/" << n;
      EXPECT_LE(*w.value, *w.high) << x << "/" << n;
      EXPECT_LE(*w.high, 1);
    }
  }
}

TEST(Interval, RefusesImpossibleCounts) {
  EXPECT_THROW(wilson(3, 2), base::Error);
  EXPECT_THROW(wilson(-1, 2), base::Error);
  EXPECT_THROW(clopper_pearson(1, 2, 1.5), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
