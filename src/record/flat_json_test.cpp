#include "record/flat_json.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace kvphase::record {
namespace {

// Either unclear, or what the parser says.
bool agrees_with_the_parser(const std::string& line, bool& clear) {
  const base::Json json = base::Json::parse(line, nullptr, false);
  FlatJson flat(line);
  std::map<std::string, Cell> cells;
  std::map<std::string, bool> exact;
  FlatJson::Step step = flat.next();
  for (; step == FlatJson::Step::kValue; step = flat.next()) {
    cells[std::string(flat.key())] = flat.cell();
    exact[std::string(flat.key())] = flat.integer();
  }
  clear = step == FlatJson::Step::kEnd;
  if (!clear) return true;
  if (!json.is_object() || json.size() != cells.size()) return false;
  for (const auto& [key, cell] : cells) {
    if (!json.contains(key)) return false;
    const Cell wanted = json_cell(json.at(key));
    const bool text = cell.text == wanted.text || (json.at(key).is_number() && !exact.at(key));
    if (cell.kind != wanted.kind || cell.number != wanted.number || !text) return false;
  }
  return true;
}

TEST(FlatJson, ReadsPlainObjectsAsTheParserDoes) {
  const std::vector<std::string> values = {
      "1",    "0",     "-7",   "12345678901234567", "0.5",  "-0",      "1e3",  "-1.5E-3",
      "true", "false", "null", "\"a b\"",           "\"\"", "\" NA\"", "\"7\""};
  int lines = 0;
  for (const std::string& x : values) {
    for (const std::string& y : values) {
      for (const std::string& line :
           {"{\"a\":" + x + ",\"b\":" + y + "}", "{ \"a\" : " + x + " ,\t\"a\" : " + y + " } "}) {
        bool clear = false;
        EXPECT_TRUE(agrees_with_the_parser(line, clear)) << line;
        EXPECT_TRUE(clear) << line;
        ++lines;
      }
    }
  }
  std::printf("%d lines agree\n", lines);
}

TEST(FlatJson, LeavesEverythingElseToTheParser) {
  const std::vector<std::string> lines = {"",
                                          "{",
                                          "{}",
                                          "[1]",
                                          "{\"a\":1",
                                          "{\"a\":1}}",
                                          "{\"a\":01}",
                                          "{\"a\":1.}",
                                          "{\"a\":.5}",
                                          "{\"a\":+1}",
                                          "{\"a\":NaN}",
                                          "{\"a\":{}}",
                                          "{\"a\":[1]}",
                                          "{\"a\":1,}",
                                          "{\"a\" 1}",
                                          "{a:1}",
                                          "{\"a\":\"\\n\"}",
                                          "{\"a\":tru}",
                                          "{\"a\":1e}",
                                          "{\"a\":1 2}",
                                          "{\"a\":\"x}",
                                          "{\"\xC3\xA9\":1}",
                                          "{\"a\":1e999}",
                                          "{\"a\":truex}"};
  for (const std::string& line : lines) {
    bool clear = true;
    EXPECT_TRUE(agrees_with_the_parser(line, clear)) << line;
    EXPECT_FALSE(clear) << line;
  }
}

}  // namespace
}  // namespace kvphase::record
