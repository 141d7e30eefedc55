#include "lab/theory_heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "lab/theory_flow.h"

namespace kvphase::lab {
namespace {

TEST(TheoryHeads, EffectiveOffsetsAreOneForOneHotAndTheLengthForUniform) {
  EXPECT_DOUBLE_EQ(effective_offsets(std::vector<double>{0, 1, 0}), 1);
  EXPECT_NEAR(effective_offsets(std::vector<double>{0.25, 0.25, 0.25, 0.25}), 4, 1e-14);
  EXPECT_NEAR(effective_offsets(std::vector<double>{0.5, 0.5, 0}), 2, 1e-14);
}

TEST(TheoryHeads, SelectedMeansOnePositionWithItsValueOneLater) {
  const TheorySetting s = {.stride = 4, .heads = 1};
  Coefficients p = {0, 1, 0, 0, 0, 0, 1, 0};
  EXPECT_TRUE(head_states(s, p)[0].selected(1.05));
  p = {0, 1, 0, 0, 0, 0, 0, 1};
  EXPECT_FALSE(head_states(s, p)[0].selected(1.05));  // value two later
  p = {0, 0.97, 0.03, 0, 0, 0, 1, 0};
  EXPECT_FALSE(head_states(s, p)[0].selected(1.05));  // exp(H) = 1.14
}

TEST(TheoryHeads, PositionsAreThoseThatTheStartsFastestModeNames) {
  // Both weights matter: starts in which only the key, or only the value, prefers a position.
  const TheorySetting s = {.stride = 5, .heads = 1, .vocabulary = 100'000};
  const SelectionWeights weights = selection_weights(s);
  fmt::print("weights: key {:.4f}, value {:.4f}\n", weights.key, weights.value);
  EXPECT_GT(weights.key, 0.1);
  EXPECT_GT(weights.value, 0.1);
  int agree = 0, by_key_alone = 0;
  constexpr int kStarts = 40;
  for (int i = 0; i < kStarts; ++i) {
    base::Random random(static_cast<std::uint64_t>(i));
    std::vector<double> u(coefficient_count(s));
    for (double& x : u) x = 1e-3 * random.normal();
    const std::int64_t predicted = predicted_positions(s, u)[0];
    const std::int64_t by_key = std::max_element(u.begin(), u.begin() + 4) - u.begin();
    const GradientOf gradient_of = [&](std::span<const double> x, std::span<double> g) {
      const Coefficients p = gates_of(s, x);
      static_loss(s, p, g);
      to_logit_gradient(s, p, g);
    };
    const std::vector<double> end = gradient_flow(gradient_of, u, std::vector<double>{3000}, {});
    const HeadState head = head_states(s, gates_of(s, end))[0];
    agree += head.key_position == predicted;
    by_key_alone += head.key_position == by_key;
  }
  fmt::print("{} of {} as predicted; the largest key logit alone says {}\n", agree, kStarts,
             by_key_alone);
  EXPECT_EQ(agree, kStarts);
  EXPECT_LT(by_key_alone, kStarts);
}

}  // namespace
}  // namespace kvphase::lab
