// Sampled against closed form, and the network run vector by vector against both.
#include "lab/theory_gates.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lab/theory_heads.h"
#include "lab/theory_rules.h"

namespace kvphase::lab {
namespace {

double network_loss(const TheorySetting& s, const Embeddings& embeddings,
                    std::span<const TokenId> prompt, std::span<const double> coefficients) {
  double loss = 0;
  for (const PhaseOutcome& o : network_outcomes(s, embeddings, prompt, coefficients)) {
    loss += o.loss / static_cast<double>(s.stride - 1);
  }
  return loss;
}

const TheorySetting kSmall = {
    .stride = 4, .heads = 2, .chunks = 3, .vocabulary = 64, .beta = 2, .gamma = 3};

TEST(TheoryPrompts, TokensOfAPromptAreDistinctAndAllTokensOccur) {
  base::Random random(5);
  const std::vector<TokenId> tokens = draw_prompts(kSmall, 200, random);
  ASSERT_EQ(tokens.size(), 200U * 12);
  for (std::size_t at = 0; at < tokens.size(); at += 12) {
    EXPECT_EQ(std::set(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                       tokens.begin() + static_cast<std::ptrdiff_t>(at + 12))
                  .size(),
              12U);
  }
  EXPECT_EQ(std::set(tokens.begin(), tokens.end()).size(), 64U);
}

TEST(TheoryPrompts, TheNetworkRunVectorByVectorHasTheClosedFormsLoss) {
  base::Random random(1);
  for (const double kappa : {0.0, 0.7}) {
    const Embeddings embeddings = equiangular(kSmall.vocabulary, kappa);
    const std::vector<TokenId> prompt = draw_prompts(kSmall, 1, random);
    const Coefficients rule = random_rule(kSmall, kSmall.chunks, 0.5, random);
    const double network = network_loss(kSmall, embeddings, prompt, rule);
    const double closed = chunkwise_loss(kSmall, rule);
    EXPECT_NEAR(network, closed, 1e-12) << "kappa " << kappa;
    fmt::print("kappa {}: network {:.12f}, closed form {:.12f}\n", kappa, network, closed);
  }
}

TEST(TheoryPrompts, TheNetworkAnswersEveryPhaseAsTheClosedFormSays) {
  base::Random random(9);
  const Embeddings embeddings = equiangular(kSmall.vocabulary, 0.5);
  for (const double concentration : {0.02, 1.0}) {
    const Coefficients p = random_rule(kSmall, 1, concentration, random);
    Coefficients all;
    for (std::int64_t l = 0; l < kSmall.chunks; ++l) all.insert(all.end(), p.begin(), p.end());
    const auto network = network_outcomes(kSmall, embeddings, draw_prompts(kSmall, 1, random), all);
    const auto closed = static_outcomes(kSmall, p);
    ASSERT_EQ(network.size(), closed.size());
    for (std::size_t r = 0; r < closed.size(); ++r) {
      EXPECT_NEAR(network[r].loss, closed[r].loss, 1e-12) << "position " << r;
      EXPECT_NEAR(network[r].probability, closed[r].probability, 1e-12) << "position " << r;
      EXPECT_NEAR(network[r].accuracy, closed[r].accuracy, 1e-12) << "position " << r;
    }
  }
}

TEST(TheoryPrompts, NearlyEquiangularEmbeddingsComeCloserAsTheyGetWider) {
  base::Random random(2);
  const Coefficients p = random_rule(kSmall, 1, 1, random);
  Coefficients all;
  for (std::int64_t l = 0; l < kSmall.chunks; ++l) all.insert(all.end(), p.begin(), p.end());
  const double closed = static_loss(kSmall, p);
  double errors[2];
  for (const std::int64_t width : {32, 2048}) {
    const Embeddings embeddings = nearly_equiangular(kSmall.vocabulary, 0.5, width, random);
    double mean = 0;
    constexpr int kPrompts = 20;
    for (int i = 0; i < kPrompts; ++i) {
      mean += network_loss(kSmall, embeddings, draw_prompts(kSmall, 1, random), all) / kPrompts;
    }
    errors[width == 2048] = std::abs(mean - closed);
    fmt::print("width {}: sampled {:.4f}, closed form {:.4f}\n", width, mean, closed);
  }
  EXPECT_LT(errors[1], 0.02);
  EXPECT_LT(errors[1], errors[0]);
}

TEST(TheoryGates, SampledLossOfGatesThatIgnoreTheContentIsTheClosedForm) {
  base::Random random(3);
  const GatedSetting s = {.task = kSmall, .kappa = 0.6};
  std::vector<double> logits(coefficient_count(kSmall));
  for (double& x : logits) x = random.normal();
  const std::vector<TokenId> prompts = draw_prompts(kSmall, 3, random);
  const double sampled = sampled_loss(s, static_weights(s, logits), prompts);
  EXPECT_NEAR(sampled, static_loss(kSmall, gates_of(kSmall, logits)), 1e-12);
}

TEST(TheoryGates, MonteCarloOfContentDependentGatesMeetsTheMeanOverAllContents) {
  // One head and two chunks of two tokens: few enough tokens to go through every prompt.
  const GatedSetting s = {
      .task = {.stride = 2, .heads = 1, .chunks = 2, .vocabulary = 6, .beta = 2, .gamma = 3},
      .kappa = 1};
  base::Random random(4);
  const std::vector<double> weights = random_weights(s, 2, random);
  std::vector<TokenId> every;
  std::vector<TokenId> tokens = {0, 1, 2, 3, 4, 5};
  do {
    if (tokens[4] < tokens[5]) every.insert(every.end(), tokens.begin(), tokens.begin() + 4);
  } while (std::ranges::next_permutation(tokens).found);
  ASSERT_EQ(every.size(), 4U * 360);
  const double population = sampled_loss(s, weights, every);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const double loss = sampled_loss(s, weights, draw_prompts(s.task, 1, random));
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kDraws;
  const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  fmt::print("all 360 prompts {:.5f}, sampled {:.5f} +- {:.5f}\n", population, mean, error);
  EXPECT_GT(error, 0);
  EXPECT_NEAR(mean, population, 4 * error);
}

TEST(TheoryGates, GradientsEqualFiniteDifferences) {
  const GatedSetting s = {
      .task = {.stride = 3, .heads = 2, .chunks = 2, .vocabulary = 9, .beta = 2, .gamma = 3},
      .kappa = 0.5};
  base::Random random(6);
  std::vector<double> weights = random_weights(s, 1, random);
  const std::vector<TokenId> prompts = draw_prompts(s.task, 4, random);
  std::vector<double> gradient(weights.size());
  sampled_loss(s, weights, prompts, gradient);
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double w = weights[i];
    weights[i] = w + kStep;
    const double up = sampled_loss(s, weights, prompts);
    weights[i] = w - kStep;
    const double down = sampled_loss(s, weights, prompts);
    weights[i] = w;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-9) << "weight " << i;
    largest = std::max(largest, std::abs(gradient[i] - (up - down) / (2 * kStep)));
  }
  fmt::print("{} weights, largest difference {:.1e}\n", weights.size(), largest);
}

