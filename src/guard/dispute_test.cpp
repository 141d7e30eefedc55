#include "guard/dispute.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvphase::guard {
namespace {

std::string whole(const std::vector<Stretch>& text) {
  std::string all;
  for (const Stretch& stretch : text) all += stretch.text;
  return all;
}

TEST(Dispute, AWrongCharacterIsShownInPlace) {
  const Dispute d = dispute("the code is K-7731", "the code is K-7781");
  EXPECT_EQ(marked(d.first), "the code is K-77[3]1");
  EXPECT_EQ(marked(d.second), "the code is K-77[8]1");
  EXPECT_EQ(d.at, 16);
  EXPECT_EQ(d.disputed, 2);
}

TEST(Dispute, AMissingCharacterHasAPlaceInBoth) {
  const Dispute d = dispute("7731", "771");
  EXPECT_EQ(marked(d.first), "77[3]1");
  EXPECT_EQ(marked(d.second), "77[]1");
  EXPECT_EQ(marked(dispute("", "x").first), "[]");
  EXPECT_EQ(marked(dispute("", "x").second), "[x]");
}

TEST(Dispute, TwoDifferencesAreTwoStretches) {
  EXPECT_EQ(marked(dispute("a1b2c", "a3b4c").second), "a[3]b[4]c");
}

TEST(Dispute, EqualTextsHaveNone) {
  const Dispute d = dispute("same", "same");
  EXPECT_EQ(d.disputed, 0);
  EXPECT_EQ(marked(d.first), "same");
  EXPECT_TRUE(dispute("", "").first.empty());
}

TEST(Dispute, CharactersAreCodePointsAndBrokenBytesStandAlone) {
  EXPECT_EQ(marked(dispute("pr\u00e4zise", "pr\u00e0zise").second), "pr[\u00e0]zise");
  EXPECT_EQ(marked(dispute("a\xff"
                           "b",
                           "a\xfe"
                           "b")
                       .second),
            "a[\xfe]b");
  EXPECT_EQ(whole(dispute("\xe2\x82", "\xe2\x82\xac").second), "\xe2\x82\xac");
}

TEST(Dispute, LongCommonTextIsCutAroundTheDifference) {
  const std::string before(100, 'b'), after(100, 'a');
  EXPECT_EQ(marked(dispute(before + "1" + after, before + "2" + after).second, 3),
            "...bbb[2]aaa...");
  const Dispute two = dispute("1" + before + "1", "2" + before + "2");
  EXPECT_EQ(marked(two.second, 3), "[2]bbb...bbb[2]");
}

TEST(Dispute, StretchesAddUpToTheTextsAndCommonOnesAreTheSameInBoth) {
  base::Random random(5);
  for (int run = 0; run < 300; ++run) {
    std::string a, b;
    for (std::string* text : {&a, &b}) {
      for (std::uint64_t i = random.uniform_index(12); i > 0; --i) {
        *text += static_cast<char>('a' + random.uniform_index(3));
      }
    }
    const Dispute d = dispute(a, b);
    EXPECT_EQ(whole(d.first), a);
    EXPECT_EQ(whole(d.second), b);
    std::string common_a, common_b;
    for (const Stretch& s : d.first) common_a += s.disputed ? "" : s.text;
    for (const Stretch& s : d.second) common_b += s.disputed ? "" : s.text;
    EXPECT_EQ(common_a, common_b) << a << " | " << b;
    EXPECT_EQ(d.disputed, std::ssize(a) + std::ssize(b) - 2 * std::ssize(common_a));
  }
}

TEST(Dispute, TextsTooLongToAlignAreDisputedWhole) {
  std::string a(3000, 'x'), b(3000, 'y');
  a[1500] = b[1500] = '=';
  EXPECT_EQ(dispute(a, b).disputed, 6000);
}

}  // namespace
}  // namespace kvphase::guard
