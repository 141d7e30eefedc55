#include "guard/user_prompt.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"

namespace kvphase::guard {
namespace {

using ::testing::HasSubstr;

UserPrompt text(const std::string& content, const PromptOptions& options = {}) {
  return parse_user_prompt(content, false, "test", options);
}
UserPrompt json(const std::string& content, const PromptOptions& options = {}) {
  return parse_user_prompt(content, true, "test", options);
}
std::string at(const UserPrompt& prompt, std::int64_t offset, std::int64_t offsets = 3) {
  std::string all;
  for (const auto& message : fill(prompt, " x", fillers_at(prompt, offset, offsets))) {
    all += message.text();
  }
  return all;
}
std::string refused(const std::string& content, bool is_json, const PromptOptions& options = {}) {
  try {
    parse_user_prompt(content, is_json, "test", options);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    return error.what();
  }
  return "not refused";
}

TEST(UserPrompt, AnUnmarkedTextMovesWhole) {
  const UserPrompt prompt = text("if (x) { return; }");
  EXPECT_EQ(moved_by(prompt), Moves::kEverything);
  EXPECT_EQ(at(prompt, 0), "\nif (x) { return; }");
  EXPECT_EQ(at(prompt, 2), " x x\nif (x) { return; }");
}

TEST(UserPrompt, ASlotMovesTheFactAndWhatFollows) {
  const UserPrompt prompt = text("Rules.{filler} Code 7731. What is it?");
  EXPECT_EQ(moved_by(prompt), Moves::kFactAndRest);
  EXPECT_EQ(at(prompt, 0), "Rules. Code 7731. What is it?");
  EXPECT_EQ(at(prompt, 2), "Rules. x x Code 7731. What is it?");
}

TEST(UserPrompt, TwoSlotsMoveTheFactAlone) {
  const UserPrompt prompt = text("Rules.{filler_before} Code 7731.{filler_after}\nWhat is it?");
  EXPECT_EQ(moved_by(prompt), Moves::kFact);
  EXPECT_EQ(at(prompt, 0), "Rules. Code 7731. x x\nWhat is it?");
  EXPECT_EQ(at(prompt, 1), "Rules. x Code 7731. x\nWhat is it?");
  EXPECT_EQ(at(prompt, 2), "Rules. x x Code 7731.\nWhat is it?");
}

TEST(UserPrompt, AFactGivenByItsTextIsMarkedWithTheBlankInFrontOfIt) {
  const UserPrompt prompt = text("Rules. Code 7731. What is it?", {.fact = "Code 7731."});
  EXPECT_EQ(at(prompt, 1), "Rules. x Code 7731. x What is it?");
  const UserPrompt line = text("Rules.\nCode 7731\nWhat?", {.fact = "Code 7731"});
  EXPECT_EQ(at(line, 0), "Rules.\n Code 7731 x x\nWhat?");
  EXPECT_EQ(at(line, 2), "Rules.\n x x Code 7731\nWhat?");
}

TEST(UserPrompt, VersionsDifferInFillerAloneAndPiecesBeginWhereItDoes) {
  for (const UserPrompt& prompt :
       {text("A b c"), text("A{filler}b c"), text("A{filler_before}b{filler_after}c"),
        json(R"([{"role":"system","content":"S"},{"role":"user","content":"A{filler}b"}])")}) {
    const auto without = [&](std::int64_t offset) {
      std::string all = at(prompt, offset);
      for (std::size_t i = all.find(" x"); i != std::string::npos; i = all.find(" x")) {
        all.erase(i, 2);
      }
      return all;
    };
    for (std::int64_t offset = 0; offset < 3; ++offset) {
      EXPECT_EQ(without(offset), without(0));
      const Fillers fillers = fillers_at(prompt, offset, 3);
      for (const auto& message : fill(prompt, " x", fillers)) {
        for (const std::string& piece : message.pieces) {
          EXPECT_TRUE(piece.find(" x") == std::string::npos || piece.starts_with(" x")) << piece;
        }
      }
    }
  }
}

TEST(UserPrompt, AChatKeepsItsRolesAndItsOptions) {
  const UserPrompt prompt = json(R"({"messages": [{"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Code {filler}7731?"}]}],
      "max_tokens": 9, "temperature": 0, "stop": "\n"})");
  EXPECT_EQ(prompt.kind, PromptKind::kChat);
  EXPECT_EQ(prompt.max_tokens, 9);
  EXPECT_EQ(prompt.temperature, 0.0);
  const auto filled = fill(prompt, " x", {.before = 1});
  ASSERT_EQ(filled.size(), 2U);
  EXPECT_EQ(filled[0].role, "system");
  EXPECT_EQ(filled[0].text(), "Be brief.");
  EXPECT_EQ(filled[1].text(), "Code  x 7731?");
  // Unmarked: the filler stands in front of the first message.
  const UserPrompt plain =
      json(R"([{"role":"system","content":"S"},{"role":"user","content":"U"}])");
  EXPECT_EQ(fill(plain, " x", {.before = 1})[0].text(), " x\nS");
  EXPECT_EQ(fill(plain, " x", {.before = 1})[1].text(), "U");
}

TEST(UserPrompt, ATemplatesItemIsFilledInWithItsHaystack) {
  const std::string file =
      R"({"prompt": "Go.{filler_before} Code {needle}.{filler_after} {question}",
      "items": [{"needle": "11", "question": "Which?", "answer": "11"},
                {"needle": "22", "question": "What?", "answer": "22"}],
      "filler": ["y"], "haystack": 10, "depth": 0.3, "max_tokens": 5})";
  const UserPrompt prompt = json(file, {.item = 1});
  EXPECT_EQ(prompt.kind, PromptKind::kTemplate);
  EXPECT_EQ(prompt.expected, "22");
  EXPECT_EQ(prompt.max_tokens, 5);
  EXPECT_EQ(at(prompt, 1), "Go. y y y x Code 22. x y y y y y y y What?");
  EXPECT_THAT(refused(file, true, {.item = 2}), HasSubstr("--item 0 to 1"));
}

