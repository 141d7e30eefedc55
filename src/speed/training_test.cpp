#include "speed/training.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"

namespace kvphase::speed {
namespace {

TEST(BenchTraining, HasSequencesOfTheAskedLengthAtEveryLength) {
  for (const std::int64_t tokens : {5, 6, 64, 256, 257, 1024, 8192}) {
    const Cell cell{.operation = Operation::kTrain,
                    .config = model::preset("small/w4s4-1kv"),
                    .tokens = tokens,
                    .batch = 4,
                    .threads = 2};
    const train::TrainOptions options = training_of(cell);
    EXPECT_NO_THROW(train::validate(options, "test")) << tokens;
    EXPECT_EQ(options.language.length(), tokens);
    EXPECT_EQ(options.model.context_length, tokens);
    const auto rows = asked_rows(options);
    EXPECT_EQ(std::ssize(rows), std::min<std::int64_t>(64, (tokens - 1) / 4));
    EXPECT_EQ(rows.back(), tokens - 2);  // the answer behind it is the last token
  }
  EXPECT_THROW(training_of({.config = model::preset("small/w4s4-1kv"), .tokens = 4}), base::Error);
}

}  // namespace
}  // namespace kvphase::speed
