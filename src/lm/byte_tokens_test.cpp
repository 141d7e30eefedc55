#include "lm/byte_tokens.h"

#include <gtest/gtest.h>

#include <set>

namespace kvphase::lm {
namespace {

TEST(ByteTokens, HaveANameEachWithoutBlanks) {
  const std::vector<std::string>& names = byte_token_names();
  ASSERT_EQ(names.size(), 257U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 257U);
  for (const std::string& name : names) {
    EXPECT_EQ(name.find_first_of(" \t\r\n"), std::string::npos) << name;
  }
  EXPECT_EQ(names['A'], "A");
  EXPECT_EQ(names['\n'], "<0x0A>");
  EXPECT_EQ(names[kDocumentEnd], "<end>");
}

TEST(ByteTokens, GiveBackTheTextTheyCameFrom) {
  for (const char* text :
       {"", "Ab, Qx\n", "gr\xC3\xBC\xC3\x9F", "\xE2\x82\xAC", "\xF0\x9F\x99\x82"}) {
    EXPECT_EQ(byte_text(byte_tokens(text)), text);
  }
}

TEST(ByteTokens, WriteWhatIsNoUtf8AsItsName) {
  EXPECT_EQ(byte_text(byte_tokens("a\xC3")), "a<0xC3>");          // cut off
  EXPECT_EQ(byte_text(byte_tokens("\xC0\xAF")), "<0xC0><0xAF>");  // overlong
  EXPECT_EQ(byte_text(byte_tokens("\xE0\x80\x80"
                                  "b")),
            "<0xE0><0x80><0x80>b");
  EXPECT_EQ(byte_text(byte_tokens("\xED\xA0\x80")), "<0xED><0xA0><0x80>");  // a surrogate
  EXPECT_EQ(byte_text(std::vector<TokenId>{'a', kDocumentEnd, 'b'}), "a<end>b");
}

}  // namespace
}  // namespace kvphase::lm
