#include "train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "train/recipes.h"

namespace kvphase::train {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void(TrainOptions&)>& change) {
  TrainOptions options = recipe("small-wc");
  change(options);
  try {
    validate(options, "test");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(TrainOptions, ComeBackEqualFromJson) {
  TrainOptions options = recipe("main-cc-staggered");
  options.seed = 18446744073709551615ULL;
  options.learning_rate = 0.1 + 0.2;
  options.threads = 2;
  options.recompute_layers = true;
  options.bfloat16_products = true;
  options.data = {.text = {"a", "b"}, .sequence = 50, .lookup_share = 0.1};
  const base::Json json = to_json(options);
  const TrainOptions back = train_options_from_json(json, "test");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.model, options.model);
  EXPECT_EQ(back.language, options.language);
  EXPECT_EQ(back.data, options.data);
  EXPECT_EQ(back.seed, options.seed);
  EXPECT_EQ(back.learning_rate, options.learning_rate);
  options.bfloat16_products = false;
  options.device = "cuda:1";
  EXPECT_EQ(train_options_from_json(to_json(options), "test").device, "cuda:1");
}

TEST(TrainOptions, DrawOffsetsAndGridsEvenlyAndBothFromTheSeed) {
  TrainOptions options = recipe("small-wc");
  EXPECT_EQ(offset_at(options, 3), 0);
  EXPECT_EQ(grid_shift_at(options, 3), 0);
  options.random_offset = 5;
  options.random_grid = true;
  fit_model_to_language(options);
  EXPECT_EQ(options.model.context_length, options.language.length() + 4);
  const TrainOptions back = train_options_from_json(to_json(options), "test");
  EXPECT_EQ(to_json(back), to_json(options));
  std::vector<int> offsets(5), shifts(4);
  int alike = 0;
  for (std::int64_t step = 0; step < 2000; ++step) {
    ++offsets.at(static_cast<std::size_t>(offset_at(options, step)));
    ++shifts.at(static_cast<std::size_t>(grid_shift_at(options, step)));
    if (offset_at(options, step) == grid_shift_at(options, step)) ++alike;
    EXPECT_EQ(offset_at(back, step), offset_at(options, step));
  }
  for (const int count : offsets) EXPECT_NEAR(count, 400, 80);  // 4.5 standard deviations
  for (const int count : shifts) EXPECT_NEAR(count, 500, 87);
  EXPECT_NEAR(alike, 400, 80) << "the two are drawn apart";
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.model.attention = {model::AttentionKind::kFull, model::AttentionKind::kFull};
                o.random_grid = true;
              }),
              HasSubstr("random_grid"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.random_offset = 2; }), HasSubstr("context"));
}

TEST(TrainOptions, CurriculumRisesFromTheFirstRecordsToAllOfThem) {
  TrainOptions options = recipe("small-ff");
  options.language.records = options.language.queries = 8;
  options.first_records = 2;
  options.first_haystack = 8;
  options.curriculum_steps = 600;
  validate(options, "test");
  EXPECT_EQ(language_at(options, 0).records, 2);
  EXPECT_EQ(language_at(options, 0).queries, 2);
  EXPECT_EQ(language_at(options, 0).haystack, 8);
  EXPECT_EQ(language_at(options, 300).records, 5);
  EXPECT_EQ(language_at(options, 300).haystack, 28);
  EXPECT_EQ(language_at(options, 599).records, 7);
  EXPECT_EQ(language_at(options, 600), options.language);
  EXPECT_EQ(train_options_from_json(to_json(options), "test").first_records, 2);
  EXPECT_EQ(train_options_from_json(to_json(options), "test").first_haystack, 8);
  EXPECT_EQ(train_options_from_json(to_json(options), "test").curriculum_steps, 600);
  EXPECT_THAT(refusal([](TrainOptions& o) { o.first_records = 2; }), HasSubstr("'first_records'"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.first_records = 99;
                o.first_haystack = 8;
                o.curriculum_steps = 5;
              }),
              HasSubstr("got 99, 8 and 5"));
}

