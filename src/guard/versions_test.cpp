#include "guard/versions.h"

#include <gmock/gmock.h>

#include "base/json.h"

namespace kvphase::guard {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kNone = -1;

VersionReply counted(std::int64_t version, std::int64_t prompt_tokens) {
  Json body = {{"choices", {{{"text", "a"}}}}};
  if (prompt_tokens != kNone) body["usage"] = {{"prompt_tokens", prompt_tokens}};
  return {.version = version, .status = 200, .body = body.dump()};
}

VersionReply failed(std::int64_t version) { return {.version = version, .status = 500}; }

TEST(Versions, VersionsMoveTheFirstMessageAndChangeNothingElse) {
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

TEST(Versions, WhatCannotBeGuardedSaysWhy) {
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

TEST(Versions, TheSuffixIsTheModelsOnly) {
  EXPECT_TRUE(takes_suffix(R"({"model": "m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"model": "m", "prompt": "say m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"prompt": "m:guard"})", {}));
  EXPECT_FALSE(takes_suffix(R"({"model": "m:guard")", {}));
  EXPECT_EQ(without_suffix(R"({"model": "m:guard", "top_p": 0.5})", {}),
            R"({"model":"m","top_p":0.5})");
  EXPECT_EQ(without_suffix(R"({"model": "m"})", {}), R"({"model": "m"})");
}

TEST(Versions, CountsSayWhichOffsetEachStandsAt) {
  const std::vector<VersionReply> token = {counted(0, 10), counted(1, 11), counted(2, 12),
                                           counted(3, 13)};
  EXPECT_THAT(offsets_of(token, 4).of, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(offsets_of(token, 4).verified);
  EXPECT_EQ(missing_version(token, 4), std::nullopt);
  std::vector<VersionReply> free = {counted(0, 10), counted(1, 10), counted(2, 11), counted(3, 12)};
  EXPECT_FALSE(offsets_of(free, 4).verified);
  EXPECT_EQ(missing_version(free, 4), 4);
  free.push_back(counted(4, 13));
  EXPECT_THAT(offsets_of(free, 4).of, ElementsAre(0, 0, 1, 2, 3));
  EXPECT_TRUE(offsets_of(free, 4).verified);
  EXPECT_EQ(missing_version(free, 4), std::nullopt);
}

TEST(Versions, AReplyThatIsMissingStandsWhereItsVersionDoesByTheOthersCounts) {
  for (std::int64_t lost = 1; lost < 5; ++lost) {
    std::vector<VersionReply> replies = {counted(0, 10), counted(1, 10), counted(2, 11),
                                         counted(3, 12), counted(4, 13)};
    replies[static_cast<std::size_t>(lost)] = failed(lost);
    const Offsets offsets = offsets_of(replies, 4);
    EXPECT_THAT(offsets.of, ElementsAre(0, 0, 1, 2, 3)) << lost;
    EXPECT_EQ(offsets.verified, lost == 1) << lost;
  }
  // The first round already lost one: the line break is seen to be none all the same.
  EXPECT_EQ(
      missing_version(std::vector{counted(0, 10), counted(1, 10), failed(2), counted(3, 12)}, 4),
      4);
}

TEST(Versions, ALineBreakThatIsATokenAfterAllAsksForTheVersionThatWasLeftOut) {
  std::vector<VersionReply> replies = {counted(0, 10), counted(2, 12), counted(3, 13),
                                       counted(4, 14)};
  EXPECT_EQ(missing_version(replies, 4), 1);
  replies.push_back(counted(1, 11));
  EXPECT_THAT(offsets_of(replies, 4).of, ElementsAre(0, 2, 3, -1, 1));
  EXPECT_TRUE(offsets_of(replies, 4).verified);
}

TEST(Versions, CountsThatFitNeitherLeaveTheOrderAskedAndNothingProven) {
  const std::vector<VersionReply> two_tokens = {counted(0, 10), counted(1, 11), counted(2, 13),
                                                counted(3, 15)};
  EXPECT_THAT(offsets_of(two_tokens, 4).of, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(offsets_of(two_tokens, 4).verified);
  EXPECT_EQ(missing_version(two_tokens, 4), std::nullopt);
  const std::vector<VersionReply> none = {counted(0, kNone), counted(2, kNone), counted(3, kNone),
                                          counted(4, kNone)};
  EXPECT_THAT(offsets_of(none, 4).of, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(offsets_of(none, 4).verified);
  EXPECT_EQ(missing_version(std::vector{counted(0, 5), failed(1), failed(2), failed(3)}, 4),
            std::nullopt);
}

}  // namespace
}  // namespace kvphase::guard
