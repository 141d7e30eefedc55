#include "record/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::record {
namespace {

using ::testing::ElementsAre;

Observation observation(std::int64_t item, std::int64_t position, std::optional<bool> correct) {
  Observation o;
  o.item = item;
  o.target_position = position;
  o.correct = correct;
  return o;
}

TEST(Table, OrdersRowsByItemAndPositionWhateverTheOrderOfObservations) {
  std::vector<Observation> all;
  for (std::int64_t item : {700000000, 3, 41}) {  // far apart: ranked by sorting
    for (std::int64_t position : {9, 2, 5}) all.push_back(observation(item, position, item == 3));
  }
  base::Random random(1);
  const Dataset first = dataset_from(all, 4, "test");
  random.shuffle(std::span(all));
  const Dataset second = dataset_from(all, 4, "test");
  EXPECT_THAT(first.rows->item, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  EXPECT_THAT(first.rows->position, ElementsAre(2, 5, 9, 2, 5, 9, 2, 5, 9));
  EXPECT_EQ(first.rows->reply[0], Reply::kRight);
  EXPECT_EQ(first.rows->reply[3], Reply::kWrong);
  EXPECT_EQ(first.rows->item, second.rows->item);
  EXPECT_EQ(first.rows->position, second.rows->position);
  EXPECT_EQ(first.rows->reply, second.rows->reply);
}

TEST(Table, ChecksMeanAndVarianceOfPositionsByResidue) {
  std::vector<Observation> all;
  for (std::int64_t position : {0, 10, 1, 13}) all.push_back(observation(position, position, true));
  const PositionCheck check = dataset_from(all, 2, "test").positions;  // {0, 10} and {1, 13}
  EXPECT_TRUE(check.checked);
  EXPECT_FALSE(check.ok) << "means 5 and 7 differ by a whole cycle of 2";
  EXPECT_DOUBLE_EQ(check.mean_low, 5);
  EXPECT_DOUBLE_EQ(check.mean_high, 7);
  EXPECT_DOUBLE_EQ(check.variance_low, 25);
  EXPECT_DOUBLE_EQ(check.variance_high, 36);
}

TEST(Table, RefusesTwoRepliesToOnePromptAndNamesThem) {
  const std::vector<Observation> twice = {observation(7, 3, true), observation(7, 3, false)};
  try {
    dataset_from(twice, 2, "test");
    ADD_FAILURE() << "not refused";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("item 7, position 3"));
  }
  const std::vector<Observation> retry = {observation(7, 3, std::nullopt),
                                          observation(7, 3, false)};
  EXPECT_THAT(dataset_from(retry, 2, "test").rows->reply, ElementsAre(Reply::kWrong));
}

TEST(Table, HandlesNoObservations) {
  const Dataset data = dataset_from({}, 24, "test");
  EXPECT_EQ(data.rows->size(), 0U);
  EXPECT_FALSE(data.positions.checked);
}

}  // namespace
}  // namespace kvphase::record
