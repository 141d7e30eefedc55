#include "guard/guarding.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace kvphase::guard {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

VersionReply chat(const std::string& text, std::int64_t prompt_tokens) {
  const Json body = {{"id", "x"},
                     {"object", "chat.completion"},
                     {"choices",
                      {{{"index", 0},
                        {"message", {{"role", "assistant"}, {"content", text}}},
                        {"finish_reason", "stop"}}}},
                     {"usage", {{"prompt_tokens", prompt_tokens}, {"completion_tokens", 3}}}};
  return {.status = 200, .body = body.dump()};
}

TEST(Guarding, AWishIsReadFromTheHeaderAndBadOnesAreNamed) {
  const GuardOptions options{.offsets = 4, .policy = Policy::kReport};
  EXPECT_FALSE(read_wish("off", options).guarded);
  EXPECT_EQ(read_wish("on", options).offsets, 4);
  EXPECT_EQ(read_wish(" 8 , majority", options).offsets, 8);
  EXPECT_EQ(read_wish("8,majority", options).policy, Policy::kMajority);
  EXPECT_EQ(read_wish("refuse", options).policy, Policy::kRefuse);
  for (const char* bad : {"1", "17", "majorty", "8x", "-4"}) {
    EXPECT_THROW(read_wish(bad, options), base::Error) << bad;
  }
}

TEST(Guarding, VersionsMoveTheFirstMessageAndChangeNothingElse) {
  const Versions versions = make_versions(
      "/v1/chat/completions",
      R"({"model":"m:guard","messages":[{"role":"system","content":"S"},{"role":"user","content":"U"}],)"
      R"("stream":true,"stream_options":{"include_usage":true},"top_p":0.5})",
      3, {.filler = "x"});
  ASSERT_EQ(versions.bodies.size(), 4U) << versions.skipped;
  EXPECT_TRUE(versions.stream);
  const char* firsts[] = {"S", "\nS", " x\nS"};
  for (std::size_t o = 0; o < 3; ++o) {
    const Json body = Json::parse(versions.bodies[o]);
    EXPECT_EQ(body["messages"][0]["content"], firsts[o]);
    EXPECT_EQ(body["messages"][1]["content"], "U");
    EXPECT_EQ(body["model"], "m");
    EXPECT_EQ(body["temperature"], 0);
    EXPECT_EQ(body["top_p"], 0.5);
    EXPECT_FALSE(body.contains("stream") || body.contains("stream_options"));
  }
  EXPECT_EQ(Json::parse(make_versions("/v1/completions", R"({"prompt":"P","temperature":0.7})", 2,
                                      {.filler = "x"})
                            .bodies[1])["temperature"],
            0.7);
}

TEST(Guarding, WhatCannotBeGuardedSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[]})", "no messages"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "no text"},
      {R"({"messages":[{"role":"user","content":"a"}],"n":2})", "more than one"},
      {R"({"messages":[{"role":"user","content":"a"}],"tools":[{}]})", "tools"},
      {R"([1])", "no JSON object"},
      {R"({)", "no JSON object"}};
  for (const auto& [body, why] : cases) {
    const Versions versions = make_versions("/v1/chat/completions", body, 4, {});
    EXPECT_THAT(versions.skipped, HasSubstr(why)) << body;
    EXPECT_TRUE(versions.bodies.empty());
  }
  EXPECT_THAT(make_versions("/v1/completions", R"({"prompt":[1,2]})", 4, {}).skipped,
              HasSubstr("no text"));
  EXPECT_FALSE(make_versions("/v1/embeddings", "{}", 4, {}).skipped.empty());
}