TEST(TrainOptions, OfACurriculumHoldItsFirstLanguageAndShrinkTheBatchAsSequencesGrow) {
  TrainOptions options = recipe("small-wc");
  options.first_records = 2;
  options.first_haystack = 8;
  options.curriculum_hold = 100;
  options.curriculum_steps = 200;
  options.batch = 8;
  EXPECT_EQ(batch_at(options, 0), 8);
  options.first_batch = 28;
  validate(options, "test");
  for (const std::int64_t step : {0, 99, 100}) {
    EXPECT_EQ(language_at(options, step).records, 2) << step;
    EXPECT_EQ(batch_at(options, step), 28) << step;
  }
  EXPECT_EQ(language_at(options, 200).records, 5);
  EXPECT_EQ(batch_at(options, 200), 18);
  EXPECT_EQ(language_at(options, 300), options.language);
  EXPECT_EQ(batch_at(options, 300), 8);
  EXPECT_EQ(to_json(train_options_from_json(to_json(options), "test")), to_json(options));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.first_batch = 4; }), HasSubstr("'curriculum_steps'"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.first_records = 2;
                o.first_haystack = 8;
                o.curriculum_steps = 5;
                o.first_batch = 2;
                o.threads = 3;
              }),
              HasSubstr("at most 'batch' (2)"));
}

TEST(TrainOptions, RefuseUnknownKeysByName) {
  base::Json json = to_json(recipe("small-wc"));
  json["learning_rat"] = 1;
  try {
    train_options_from_json(json, "test");
    FAIL() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'learning_rate'?"));
  }
}

TEST(TrainOptions, RefuseValuesOutOfRangeAndNaN) {
  EXPECT_EQ(refusal([](TrainOptions&) {}), "no error");
  EXPECT_THAT(refusal([](TrainOptions& o) { o.steps = 0; }), HasSubstr("'steps'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.threads = 33; }), HasSubstr("'batch' (32), got 33"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.learning_rate = NAN; }), HasSubstr("got nan"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.learning_rate = 0; }), HasSubstr("learning_rate"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.beta2 = 1; }), HasSubstr("'beta2'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.clip_norm = -1; }), HasSubstr("'clip_norm'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.weight_decay = INFINITY; }),
              HasSubstr("'weight_decay'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.final_fraction = 2; }), HasSubstr("of 0 to 1"));
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:01", "cuda:-1", "cpu:0"}) {
    EXPECT_THAT(refusal([&](TrainOptions& o) { o.device = device; }), HasSubstr("'device'"));
  }
  EXPECT_EQ(refusal([](TrainOptions& o) { o.device = "cuda:1"; }), "no error");
  EXPECT_NE(refusal([](TrainOptions& o) {
              o.device = "cuda:1";
              o.bfloat16_products = true;
            }).find("expected 'bfloat16_products' on the device cpu, got cuda:1"),
            std::string::npos);
  EXPECT_THAT(refusal([](TrainOptions& o) { o.data = {.text = {"a"}, .sequence = 0}; }),
              HasSubstr("'data.sequence'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.data = {.text = {"a"}, .sequence = 66}; }),
              HasSubstr("'data.sequence' (66 tokens), got 65"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.data = {.text = {"a"}, .sequence = 5, .lookup_share = NAN};
              }),
              HasSubstr("'data.lookup_share'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.language.records = 90; }), HasSubstr("'keys'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.vocab_size = 7; }), HasSubstr("got 7"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.context_length = 10; }),
              HasSubstr("sequences of 65 tokens, got 10"));
}

TEST(LearningRate, RisesLinearlyThenFallsAsHalfACosine) {
  TrainOptions options;
  options.learning_rate = 2;
  options.warmup_steps = 10;
  options.steps = 111;
  options.final_fraction = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 9), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 10), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 60), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_NEAR(learning_rate_at(options, 110), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate_at(options, 5000), 0.2, 1e-12);
}

TEST(LearningRate, IsDefinedForTheShortestTrainings) {
  for (const std::int64_t steps : {1, 2, 3}) {
    for (const std::int64_t warmup : {0, 1, 5}) {
      TrainOptions options;
      options.steps = steps;
      options.warmup_steps = warmup;
      for (std::int64_t step = 0; step < steps; ++step) {
        const double rate = learning_rate_at(options, step);
        EXPECT_TRUE(rate > 0 && rate <= options.learning_rate) << steps << warmup << step << rate;
      }
    }
  }
}

}  // namespace
}  // namespace kvphase::train
