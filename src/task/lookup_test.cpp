#include "task/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace kvphase::task {
namespace {

LookupOptions small(Padding padding) {
  return {.language = {.haystack = 30, .records = 5, .queries = 5},
          .demonstrations = 3,
          .padding = padding,
          .modulus = 8,
          .items = 16,
          .seed = 3};
}

// Records in list order, read back from a prompt's tokens.
std::vector<std::pair<lm::TokenId, lm::TokenId>> records_of(const Prompt& prompt,
                                                            const LookupLanguage& language) {
  std::vector<std::pair<lm::TokenId, lm::TokenId>> records;
  for (std::size_t i = 0; i < static_cast<std::size_t>(language.haystack); ++i) {
    if (language.meaning(prompt.request.prompt[i]).kind == TokenKind::kKey) {
      records.emplace_back(prompt.request.prompt[i], prompt.request.prompt[i + 1]);
    }
  }
  return records;
}

std::vector<lm::TokenId> fillers_of(const Prompt& prompt, const LookupLanguage& language) {
  std::vector<lm::TokenId> fillers;
  for (const lm::TokenId token : prompt.request.prompt) {
    if (language.meaning(token).kind == TokenKind::kFiller) fillers.push_back(token);
  }
  return fillers;
}

class LookupPadding : public ::testing::TestWithParam<Padding> {};

TEST_P(LookupPadding, TargetSitsAtItsPositionAndIsAskedAtTheEnd) {
  const LookupOptions options = small(GetParam());
  const LookupTask task(options);
  for (std::int64_t item = 0; item < task.items(); ++item) {
    for (std::int64_t residue = 0; residue < 8; ++residue) {
      const Prompt prompt = task.prompt(item, residue);
      const auto& tokens = prompt.request.prompt;
      const auto target = static_cast<std::size_t>(prompt.target_position);
      ASSERT_EQ(prompt.target_position % 8, residue);
      ASSERT_EQ(static_cast<std::int64_t>(tokens.size()), prompt_length(options));
      ASSERT_EQ(prompt.query_position, static_cast<std::int64_t>(tokens.size()) - 1);
      ASSERT_EQ(tokens[target], tokens.back());
      ASSERT_EQ(tokens[target + 1], prompt.request.target);
      ASSERT_EQ(std::count(tokens.begin(), tokens.end(), tokens.back()), 2);
    }
  }
}

TEST_P(LookupPadding, OnlyThePlacesOfRecordsDifferWithinAnItem) {
  const LookupOptions options = small(GetParam());
  const LookupTask task(options);
  for (std::int64_t item = 0; item < task.items(); ++item) {
    const Prompt first = task.prompt(item, 0);
    for (std::int64_t residue = 1; residue < 8; ++residue) {
      const Prompt other = task.prompt(item, residue);
      EXPECT_EQ(records_of(other, options.language), records_of(first, options.language));
      EXPECT_EQ(fillers_of(other, options.language), fillers_of(first, options.language));
      EXPECT_TRUE(std::equal(first.request.prompt.begin() + options.language.haystack,
                             first.request.prompt.end(),
                             other.request.prompt.begin() + options.language.haystack));
      EXPECT_EQ(other.query_position, first.query_position);
    }
  }
}

TEST_P(LookupPadding, TheSamePromptComesBackWhateverElseIsAsked) {
  const LookupTask task(small(GetParam()));
  const LookupTask again(small(GetParam()));
  for (std::int64_t item = 15; item >= 0; --item) again.prompt(item, 7);
  EXPECT_EQ(task.prompt(5, 2).request.prompt, again.prompt(5, 2).request.prompt);
  EXPECT_NE(task.prompt(5, 2).request.prompt, task.prompt(6, 2).request.prompt);
  LookupOptions another = small(GetParam());
  another.seed = 4;
  EXPECT_NE(task.prompt(5, 2).request.prompt, LookupTask(another).prompt(5, 2).request.prompt);
}

INSTANTIATE_TEST_SUITE_P(Every, LookupPadding,
                         ::testing::Values(Padding::kPrefix, Padding::kInSequence,
                                           Padding::kAroundTarget));

TEST(Lookup, APaddingIsSaidByItsName) {
  for (const std::string& name : padding_names()) EXPECT_EQ(name_of(padding_from_name(name)), name);
  EXPECT_EQ(padding_names().size(), 3U);
  EXPECT_THROW(padding_from_name("around"), base::Error);
}

// Distances from the target to the other records of a prompt.
std::vector<std::int64_t> distances(const Prompt& prompt, const LookupLanguage& language) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < language.haystack; ++i) {
    const auto token = prompt.request.prompt[static_cast<std::size_t>(i)];
    if (language.meaning(token).kind == TokenKind::kKey) {
      result.push_back(i - prompt.target_position);
    }
  }
  return result;
}

