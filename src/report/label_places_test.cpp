#include "report/label_places.h"

#include <gtest/gtest.h>

namespace kvphase::report {
namespace {

TEST(LabelPlaces, StandToTheRightWhereNothingIsInTheWay) {
  const auto places = place_labels({{0.1, 0.1, "one"}, {0.5, 0.9, "two"}});
  for (const LabelPlace& place : places) {
    EXPECT_FALSE(place.left);
    EXPECT_EQ(place.down, 0);
  }
}

TEST(LabelPlaces, GoToTheLeftAtTheRightEdge) {
  EXPECT_TRUE(place_labels({{0.99, 0.5, "full-4kv"}})[0].left);
}

TEST(LabelPlaces, OfMarksCloseTogetherDifferInSideOrHeight) {
  const std::vector<NamedMark> marks = {{0.5, 0.5, "w8s8-4kv"},
                                        {0.501, 0.5, "w4s4-1kv"},
                                        {0.502, 0.51, "w8s4-1kv"},
                                        {0.5, 0.52, "w12s12-4kv"}};
  const auto places = place_labels(marks);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double apart = (marks[i].y - marks[j].y) * 220 + places[i].down - places[j].down;
      EXPECT_TRUE(places[i].left != places[j].left || std::abs(apart) >= 10.9)
          << marks[i].name << " on " << marks[j].name;
    }
  }
}

}  // namespace
}  // namespace kvphase::report
