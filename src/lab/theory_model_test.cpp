// The exact loss against its parts: finite differences, the chunkwise form, values by hand.
#include "lab/theory_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::lab {
namespace {

std::vector<double> random_logits(std::size_t count, double scale, std::uint64_t seed) {
  base::Random random(seed);
  std::vector<double> logits(count);
  for (double& x : logits) x = scale * random.normal();
  return logits;
}

const std::vector<TheorySetting> kSettings = {
    {.stride = 2, .heads = 1, .chunks = 2, .vocabulary = 4, .beta = 1, .gamma = 1},
    {.stride = 4, .heads = 2, .chunks = 3, .vocabulary = 300, .beta = 3, .gamma = 5},
    {.stride = 8, .heads = 7, .chunks = 8, .vocabulary = 4096, .beta = 2, .gamma = 4}};

TEST(TheoryModel, LossOfOneHeadEqualsItsFormulaByHand) {
  // S = 3, one head that keeps position 0 as key and 1 as value; L = 2, N = 10, beta = gamma = 1.
  const TheorySetting s = {
      .stride = 3, .heads = 1, .chunks = 2, .vocabulary = 10, .beta = 1, .gamma = 1};
  const double e = std::exp(1.0);
  const double a = e / (e + 1);
  const double asked_0 = -a + std::log(std::exp(a) + std::exp(1 - a) + 8);
  const double asked_1 = std::log(2 * std::exp(0.5) + 8);
  const double loss = static_loss(s, one_hot(s, std::vector<std::int64_t>{0}));
  EXPECT_NEAR(loss, (asked_0 + asked_1) / 2, 1e-15);
}

TEST(TheoryModel, GradientsOfLogitsEqualFiniteDifferencesInEveryCoordinate) {
  for (const TheorySetting& s : kSettings) {
    for (const bool per_chunk : {false, true}) {
      const std::size_t copies = per_chunk ? static_cast<std::size_t>(s.chunks) : 1;
      std::vector<double> u = random_logits(copies * coefficient_count(s), 1, 7);
      const auto loss_at = [&](const std::vector<double>& logits, std::span<double> gradient) {
        const Coefficients p = gates_of(s, logits);
        const double loss =
            per_chunk ? chunkwise_loss(s, p, gradient) : static_loss(s, p, gradient);
        if (!gradient.empty()) to_logit_gradient(s, p, gradient);
        return loss;
      };
      std::vector<double> gradient(u.size());
      loss_at(u, gradient);
      double largest = 0;
      for (std::size_t i = 0; i < u.size(); ++i) {
        constexpr double kStep = 1e-5;
        const double x = u[i];
        u[i] = x + kStep;
        const double up = loss_at(u, {});
        u[i] = x - kStep;
        const double down = loss_at(u, {});
        u[i] = x;
        const double numeric = (up - down) / (2 * kStep);
        EXPECT_NEAR(gradient[i], numeric, 1e-9) << "S = " << s.stride << ", coordinate " << i;
        largest = std::max(largest, std::abs(gradient[i] - numeric));
      }
      fmt::print("S {} m {} {}: {} coordinates, largest difference {:.1e}\n", s.stride, s.heads,
                 per_chunk ? "chunkwise" : "static", u.size(), largest);
    }
  }
}

TEST(TheoryModel, ChunkwiseLossOfEqualChunksIsTheStaticLoss) {
  for (const TheorySetting& s : kSettings) {
    const Coefficients p = gates_of(s, random_logits(coefficient_count(s), 2, 3));
    Coefficients all;
    for (std::int64_t l = 0; l < s.chunks; ++l) all.insert(all.end(), p.begin(), p.end());
    EXPECT_NEAR(chunkwise_loss(s, all), static_loss(s, p), 1e-12) << "S = " << s.stride;
  }
}

TEST(TheoryModel, RenamingTheRetrievablePositionsLeavesTheLossUnchanged) {
  // Keys 0..S-2 and, with them, values 1..S-1: the symmetry behind equally likely positions.
  const TheorySetting s = {.stride = 5, .heads = 3};
  const Coefficients p = gates_of(s, random_logits(coefficient_count(s), 2, 5));
  const std::vector<std::size_t> renamed = {2, 0, 3, 1};
  Coefficients q = p;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::size_t k = row_of(s, Gate::kKey, h), v = row_of(s, Gate::kValue, h);
    for (std::size_t r = 0; r < renamed.size(); ++r) {
      q[k + renamed[r]] = p[k + r];
      q[v + renamed[r] + 1] = p[v + r + 1];
    }
  }
  EXPECT_NE(p, q);
  EXPECT_NEAR(static_loss(s, q), static_loss(s, p), 1e-13);
}

TEST(TheoryModel, OutcomesAverageToTheLossAndAHeadsPositionIsRightTheOthersNever) {
  const TheorySetting s = {.stride = 6, .heads = 2};
  const Coefficients p = one_hot(s, std::vector<std::int64_t>{1, 3});
  const std::vector<PhaseOutcome> outcomes = static_outcomes(s, p);
  ASSERT_EQ(outcomes.size(), 5U);
  double mean = 0;
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    mean += outcomes[r].loss / 5;
    EXPECT_NEAR(outcomes[r].loss, -std::log(outcomes[r].probability), 1e-12);
    EXPECT_EQ(outcomes[r].accuracy, r == 1 || r == 3 ? 1.0 : 0.0) << "position " << r;
  }
  EXPECT_NEAR(mean, static_loss(s, p), 1e-12);
}

TEST(TheoryModel, ATieCountsAsOneOutOfThoseThatTie) {
  // A head that keeps nothing retrievable as its value: every token it asks for has logit 0.
  const TheorySetting s = {.stride = 2, .heads = 1, .chunks = 2, .vocabulary = 100};
  const std::vector<PhaseOutcome> uniform =
      static_outcomes(s, Coefficients{0.5, 0.5, 0.5, 0.5});  // right token ties with its neighbour
  EXPECT_NEAR(uniform[0].accuracy, 0.5, 1e-12);
}

TEST(TheoryModel, RefusesSettingsOutsideTheirRangesByName) {
  const auto message = [](const TheorySetting& s) -> std::string {
    try {
      check(s, "theory");
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.stride = 1}).find("stride of 2 to 64"), std::string::npos);
  EXPECT_NE(message({.chunks = 1}).find("2 to 1024 chunks"), std::string::npos);
  EXPECT_NE(message({.vocabulary = 47}).find("at least chunks x stride = 48"), std::string::npos);
  EXPECT_NE(message({.beta = 0}).find("beta"), std::string::npos);
}

}  // namespace
}  // namespace kvphase::lab
