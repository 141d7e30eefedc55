#include "train/trainer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

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
