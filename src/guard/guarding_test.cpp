#include "guard/guarding.h"

#include <gmock/gmock.h>

#include <functional>

#include "base/json.h"

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

VersionReply failed(int status) { return {.status = status, .body = "{}"}; }

// Each reply's version is its place.
std::vector<VersionReply> in_order(std::vector<VersionReply> replies) {
  for (std::size_t i = 0; i < replies.size(); ++i) {
    replies[i].version = static_cast<std::int64_t>(i);
  }
  return replies;
}

TEST(Guarding, OneAnswerAgreesAndTheReplyIsThePromptsAsItCame) {
  const auto replies = in_order(
      {chat("K-7731.", 10), chat(" K-7731", 11), chat("`K-7731`", 12), chat("K-7731", 13)});
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
  const auto replies =
      in_order({chat("K-7781", 10), chat("K-7731", 11), chat("K-7731", 12), chat("K-7731", 14)});
  const Guarded report = judge(replies, 4, Policy::kReport);
  EXPECT_EQ(report.verdict, "disagree");
  EXPECT_EQ(report.answered_by, 0);
  EXPECT_FALSE(report.positions_verified) << "the last moved by two";
  EXPECT_THAT(report.votes.differ, ElementsAre(0));
  const Json said = Json::parse(report.body)["kvphase_guard"];
  EXPECT_EQ(said["verdict"], "disagree");
  EXPECT_EQ(said["answers"][1]["disputed"], "K-77[8]1");
  const Guarded majority = judge(replies, 4, Policy::kMajority);
  EXPECT_EQ(majority.answered_by, 1);
  EXPECT_EQ(Json::parse(majority.body)["choices"][0]["message"]["content"], "K-7731");
  const Guarded refused = judge(replies, 4, Policy::kRefuse);
  EXPECT_EQ(refused.outcome, Outcome::kRefused);
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(refused.answered_by, std::nullopt);
  EXPECT_TRUE(Json::parse(refused.body)["kvphase_guard"]["answered_by_offset"].is_null());
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "disagree");
  EXPECT_THAT(refused.body, ::testing::Not(HasSubstr("choices")));
}

TEST(Guarding, OfEquallyFrequentAnswersThePromptsAsItCameIsGiven) {
  const auto replies = in_order({chat("b", 1), chat("a", 2), chat("a", 3), chat("b", 4)});
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).answered_by, 0);
}

TEST(Guarding, AMissingVersionIsNoAgreement) {
  const auto replies = in_order({chat("a", 1), failed(500), chat("a", 3), chat("a", 4)});
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).verdict, "incomplete");
  EXPECT_EQ(judge(replies, 4, Policy::kMajority).status, 200);
  EXPECT_EQ(judge(replies, 4, Policy::kRefuse).outcome, Outcome::kRefused);
}

TEST(Guarding, TheVersionThatClosesTheRowMayFailTooAndIsNotAgreedTo) {
  // The line break is no token, and version 4, which alone stands at offset 3, fails.
  const auto replies =
      in_order({chat("a", 10), chat("a", 10), chat("a", 11), chat("a", 12), failed(500)});
  const Guarded g = judge(replies, 4, Policy::kRefuse);
  EXPECT_EQ(g.verdict, "incomplete");
  EXPECT_EQ(g.status, 422);
  EXPECT_FALSE(g.positions_verified);
  EXPECT_THAT(g.votes.unanswered, ElementsAre(3));
  const Json said = Json::parse(g.body)["kvphase_guard"];
  EXPECT_EQ(said["unanswered_offsets"], Json({3}));
  EXPECT_EQ(said["answers"][0]["offsets"], Json({0, 1, 2}));
  EXPECT_THAT(g.headers, ::testing::Contains(std::pair<std::string, std::string>(
                             "X-Kvphase-Guard-Replies", "3/4")));
}

TEST(Guarding, AnOffsetThatWasAskedTwiceHasOneVote) {
  // Votes b, b, a, a, a; replies b, b, b, a, a, a.
  const auto replies = in_order(
      {chat("b", 10), chat("b", 10), chat("b", 11), chat("a", 12), chat("a", 13), chat("a", 14)});
  const Guarded g = judge(replies, 5, Policy::kMajority);
  EXPECT_EQ(g.answered_by, 2);
  EXPECT_THAT(g.votes.differ, ElementsAre(0, 1));
  EXPECT_TRUE(g.positions_verified);
  // 2:2, and the prompt's as it came is given, not because it was asked twice.
  EXPECT_EQ(
      judge(in_order({chat("b", 10), chat("b", 10), chat("a", 11), chat("a", 12), chat("b", 13)}),
            4, Policy::kMajority)
          .headers[1]
          .second,
      "2/4");
  // Another answer of the second version is no vote, but no agreement either.
  const Guarded odd =
      judge(in_order({chat("a", 10), chat("b", 10), chat("a", 11), chat("a", 12), chat("a", 13)}),
            4, Policy::kRefuse);
  EXPECT_EQ(odd.verdict, "disagree");
  EXPECT_EQ(odd.status, 422);
  EXPECT_THAT(odd.votes.differ, ::testing::IsEmpty());
}

