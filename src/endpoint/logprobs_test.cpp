#include "endpoint/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "endpoint/json_text.h"

namespace kvphase::endpoint {
namespace {

Reply read(const std::string& text, std::int64_t asked = 2) {
  const JsonText json = read_json(text);
  EXPECT_TRUE(json.value) << json.problem;
  Reply reply;
  read_first_token(json.value.value_or(base::Json()), asked, reply);
  return reply;
}

TEST(Logprobs, Row8ReadsTheFirstTokenInEveryShape) {
  const std::vector<std::string> shapes = {
      R"({"choices":[{"logprobs":{"content":[{"token":"K","logprob":-0.1,"bytes":[75],"top_logprobs":[{"token":"K","logprob":-0.1},{"token":"L","logprob":-2.5}]}]}}]})",
      R"({"choices":[{"logprobs":{"tokens":["K","7"],"token_logprobs":[-0.1,-0.2],"top_logprobs":[{"L":-2.5,"K":-0.1},{}]}}]})",
      R"({"completion_probabilities":[{"id":5,"token":"K","logprob":-0.1,"top_logprobs":[{"id":5,"token":"K","logprob":-0.1},{"id":6,"token":"L","logprob":-2.5}]}]})",
      R"({"completion_probabilities":[{"content":"K","probs":[{"tok_str":"K","prob":0.904837418},{"tok_str":"L","prob":0.0820849986}]}]})",
      R"({"meta_info":{"output_token_logprobs":[[-0.1,5,"K"]],"output_top_logprobs":[[[-2.5,6,"L"],[-0.1,5,"K"]]]}})",
      R"({"logprobs":[{"token":"K","logprob":-0.1,"bytes":[75],"top_logprobs":[{"token":"K","logprob":-0.1},{"token":"L","logprob":-2.5}]}]})"};
  for (const std::string& shape : shapes) {
    const Reply reply = read(shape);
    ASSERT_TRUE(reply.first) << shape << reply.first_absent;
    EXPECT_EQ(reply.first->text, "K") << shape;
    EXPECT_NEAR(reply.first->logprob.value(), -0.1, 1e-6) << shape;
    ASSERT_EQ(reply.first->top.size(), 2U) << shape;
    EXPECT_EQ(reply.first->top[1].text, "L") << "likeliest first: " << shape;
    EXPECT_NEAR(reply.first->top[1].logprob, -2.5, 1e-6);
    EXPECT_EQ(reply.first->unusable, 0);
  }
  EXPECT_EQ(read(shapes[2]).first->top[1].id, 6);
  EXPECT_EQ(read(shapes[4]).first->id, 5);
}

TEST(Logprobs, Row8SaysWhyThereAreNone) {
  for (const std::string text :
       {R"({"choices":[{"logprobs":null}]})", R"({"choices":[{}]})",
        R"({"choices":[{"logprobs":{"content":[]}}]})", R"({"choices":[{"logprobs":{}}]})",
        R"({"meta_info":{}})", R"({"meta_info":{"output_token_logprobs":[]}})", R"({})",
        R"({"completion_probabilities":[]})"}) {
    const Reply reply = read(text);
    EXPECT_FALSE(reply.first) << text;
    EXPECT_FALSE(reply.first_absent.empty()) << text;
  }
  const Reply null_first =
      read(R"({"choices":[{"logprobs":{"tokens":["K","7"],"token_logprobs":[null,-0.1]}}]})");
  ASSERT_TRUE(null_first.first);
  EXPECT_FALSE(null_first.first->logprob) << "the second token's value is not the first's";
  EXPECT_EQ(null_first.first->note, "left out: null or NaN");
  const Reply no_rivals = read(
      R"({"choices":[{"logprobs":{"content":[{"token":"K","logprob":-0.1,"top_logprobs":[]}]}}]})");
  EXPECT_EQ(no_rivals.first->logprob, -0.1);
  EXPECT_TRUE(no_rivals.first->top.empty());
}

TEST(Logprobs, Row9LeavesOutFloorsClipsAndNan) {
  const Reply reply = read(
      R"({"choices":[{"logprobs":{"content":[{"token":"K","logprob":NaN,"top_logprobs":[
      {"token":"K","logprob":-0.5},{"token":"L","logprob":-9999.0},{"token":"M","logprob":-100},
      {"token":"N","logprob":-Infinity},{"token":"O","logprob":3},{"token":"P","logprob":-99.5}]}]}}]})");
  ASSERT_TRUE(reply.first);
  EXPECT_FALSE(reply.first->logprob);
  ASSERT_EQ(reply.first->top.size(), 2U);
  EXPECT_EQ(reply.first->top[1].logprob, -99.5) << "unlikely, not clipped";
  EXPECT_EQ(reply.first->unusable, 5);
  for (const char* why : {"NaN", "-9999", "-100", "positive"}) {
    EXPECT_NE(reply.first->note.find(why), std::string::npos) << reply.first->note;
  }
}

TEST(Logprobs, Row9KnowsDegenerateValuesTakenAfterSampling) {
  const Reply reply = read(
      R"({"choices":[{"logprobs":{"content":[{"token":"K","logprob":0.0,"top_logprobs":[
      {"token":"K","logprob":0.0},{"token":"L","logprob":-9999.0},{"token":"M","logprob":-9999.0}]}]}}]})");
  ASSERT_TRUE(reply.first);
  EXPECT_EQ(reply.first->text, "K");
  EXPECT_FALSE(reply.first->logprob);
  EXPECT_TRUE(reply.first->top.empty());
  EXPECT_NE(reply.first->note.find("degenerate"), std::string::npos) << reply.first->note;
}

TEST(Logprobs, Row10TextsThatCouldBeSeveralTokensAreMarked) {
  const Reply map = read(
      R"({"choices":[{"logprobs":{"tokens":["K"],"token_logprobs":[-1],"top_logprobs":[{"K":-1,"K":-2,"\ufffd":-3,"":-4}]}}]})",
      4);
  ASSERT_TRUE(map.first);
  EXPECT_NE(map.first->note.find("equal texts share one key"), std::string::npos)
      << map.first->note;
  for (const TopToken& token : map.first->top) {
    EXPECT_EQ(token.text_is_exact, token.text == "K") << token.text;
  }
  const Reply list = read(
      R"({"logprobs":[{"token":"\ufffd","bytes":[228,189],"logprob":-1,"top_logprobs":[
      {"token":"\ufffd","bytes":[228,189],"logprob":-1},{"token":"a","logprob":-2},{"token":"a","logprob":-3}]}]})");
  EXPECT_EQ(list.first->text, "\xE4\xBD") << "bytes say what the text cannot";
  EXPECT_TRUE(list.first->text_is_exact);
  EXPECT_TRUE(list.first->top[0].text_is_exact);
  EXPECT_FALSE(list.first->top[1].text_is_exact) << "two tokens read 'a'";
  const Reply ids = read(
      R"({"choices":[{"logprobs":{"tokens":["token_id:7"],"token_logprobs":[-1],"top_logprobs":[{"token_id:7":-1,"token_id:x":-2}]}}]})");
  EXPECT_EQ(ids.first->id, 7);
  EXPECT_FALSE(ids.first->top[1].id);
}

}  // namespace
}  // namespace kvphase::endpoint
