#include "endpoint/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvphase::endpoint {
namespace {

struct Seen {
  std::vector<std::string> data;
  std::vector<std::string> names;
  bool open = false;
};

Seen parse_cut(const std::string& stream, std::size_t size) {
  Seen seen;
  SseParser parser;
  const auto take = [&](const SseEvent& event) {
    seen.data.push_back(event.data);
    seen.names.push_back(event.name);
  };
  for (std::size_t i = 0; i < stream.size(); i += size) parser.push(stream.substr(i, size), take);
  seen.open = parser.finish(take);
  return seen;
}

TEST(Sse, Row16ReadsTheSameEventsWhereverTheBytesAreCut) {
  const std::string stream =
      "\xEF\xBB\xBF: keep-alive\n\ndata: {\"a\":\"\xE4\xBD\xA0\xF0\x9F\x98\x80\"}\n\nevent: "
      "error\r\ndata: x\r\n"
      "data:y\r\n\r\n\n\nid: 3\nretry: 5\nunknown\ndata\n\ndata: [DONE]\r\r";
  const std::vector<std::string> expected = {"{\"a\":\"\xE4\xBD\xA0\xF0\x9F\x98\x80\"}", "x\ny", "",
                                             "[DONE]"};
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    const Seen seen = parse_cut(stream, size);
    EXPECT_EQ(seen.data, expected) << "cut every " << size << " bytes";
    EXPECT_EQ(seen.names, (std::vector<std::string>{"message", "error", "message", "message"}));
    EXPECT_FALSE(seen.open);
  }
}

TEST(Sse, Row16HandsOutAnEventThatTheEndCutOffAndSaysSo) {
  const Seen seen = parse_cut("data: whole\n\ndata: cut", 5);
  EXPECT_EQ(seen.data, (std::vector<std::string>{"whole", "cut"}));
  EXPECT_TRUE(seen.open);
  EXPECT_FALSE(parse_cut("", 1).open);
  EXPECT_FALSE(parse_cut(": only a comment", 3).open);
}

}  // namespace
}  // namespace kvphase::endpoint