TEST(Guarding, RepeatsTellAnAnswerThatFollowsTheOffsetFromARandomOne) {
  const auto repeated = [](const std::function<std::string(int offset, int repeat)>& model) {
    std::vector<VersionReply> replies;
    for (int repeat = 0; repeat < 4; ++repeat) {
      for (int offset = 0; offset < 4; ++offset) {
        replies.push_back(chat(model(offset, repeat), 10 + offset));
        replies.back().version = offset;
      }
    }
    return replies;
  };
  const auto weak = repeated([](int offset, int) { return offset == 2 ? "b" : "a"; });
  Json said = Json::parse(judge(weak, 4, Policy::kReport).body)["kvphase_guard"];
  EXPECT_EQ(said["cause"], "depends_on_offset") << said.dump();
  EXPECT_NEAR(said["p"].get<double>(), 4.0 / 1820, 1e-9);
  EXPECT_EQ(said["replies"], 16);
  const auto random =
      repeated([](int offset, int repeat) { return (offset + repeat) % 4 == 0 ? "b" : "a"; });
  said = Json::parse(judge(random, 4, Policy::kReport).body)["kvphase_guard"];
  EXPECT_EQ(said["cause"], "random") << said.dump();
  EXPECT_EQ(said["unsteady_offsets"], Json({0, 1, 2, 3}));
  EXPECT_EQ(said["differing_offsets"], Json::array());
  const std::vector<VersionReply> once(weak.begin(), weak.begin() + 4);
  said = Json::parse(judge(once, 4, Policy::kReport).body)["kvphase_guard"];
  EXPECT_EQ(said["cause"], "undecided") << "one reply per offset cannot tell";
  EXPECT_TRUE(said["p"].is_null());
}

TEST(Guarding, WithoutAnyAnswerTheUpstreamsOwnErrorIsGiven) {
  const auto replies = in_order(
      std::vector<VersionReply>(3, {.status = 401, .body = R"({"error":{"message":"bad key"}})"}));
  for (const Policy policy : {Policy::kReport, Policy::kRefuse}) {
    const Guarded g = judge(replies, std::ssize(replies), policy);
    EXPECT_EQ(g.status, 401);
    EXPECT_THAT(g.body, HasSubstr("bad key"));
    EXPECT_EQ(g.outcome, Outcome::kUpstreamError);
    EXPECT_EQ(g.passed_on, 0U);
    EXPECT_EQ(judge(in_order(std::vector<VersionReply>(2)), 2, policy).outcome, Outcome::kNoReply);
  }
}

TEST(Guarding, RepliesWithoutATextAreNoAgreementAndRefused) {
  const std::string null_content =
      R"({"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"r"},"finish_reason":"length"}]})";
  for (const std::string& body : {null_content, std::string("<html>busy</html>")}) {
    const auto replies = in_order(std::vector<VersionReply>(4, {.status = 200, .body = body}));
    const Guarded refused = judge(replies, 4, Policy::kRefuse);
    EXPECT_EQ(refused.status, 422) << body;
    EXPECT_EQ(refused.verdict, "incomplete");
    EXPECT_EQ(Json::parse(refused.body)["kvphase_guard"]["unanswered_offsets"].size(), 4U);
    const Guarded report = judge(replies, 4, Policy::kReport);
    EXPECT_EQ(report.status, 200);
    EXPECT_EQ(report.verdict, "incomplete");
    EXPECT_EQ(report.answered_by, std::nullopt);
    const std::string events = as_events(report.body, true);
    EXPECT_TRUE(events.ends_with("data: [DONE]\n\n")) << events;
    if (body == null_content) {
      EXPECT_EQ(Json::parse(report.body)["kvphase_guard"]["verdict"], "incomplete");
      EXPECT_THAT(events, HasSubstr(R"("reasoning_content":"r")"));
    } else {
      EXPECT_EQ(report.body, body);
      EXPECT_THAT(events, HasSubstr(R"("code":"no_completion")"));
    }
  }
}

TEST(Guarding, EventsHoldTheWholeAnswerAndItsEnd) {
  const Guarded g = judge(in_order({chat("a b", 1), chat("a b", 2)}), 2, Policy::kReport);
  const std::string events = as_events(g.body, true);
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  const Json first = Json::parse(events.substr(6, events.find("\n\n") - 6));
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["content"], "a b");
}

}  // namespace
}  // namespace kvphase::guard
