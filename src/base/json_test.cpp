#include "base/json.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"

namespace kvphase::base {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ObjectReader, RefusesAnUnknownKeyAndNamesTheNearest) {
  const Json object = {{"window", 4}, {"strid", 4}};
  ObjectReader reader(object, "config");
  EXPECT_EQ(reader.integer("window"), 4);
  EXPECT_EQ(reader.integer("stride", 1), 1);
  EXPECT_EQ(message_of([&] { reader.finish(); }),
            "[config] expected a known key, got 'strid'; did you mean 'stride'?");
}

TEST(ObjectReader, RefusesWrongTypesAndHugeNumbers) {
  const Json object = {
      {"a", "4"}, {"b", std::numeric_limits<double>::infinity()}, {"c", 1.5}, {"d", UINT64_MAX}};
  ObjectReader reader(object, "config");
  EXPECT_THROW(reader.integer("a"), Error);
  EXPECT_THROW(reader.real("b"), Error);
  EXPECT_THROW(reader.integer("c"), Error);
  EXPECT_THROW(reader.integer("d"), Error);
  EXPECT_THROW(reader.text("absent"), Error);
}

TEST(ObjectReader, RefusesAnUnknownChoice) {
  const Json object = {{"gate", "vectr"}};
  const std::vector<std::string> choices = {"scalar", "vector", "uniform"};
  ObjectReader reader(object, "config");
  EXPECT_EQ(message_of([&] { reader.choice("gate", choices); }),
            "[config] expected 'gate' to be one of scalar | vector | uniform, got 'vectr'; did you "
            "mean 'vector'?");
}

TEST(Json, ParseErrorNamesTheSource) {
  EXPECT_NE(message_of([] { parse_json("{\"a\": NaN}", "x.json"); }).find("[x.json]"),
            std::string::npos);
}

TEST(Json, ABrokenTextIsRefusedWithThePlace) {
  const auto refusal = [](const char* text) {
    return message_of([&] { parse_json(text, "analyze", "c.json"); });
  };
  EXPECT_NE(refusal("{\"n\": [4,\n4,").find("[analyze] c.json: expected valid JSON"),
            std::string::npos)
      << refusal("{\"n\": [4,\n4,");
  EXPECT_NE(refusal("{\"n\": [4,\n4,").find("ends inside a value"), std::string::npos);
  EXPECT_NE(refusal("{\n \"n\": x}").find("line 2, column 7"), std::string::npos)
      << refusal("{\n \"n\": x}");
  EXPECT_NE(refusal("").find("ends inside a value"), std::string::npos) << refusal("");
}

TEST(Json, AbsentNumberIsNull) {
  EXPECT_EQ(number_or_null(std::nullopt).dump(), "null");
  EXPECT_EQ(number_or_null(0.5).dump(), "0.5");
}

}  // namespace
}  // namespace kvphase::base