TEST(TheoryGates, TheTwoMeasuresTellStaticFromAdaptiveGates) {
  // Every token alone decides sharply: one-hot windows, on offsets that differ between windows.
  const GatedSetting s = {.task = kSmall, .kappa = 1};
  base::Random random(7);
  const std::vector<TokenId> prompts = draw_prompts(kSmall, 400, random);
  const GateSummary adaptive = summarise_gates(s, random_weights(s, 60, random), prompts);
  std::vector<double> w(weight_count(s), 0.0);  // and one that is static: the shared number
  for (std::size_t row = 0; row < 4; ++row) w[row * 4 * 65] = 60;
  const GateSummary fixed = summarise_gates(s, w, prompts);
  for (std::size_t row = 0; row < 4; ++row) {
    const auto mean = [&](const GateSummary& g) {
      return effective_offsets(std::span(g.mean).subspan(row * 4, 4));
    };
    fmt::print("gate {}: adaptive {:.3f} static, {:.3f} per window; static {:.3f}, {:.3f}\n", row,
               mean(adaptive), adaptive.per_window[row], mean(fixed), fixed.per_window[row]);
    EXPECT_LT(adaptive.per_window[row], 1.1);
    EXPECT_GT(mean(adaptive), 1.2);
    EXPECT_LT(mean(fixed), 1.001);
  }
}

}  // namespace
}  // namespace kvphase::lab