TEST(Guarding, TheSuffixIsTheModelsOnly) {
  EXPECT_TRUE(takes_suffix(R"({"model": "m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"model": "m", "prompt": "say m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"prompt": "m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"model": "m:guard")", {}));
}

TEST(Guarding, OneAnswerAgreesAndTheReplyIsThePromptsAsItCame) {
  const std::vector<VersionReply> replies = {chat("K-7731.", 10), chat(" K-7731", 11),
                                             chat("`K-7731`", 12), chat("K-7731", 13)};
  for (const Policy policy : {Policy::kReport, Policy::kMajority, Policy::kRefuse}) {
    const Guarded g = judge(replies, std::ssize(replies), policy);
    EXPECT_EQ(g.verdict, "agree");
    EXPECT_EQ(g.status, 200);
    EXPECT_TRUE(g.positions_verified);
    EXPECT_EQ(Json::parse(g.body)["choices"][0]["message"]["content"], "K-7731.");
    EXPECT_EQ(g.extra_prompt_tokens, 36);
    EXPECT_EQ(g.extra_completion_tokens, 9);
  }
}

TEST(Guarding, PoliciesDifferWhereThePromptAsItCameIsTheOddOne) {
  const std::vector<VersionReply> replies = {chat("K-7781", 10), chat("K-7731", 11),
                                             chat("K-7731", 12), chat("K-7731", 14)};
  const Guarded report = judge(replies, 4, Policy::kReport);
  EXPECT_EQ(report.verdict, "disagree");
  EXPECT_EQ(report.answered_by, 0);
  EXPECT_FALSE(report.positions_verified) << "the last moved by two";
  EXPECT_THAT(report.agreement.differ, ElementsAre(0));
  const Json said = Json::parse(report.body)["kvphase_guard"];
  EXPECT_EQ(said["verdict"], "disagree");
  EXPECT_EQ(said["answers"][1]["disputed"], "K-77[8]1");
  const Guarded majority = judge(replies, 4, Policy::kMajority);
  EXPECT_EQ(majority.answered_by, 1);
  EXPECT_EQ(Json::parse(majority.body)["choices"][0]["message"]["content"], "K-7731");
  const Guarded refused = judge(replies, 4, Policy::kRefuse);
  EXPECT_TRUE(refused.refused);
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "disagree");
  EXPECT_THAT(refused.body, ::testing::Not(HasSubstr("choices")));
}

TEST(Guarding, OfEquallyFrequentAnswersThePromptsAsItCameIsGiven) {
  const std::vector<VersionReply> replies = {chat("b", 1), chat("a", 2), chat("a", 3),
                                             chat("b", 4)};
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).answered_by, 0);
}

TEST(Guarding, CountsSayWhichOffsetAVersionStandsAt) {
  // The line break is no token: two replies at offset 0, and the fifth version closes the row.
  std::vector<VersionReply> replies = {chat("a", 10), chat("a", 10), chat("b", 11), chat("a", 12)};
  EXPECT_TRUE(line_break_is_free(replies));
  EXPECT_FALSE(judge(replies, 4, Policy::kReport).positions_verified);
  replies.push_back(chat("a", 13));
  const Guarded g = judge(replies, 4, Policy::kReport);
  EXPECT_TRUE(g.positions_verified);
  EXPECT_THAT(g.agreement.differ, ElementsAre(1));
  EXPECT_EQ(g.agreement.offsets[0].answered, 2);
  EXPECT_FALSE(line_break_is_free(std::vector<VersionReply>{chat("a", 1), chat("a", 2)}));
  EXPECT_FALSE(line_break_is_free(std::vector<VersionReply>{chat("a", 1), {.status = 500}}));
}

TEST(Guarding, AMissingVersionIsNoAgreement) {
  const std::vector<VersionReply> replies = {
      chat("a", 1), {.status = 500, .body = "{}"}, chat("a", 3), chat("a", 4)};
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).verdict, "incomplete");
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).status, 200);
  EXPECT_TRUE(judge(replies, 4, Policy::kRefuse).refused);
}

TEST(Guarding, WithoutAnyAnswerTheUpstreamsOwnWordsAreGiven) {
  const std::vector<VersionReply> replies(
      3, {.status = 401, .body = R"({"error":{"message":"bad key"}})"});
  for (const Policy policy : {Policy::kReport, Policy::kRefuse}) {
    const Guarded g = judge(replies, std::ssize(replies), policy);
    EXPECT_EQ(g.status, 401);
    EXPECT_THAT(g.body, HasSubstr("bad key"));
    EXPECT_FALSE(g.refused);
  }
  EXPECT_EQ(judge(std::vector<VersionReply>(2), 2, Policy::kReport).status, 502);
}

TEST(Guarding, EventsHoldTheWholeAnswerAndItsEnd) {
  const Guarded g =
      judge(std::vector<VersionReply>{chat("a b", 1), chat("a b", 2)}, 2, Policy::kReport);
  const std::string events = as_events(g.body, true);
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  const Json first = Json::parse(events.substr(6, events.find("\n\n") - 6));
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["content"], "a b");
}

}  // namespace
}  // namespace kvphase::guard
