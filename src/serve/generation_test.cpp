#include "serve/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/scripted_model.h"

namespace kvphase::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> texts(const std::vector<Piece>& pieces) {
  std::vector<std::string> result;
  for (const Piece& piece : pieces) result.push_back(piece.text);
  return result;
}

struct Continuation {
  std::vector<std::string> texts;
  GenerationOutcome outcome;
};

Continuation run(std::int64_t max_tokens, const std::vector<std::string>& stops) {
  ScriptedModel model;
  Continuation result;
  result.outcome = generate_pieces(model, {.prompt = {1, 2}, .max_tokens = max_tokens}, stops,
                                   [&](const Piece& piece) {
                                     result.texts.push_back(piece.text);
                                     return true;
                                   });
  return result;
}

TEST(Generation, PiecesTogetherAreTheText) {  // 1 2 -> 3 6 2 4
  const Continuation four = run(4, {});
  EXPECT_THAT(four.texts, ElementsAre("w3", " w6", " w2", " w4"));
  EXPECT_EQ(four.outcome.reason, FinishReason::kLength);
  EXPECT_EQ(four.outcome.tokens, 4);
}

TEST(Generation, NoTokensAskTheModelNothing) {
  EXPECT_THAT(run(0, {}).texts, IsEmpty());
  EXPECT_EQ(run(0, {}).outcome.reason, FinishReason::kLength);
}

TEST(Generation, AStopTextEndsTheTextBeforeIt) {
  const Continuation one = run(4, {"w2"});
  EXPECT_THAT(one.texts, ElementsAre("w3", " w6", " "));
  EXPECT_EQ(one.outcome.reason, FinishReason::kStop);
  EXPECT_EQ(one.outcome.tokens, 3);
  EXPECT_THAT(run(4, {"w9", "6 w"}).texts, ElementsAre("w3", " w"));
  EXPECT_THAT(run(4, {"w3"}).texts, IsEmpty());
}

TEST(Generation, TextHeldForAStopThatNeverComesIsGivenAtTheEnd) {
  const Continuation held = run(4, {"w4 w9"});
  EXPECT_THAT(held.texts, ElementsAre("w3", " w6", " w2", " w4"));
  EXPECT_EQ(held.outcome.reason, FinishReason::kLength);
}

TEST(Generation, TheReaderCanAbort) {
  ScriptedModel model;
  const auto outcome = generate_pieces(model, {.prompt = {1}, .max_tokens = 5}, {},
                                       [](const Piece&) { return false; });
  EXPECT_EQ(outcome.reason, FinishReason::kAborted);
  EXPECT_EQ(outcome.tokens, 1);
}

TEST(StopFilter, HoldsWholePiecesOnly) {
  StopFilter filter({"abc"});
  EXPECT_THAT(texts(filter.push({.text = "xa"})), IsEmpty());
  EXPECT_THAT(texts(filter.push({.text = "b"})), IsEmpty());
  EXPECT_THAT(texts(filter.push({.text = "xy"})), ElementsAre("xa", "b", "xy"));
  EXPECT_THAT(texts(filter.push({.text = "yab"})), IsEmpty());
  EXPECT_THAT(texts(filter.push({.text = "c"})), ElementsAre("y"));
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, TheEarliestOfSeveralStopsWins) {
  StopFilter filter({"cd", "bc"});
  EXPECT_THAT(texts(filter.push({.text = "abcd"})), ElementsAre("a"));
  EXPECT_TRUE(filter.stopped());
}

}  // namespace
}  // namespace kvphase::serve
