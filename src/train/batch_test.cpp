#include "train/batch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace kvphase::train {
namespace {

const task::LookupLanguage kLanguage{
    .fillers = 4, .keys = 9, .values = 5, .haystack = 20, .records = 6, .queries = 4};

TEST(Batch, AsksForTheTokenAfterEachQueryKey) {
  const Batch batch = make_batch(kLanguage, 1, kTrainStream, 7, 5);
  ASSERT_EQ(batch.tokens.sizes(), (torch::IntArrayRef{5, 29}));
  EXPECT_TRUE(torch::equal(batch.rows, torch::tensor({21, 23, 25, 27}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, batch.tokens.index_select(1, batch.rows + 1)));
}

TEST(Batch, DependsOnSeedStreamAndStepAlone) {
  const Batch batch = make_batch(kLanguage, 1, kTrainStream, 7, 5);
  EXPECT_TRUE(torch::equal(batch.tokens, make_batch(kLanguage, 1, kTrainStream, 7, 5).tokens));
  for (const Batch& other :
       {make_batch(kLanguage, 2, kTrainStream, 7, 5), make_batch(kLanguage, 1, kTrainStream, 8, 5),
        make_batch(kLanguage, 1, kValidationStream, 7, 5)}) {
    EXPECT_FALSE(torch::equal(batch.tokens, other.tokens));
  }
}

}  // namespace
}  // namespace kvphase::train
