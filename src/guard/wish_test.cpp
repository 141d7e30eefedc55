#include "guard/wish.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace kvphase::guard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Wish, IsReadFromTheHeaderInAnyLetterCase) {
  const GuardOptions options{.offsets = 4, .policy = Policy::kReport, .repeats = 2};
  for (const char* off : {"off", "OFF", " false", "0", "no", "majority, Off"}) {
    EXPECT_FALSE(read_wish(off, options).guarded) << off;
  }
  for (const char* on : {"on", "On", "TRUE", "true", "1", "yes", ""}) {
    const Wish wish = read_wish(on, options);
    EXPECT_TRUE(wish.guarded) << on;
    EXPECT_EQ(wish.offsets, 4) << on;
    EXPECT_EQ(wish.policy, Policy::kReport) << on;
    EXPECT_EQ(wish.repeats, 2) << on;
  }
  EXPECT_EQ(read_wish(" 8 , majority", options).offsets, 8);
  EXPECT_EQ(read_wish("8,Majority", options).policy, Policy::kMajority);
  EXPECT_EQ(read_wish("REFUSE", options).policy, Policy::kRefuse);
  EXPECT_EQ(read_wish("on, Repeats=4", options).repeats, 4);
}

TEST(Wish, AWordThatIsNoneIsNamedWithWhatWouldBeOne) {
  for (const char* bad : {"17", "majorty", "8x", "-4", "repeats=0", "repeats=9", "repeats="}) {
    EXPECT_THROW(read_wish(bad, {}), base::Error) << bad;
  }
  try {
    read_wish("majorty", {});
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("on, off"), HasSubstr("got 'majorty'"),
                                    HasSubstr("nearest is 'majority'")));
  }
}

}  // namespace
}  // namespace kvphase::guard