TEST(UserPrompt, BadPromptsAreRefusedWithWhatWasExpected) {
  EXPECT_THAT(refused(" \n", false), HasSubstr("empty"));
  EXPECT_THAT(refused("caf\xe9", false), HasSubstr("UTF-8"));
  EXPECT_THAT(refused("a {filler} b {filler_before}", false), HasSubstr("once"));
  EXPECT_THAT(refused("a {filler_after} b", false), HasSubstr("in front of {filler_after}"));
  EXPECT_THAT(refused("a {filler_after} b {filler}", false), HasSubstr("behind"));
  EXPECT_THAT(refused("a b", false, {.fact = "c"}), HasSubstr("0 times"));
  EXPECT_THAT(refused("a a", false, {.fact = "a"}), HasSubstr("2 times"));
  EXPECT_THAT(refused("a {filler} b", false, {.fact = "b"}), HasSubstr("both"));
  EXPECT_THAT(refused("{", true), HasSubstr("JSON"));
  EXPECT_THAT(refused("{}", true), HasSubstr("neither"));
  EXPECT_THAT(refused("[]", true), HasSubstr("empty"));
  EXPECT_THAT(refused("7", true), HasSubstr("number"));
  EXPECT_THAT(refused(R"([{"role":"user"}])", true), HasSubstr("content"));
  EXPECT_THAT(refused(R"([{"role":"user","content":7}])", true), HasSubstr("text"));
  EXPECT_THAT(refused(R"([{"role":"user","content":[{"type":"image_url"}]}])", true),
              HasSubstr("parts"));
  EXPECT_THAT(refused(R"({"messages":[{"role":"user","content":"a"}],"max_token":3})", true),
              HasSubstr("max_tokens"));
  EXPECT_THAT(refused(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":0})", true),
              HasSubstr("at least 1"));
}

}  // namespace
}  // namespace kvphase::guard
