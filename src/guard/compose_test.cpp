#include "guard/compose.h"

#include <gtest/gtest.h>

#include <utility>

namespace kvphase::guard {
namespace {

TEST(Compose, ALetterAndItsMarksBecomeOneCharacter) {
  const std::pair<const char*, const char*> cases[] = {
      {"caf\u0065\u0301", "caf\u00e9"},  {"\u0041\u030angstro\u0308m", "\u00c5ngstr\u00f6m"},
      {"e\u0302\u0301", "\u1ebf"},       {"a\u0323\u0302", "\u1ead"},
      {"c\u0327a", "\u00e7a"},           {"s\u030c\u00e9", "\u0161\u00e9"},
      {"n\u0303n\u0303", "\u00f1\u00f1"}};
  for (const auto& [apart, joined] : cases) {
    EXPECT_EQ(composed(apart), joined);
    EXPECT_EQ(composed(joined), joined);
  }
}

TEST(Compose, EverythingElseStaysAsItIs) {
  for (const char* text : {"", "plain", "\u0301", "x\u0301", "\u4e2d\u6587 \U0001f600\u0301",
                           "e\xcc", "\xcc\x81", "\xff\xfe\u0301", "\xe2\x82", "\u03b1\u0301"}) {
    EXPECT_EQ(composed(text), text);
  }
}

}  // namespace
}  // namespace kvphase::guard
