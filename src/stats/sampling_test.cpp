#include "stats/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvphase::stats {
namespace {

// Pearson's chi-squared of `draws` against exact probabilities; cells below 5 expected are pooled.
template <typename Draw, typename Mass>
void expect_follows(Draw draw, Mass mass, std::int64_t top, const char* what) {
  constexpr int kDraws = 20000;
  std::vector<int> counts(static_cast<std::size_t>(top + 1));
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(draw()));
  double chi = 0;
  int cells = 0;
  double rest_seen = 0;
  double rest_expected = 0;
  for (std::int64_t k = 0; k <= top; ++k) {
    const double expected = kDraws * mass(k);
    const double seen = counts[static_cast<std::size_t>(k)];
    if (expected < 5) {
      rest_seen += seen;
      rest_expected += expected;
      continue;
    }
    chi += (seen - expected) * (seen - expected) / expected;
    ++cells;
  }
  if (rest_expected >= 1) {
    chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
  } else {
    EXPECT_LT(rest_seen, 12) << what;
  }
  EXPECT_LT(chi, cells + 4 * std::sqrt(2.0 * cells) + 4) << what << " over " << cells << " cells";
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

TEST(Sampling, BinomialFollowsItsMass) {
  base::Random random(3);
  for (const double p : {0.02, 0.5, 0.97}) {
    for (const std::int64_t n : {1, 2, 40, 1000}) {
      const auto size = static_cast<double>(n);
      expect_follows(
          [&] { return draw_binomial(n, p, random); },
          [&](std::int64_t k) {
            const auto x = static_cast<double>(k);
            return std::exp(log_choose(size, x) + x * std::log(p) + (size - x) * std::log1p(-p));
          },
          n, "binomial");
    }
  }
  EXPECT_EQ(draw_binomial(0, 0.5, random), 0);
  EXPECT_EQ(draw_binomial(9, 0, random), 0);
  EXPECT_EQ(draw_binomial(9, 1, random), 9);
}

TEST(Sampling, HypergeometricFollowsItsMass) {
  base::Random random(4);
  struct Case {
    std::int64_t total, good, draws;
  };
  for (const Case& c : {Case{10, 3, 4}, Case{8000, 7400, 1000}, Case{50, 49, 25}, Case{2, 1, 1}}) {
    const auto n = static_cast<double>(c.total);
    const auto g = static_cast<double>(c.good);
    const auto d = static_cast<double>(c.draws);
    expect_follows(
        [&] { return draw_hypergeometric(c.total, c.good, c.draws, random); },
        [&](std::int64_t k) {
          const auto x = static_cast<double>(k);
          if (x > g || d - x > n - g) return 0.0;
          return std::exp(log_choose(g, x) + log_choose(n - g, d - x) - log_choose(n, d));
        },
        c.draws, "hypergeometric");
  }
  EXPECT_EQ(draw_hypergeometric(5, 5, 3, random), 3);
  EXPECT_EQ(draw_hypergeometric(5, 2, 5, random), 2);
}

TEST(Sampling, LargeDrawsKeepMeanAndVariance) {
  base::Random random(5);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = static_cast<double>(draw_binomial(100'000'000, 0.25, random)) - 25e6;
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 * 4330.0 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws), 4330, 4330 * 0.05);
}

TEST(Sampling, FastShuffleReachesEveryOrderEvenly) {
  base::Random random(6);
  std::vector<int> counts(24);
  for (int i = 0; i < 48000; ++i) {
    std::vector<double> v = {0, 1, 2, 3};
    fast_shuffle(v, random);
    // Lehmer code of the order.
    int code = 0;
    for (int a = 0; a < 4; ++a) {
      int smaller = 0;
      for (int b = a + 1; b < 4; ++b) smaller += v[b] < v[a];
      code = code * (4 - a) + smaller;
    }
    ++counts[static_cast<std::size_t>(code)];
  }
  for (std::size_t k = 0; k < counts.size(); ++k) EXPECT_NEAR(counts[k], 2000, 5 * 44) << k;
}

}  // namespace
}  // namespace kvphase::stats
