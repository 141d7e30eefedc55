#include "train/trainer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/random.h"
#include "kernels/linear.h"
#include "train/recipes.h"

namespace kvphase::train {
namespace {

TrainOptions tiny() {
  TrainOptions options = recipe("small-wc");
  options.model.width = 32;
  options.model.head_width = 16;
  options.model.rope_dims = 16;
  options.model.ff_width = 64;
  options.language = {.keys = 16, .values = 16, .haystack = 36, .records = 6, .queries = 6};
  options.batch = 8;
  options.steps = 300;
  options.learning_rate = 5e-3;
  fit_model_to_language(options);
  return options;
}

TEST(Trainer, SameOptionsGiveTheSameParametersBitForBit) {
  for (const std::int64_t threads : {1, 2}) {
    TrainOptions options = tiny();
    options.threads = threads;
    Trainer a(options);
    Trainer b(options);
    for (int i = 0; i < 10; ++i) {
      const StepResult ra = a.step();
      const StepResult rb = b.step();
      ASSERT_EQ(ra.on_batch.loss, rb.on_batch.loss) << "step " << i << ", threads " << threads;
      ASSERT_EQ(ra.gradient_norm, rb.gradient_norm) << "step " << i << ", threads " << threads;
    }
    const auto pa = a.network().parameters();
    const auto pb = b.network().parameters();
    for (std::size_t i = 0; i < pa.size(); ++i) EXPECT_TRUE(torch::equal(pa[i], pb[i])) << i;
  }
}

TEST(Trainer, AnotherSeedGivesOtherParametersAndData) {
  TrainOptions options = tiny();
  Trainer a(options);
  options.seed = 2;
  Trainer b(options);
  EXPECT_NE(a.step().on_batch.loss, b.step().on_batch.loss);
}

TEST(Trainer, WithRandomGridsTrainsOnThemAndKeepsItsOwn) {
  TrainOptions options = tiny();
  Trainer plain(options);
  options.random_grid = true;
  Trainer shifted(options);
  const Batch fresh = shifted.data().validation_lookups();
  int unlike = 0, steps = 0;
  for (; steps < 8; ++steps) {
    // The same weights before each step, so that only the grid tells the two apart.
    const torch::NoGradGuard no_grad;
    const auto from = plain.network().parameters(), to = shifted.network().parameters();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
    ASSERT_EQ(plain.evaluate(fresh).loss, shifted.evaluate(fresh).loss) << "step " << steps;
    const bool own = grid_shift_at(options, steps) == 0;
    const torch::AutoGradMode grad(true);
    const double a = plain.step().on_batch.loss, b = shifted.step().on_batch.loss;
    EXPECT_EQ(a == b, own) << "step " << steps << ": " << a << " and " << b;
    if (!own) ++unlike;
  }
  EXPECT_GT(unlike, 0);
  EXPECT_LT(unlike, steps);
}

TEST(Trainer, TwoThreadsTakeTheSameStepUpToRounding) {
  TrainOptions options = tiny();
  options.batch = 7;  // shards of unequal size
  Trainer one(options);
  options.threads = 2;
  Trainer two(options);
  const StepResult a = one.step();
  const StepResult b = two.step();
  EXPECT_NEAR(a.on_batch.loss, b.on_batch.loss, 1e-5);
  EXPECT_EQ(a.on_batch.accuracy, b.on_batch.accuracy);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4 * a.gradient_norm);
}

TEST(Trainer, LearnsToGuessAmongTheValuesOfTheHaystack) {
  Trainer trainer(tiny());
  const double first = trainer.step().on_batch.loss;
  double last = 0;  // mean of the last 20 steps
  for (int i = 1; i < 200; ++i) {
    const double loss = trainer.step().on_batch.loss;
    if (i >= 180) last += loss / 20;
  }
  std::printf("loss %.3f -> %.3f; guessing among all values costs %.3f\n", first, last,
              std::log(16.0));
  EXPECT_GT(first, std::log(16.0));
  EXPECT_LT(last, std::log(16.0));
}

class TextTrainer : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kvphase-trainer-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    // Text with a rule: after 3n comes 3n+1, then 3n+2, then 3m at random.
    base::Random random(5);
    for (const char* name : {"train-0.tokens", "validation-0.tokens"}) {
      TokenShardWriter writer(folder_ / name, 30, "mine");
      for (int i = 0; i < 2000; ++i) {
        const auto n = static_cast<lm::TokenId>(3 * random.uniform_index(10));
        writer.append(std::array{n, n + 1, n + 2});
      }
      writer.finish();
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TrainOptions options(double lookup_share) const {
    TrainOptions options = tiny();
    options.data = {.text = {folder_.string()}, .sequence = 24, .lookup_share = lookup_share};
    fit_model_to_language(options, 30);
    return options;
  }

  std::filesystem::path folder_;
};

TEST_F(TextTrainer, LearnsTheRuleOfItsText) {
  Trainer trainer(options(0));
  const StepResult first = trainer.step();
  EXPECT_FALSE(first.on_lookups.has_value());
  ASSERT_TRUE(first.on_text.has_value());
  EXPECT_EQ(first.on_text->loss, first.on_batch.loss);
  for (int i = 0; i < 150; ++i) trainer.step();
  const Evaluation held_out = trainer.evaluate(*trainer.data().validation_text());
  const double floor = std::log(10.0) / 3;  // two of three tokens follow from the one before
  std::printf("loss %.3f -> %.3f; the rule alone leaves %.3f\n", first.on_batch.loss, held_out.loss,
              floor);
  EXPECT_NEAR(held_out.loss, floor, 0.1);
}

TEST_F(TextTrainer, AddsTheGradientsOfTextAndLookupsByTheirWeights) {
  const TrainOptions mixed = options(0.25);
  Trainer trainer(mixed);
  const std::vector<BatchPart> parts = trainer.data().step(0);
  ASSERT_EQ(parts.size(), 2U);
  const auto leaves = trainer.network().parameters();
  std::vector<torch::Tensor> expected;
  double loss = 0;
  for (const BatchPart& part : parts) {
    const torch::Tensor logits =
        part.kind == BatchPart::Kind::kText
            ? trainer.network().forward(part.batch.tokens)
            : trainer.network().forward_at(part.batch.tokens, part.batch.rows);
    const torch::Tensor mean =
        torch::nn::functional::cross_entropy(logits.flatten(0, 1), part.batch.targets.flatten());
    loss += part.weight * mean.item<double>();
    const auto gradients = torch::autograd::grad({part.weight * mean}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (expected.size() <= i) expected.push_back(torch::zeros_like(leaves[i]));
      expected[i] += gradients[i];
    }
  }
  double norm = 0;
  for (const torch::Tensor& gradient : expected) norm += gradient.square().sum().item<double>();
  for (const std::int64_t threads : {1, 2, 5}) {  // 5: more than the 2 lookups
    TrainOptions split = mixed;
    split.threads = threads;
    const StepResult result = Trainer(split).step();
    EXPECT_NEAR(result.on_batch.loss, loss, 1e-5) << threads;
    EXPECT_NEAR(result.gradient_norm, std::sqrt(norm), 1e-4 * std::sqrt(norm)) << threads;
    ASSERT_TRUE(result.on_text && result.on_lookups);
    EXPECT_NEAR(0.75 * result.on_text->loss + 0.25 * result.on_lookups->loss, loss, 1e-5);
  }
}

TEST(Trainer, RecomputingLayersTakesTheSameSteps) {
  TrainOptions options = tiny();
  Trainer plain(options);
  options.recompute_layers = true;
  Trainer recomputing(options);
  for (int i = 0; i < 5; ++i) {
    const StepResult a = plain.step(), b = recomputing.step();
    EXPECT_EQ(a.on_batch.loss, b.on_batch.loss) << i;
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << i;
  }
}

TEST(Trainer, BFloat16ProductsTakeNearlyTheSameSteps) {
  if (!kernels::has_bfloat16_products()) GTEST_SKIP() << "not on this processor";
  TrainOptions options = tiny();
  Trainer exact(options);
  options.bfloat16_products = true;
  Trainer rounded(options);
  for (int i = 0; i < 20; ++i) {
    const StepResult a = exact.step(), b = rounded.step();
    EXPECT_NE(a.gradient_norm, b.gradient_norm) << i;
    EXPECT_NEAR(a.on_batch.loss, b.on_batch.loss, 0.02 * a.on_batch.loss) << i;
  }
}

TEST(Trainer, ADeviceThatTorchHasNotIsRefused) {
  TrainOptions options = tiny();
  options.device = "cuda:99";
  try {
    Trainer trainer(options);
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("expected the device cuda:99, got"), std::string::npos)
        << error.what();
  }
}

TEST(Trainer, LeavesTheParametersAloneWhenTheGradientIsNotFinite) {
  Trainer trainer(tiny());
  trainer.step();
  std::vector<torch::Tensor> parameters = trainer.network().parameters();
  {
    const torch::NoGradGuard no_grad;
    parameters[0].fill_(1e30F);
  }
  const torch::Tensor before = parameters.back().detach().clone();
  const StepResult result = trainer.step();
  EXPECT_FALSE(result.finite) << "loss " << result.on_batch.loss << ", norm "
                              << result.gradient_norm;
  EXPECT_EQ(trainer.steps_done(), 1);
  EXPECT_TRUE(torch::equal(before, parameters.back()));
}

}  // namespace
}  // namespace kvphase::train
