#include "endpoint/json_text.h"

#include <gtest/gtest.h>

namespace kvphase::endpoint {
namespace {

TEST(JsonText, Row9ReadsBareNanAndInfinityAsNullAndSaysSo) {
  const JsonText text = read_json(R"({"a":NaN,"b":[-Infinity,Infinity,1],"c":"NaN -Infinity"})");
  ASSERT_TRUE(text.value) << text.problem;
  EXPECT_EQ(text.value->dump(), R"({"a":null,"b":[null,null,1],"c":"NaN -Infinity"})");
  EXPECT_TRUE(text.had_non_finite);
  EXPECT_FALSE(read_json(R"({"a":"In \"NaN"})").had_non_finite);
}

TEST(JsonText, Row10ReplacesBytesThatAreNotUtf8) {
  const JsonText text = read_json("{\"a\":\"x\xFF\xC3(\xE4\xBD\xA0\xED\xA0\x80\"}");
  ASSERT_TRUE(text.value) << text.problem;
  EXPECT_TRUE(text.had_invalid_utf8);
  EXPECT_EQ((*text.value)["a"],
            "x\xEF\xBF\xBD\xEF\xBF\xBD(\xE4\xBD\xA0\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_FALSE(read_json("{\"a\":\"\xF0\x9F\x98\x80\"}").had_invalid_utf8);
}

TEST(JsonText, RefusesAbsurdNestingBeforeParsingIt) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const JsonText text = read_json(deep);
  EXPECT_FALSE(text.value);
  EXPECT_NE(text.problem.find("nested deeper than 64"), std::string::npos) << text.problem;
  EXPECT_TRUE(read_json(std::string(64, '[') + std::string(64, ']')).value);
}

TEST(JsonText, Row15SaysWhatCameInsteadOfJson) {
  EXPECT_NE(read_json("<!DOCTYPE html>\n<h1>504</h1>").problem.find("<!DOCTYPE html>"),
            std::string::npos);
  EXPECT_EQ(read_json("").problem, "an empty body");
  for (const std::string text :
       {"{", "{\"a\":}", "nul", "N", "\"", "[1,]", "{\"a\":1}}", "\xFF", "-I"}) {
    EXPECT_FALSE(read_json(text).value) << text;
    EXPECT_FALSE(read_json(text).problem.empty());
  }
}

TEST(JsonText, CutsExcerptsAtACharactersEnd) {
  EXPECT_EQ(excerpt("ab\ncd"), "ab cd");
  EXPECT_EQ(excerpt("\xE4\xBD\xA0\xE4\xBD\xA0", 4), "\xE4\xBD\xA0...");
  EXPECT_EQ(excerpt("\xE4\xBD\xA0", 3), "\xE4\xBD\xA0");
}

}  // namespace
}  // namespace kvphase::endpoint