TEST(Lookup, PrefixPaddingMovesTheListAsOne) {
  const LookupOptions options = small(Padding::kPrefix);
  const LookupTask task(options);
  for (std::int64_t residue = 1; residue < 8; ++residue) {
    EXPECT_EQ(distances(task.prompt(2, residue), options.language),
              distances(task.prompt(2, 0), options.language));
  }
}

TEST(Lookup, InSequencePaddingMovesTheOtherRecordsByThemselves) {
  const LookupOptions options = small(Padding::kInSequence);
  const LookupTask task(options);
  std::set<std::vector<std::int64_t>> layouts;
  for (std::int64_t residue = 0; residue < 8; ++residue) {
    layouts.insert(distances(task.prompt(2, residue), options.language));
  }
  EXPECT_GE(layouts.size(), 6U);
}

TEST(Lookup, PaddingAroundTheTargetMovesNothingElse) {
  const LookupOptions options = small(Padding::kAroundTarget);
  const LookupTask task(options);
  const auto others = [&](const Prompt& prompt) {
    std::vector<std::int64_t> places = distances(prompt, options.language);
    std::erase(places, 0);
    for (std::int64_t& place : places) place += prompt.target_position;
    return places;
  };
  for (std::int64_t item = 0; item < task.items(); ++item) {
    for (std::int64_t residue = 1; residue < 8; ++residue) {
      EXPECT_EQ(others(task.prompt(item, residue)), others(task.prompt(item, 0)));
    }
  }
}

TEST(Lookup, HoldsThePapersSizes) {
  LookupOptions options;
  options.language = {.haystack = 160, .records = 64, .queries = 9};
  options.items = 30;
  const LookupTask task(options);
  EXPECT_EQ(task.items(), 48);  // rounded up to a multiple of 24
  const Prompt prompt = task.prompt(0, 23);
  EXPECT_EQ(records_of(prompt, options.language).size(), 64U);
  EXPECT_EQ(prompt.other_answers.size(), 63U);
}

std::string message_of(const LookupOptions& options) {
  try {
    const LookupTask task(options);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Lookup, RefusesSizesThatCannotBeBalanced) {
  LookupOptions options = small(Padding::kPrefix);
  options.modulus = 24;
  EXPECT_NE(message_of(options).find("at least 71 tokens"), std::string::npos);
  options = small(Padding::kPrefix);
  options.demonstrations = 5;
  EXPECT_NE(message_of(options).find("--demonstrations"), std::string::npos);
  options = small(Padding::kPrefix);
  options.language.records = 12;
  EXPECT_NE(message_of(options).find("at most 11 records"), std::string::npos);
  options = small(Padding::kPrefix);
  options.items = 0;
  EXPECT_NE(message_of(options).find("expected 1 to"), std::string::npos);
  options = small(Padding::kPrefix);
  options.modulus = 1;
  EXPECT_NE(message_of(options).find("modulus"), std::string::npos);
}

TEST(LookupTask, NamesTokensOutsideItsLanguageByTheirIds) {
  const LookupTask task{LookupOptions{}};
  EXPECT_EQ(task.token_name(0), "|");
  EXPECT_EQ(task.token_name(static_cast<lm::TokenId>(LookupLanguage{}.vocab_size() - 1)), "v63");
  EXPECT_EQ(task.token_name(150'000), "#150000");
  EXPECT_EQ(task.token_name(-1), "#-1");
}

}  // namespace
}  // namespace kvphase::task
