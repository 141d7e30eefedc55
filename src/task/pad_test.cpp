#include "task/pad.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace kvphase::task {
namespace {

std::int64_t mod(std::int64_t x, std::int64_t R) { return (x % R + R) % R; }

TEST(Pad, NamesRoundTripAndAWrongOneGetsTheNearest) {
  for (const std::string& name : pad_at_names()) EXPECT_EQ(name_of(pad_at_from_name(name)), name);
  try {
    pad_at_from_name("after_needle");
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean after-needle"), std::string::npos)
        << error.what();
  }
}

TEST(Pad, EveryWayPutsTheMovedPositionAtTheResidueAndKeepsWhatItPromises) {
  for (const std::int64_t R : {2, 7, 8, 128}) {
    for (const std::int64_t target : {0, 5, 1003}) {
      for (const std::int64_t extra : {0, 3}) {
        const PadPlace place{
            .target = target, .query = target + 77, .extra = extra, .between = 1 % R};
        std::set<std::int64_t> ends;
        for (std::int64_t r = 0; r < R; ++r) {
          for (const std::string& name : pad_at_names()) {
            const PadAt at = pad_at_from_name(name);
            const PadAmounts pad = pad_amounts(at, place, r, R);
            ASSERT_GE(pad.front, 0) << name;
            ASSERT_GE(pad.back, 0) << name << " R " << R << " r " << r;
            EXPECT_LE(pad.front + pad.back, most_padding(at, R)) << name;
            const std::int64_t end = place.query + pad.front + pad.back;
            if (moves_end_only(at)) {
              EXPECT_EQ(pad.front, 0);
              EXPECT_EQ(mod(end, R), r);
            } else {
              EXPECT_EQ(mod(target + pad.front, R), r) << name;
            }
            if (at == PadAt::kSplit) {
              EXPECT_EQ(pad.front + pad.back, R - 1);
            }
            if (at == PadAt::kStart || at == PadAt::kBeforeNeedle) {
              EXPECT_EQ(pad.back, 0);
            }
            if (at == PadAt::kTwoFactor) {
              EXPECT_EQ(mod(end, R), mod(r + place.between, R));
              ends.insert(end);
            }
          }
        }
        EXPECT_EQ(std::ssize(ends), R) << "each item has every end residue once";
        EXPECT_EQ(*ends.rbegin() - *ends.begin(), R - 1);
      }
    }
  }
}

}  // namespace
}  // namespace kvphase::task
