#include "task/lookup_language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace kvphase::task {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(LookupLanguage, NamesEveryTokenOnceAndFindsItAgain) {
  const LookupLanguage language{.fillers = 3, .keys = 12, .values = 5, .haystack = 24};
  std::set<std::string> names;
  for (lm::TokenId token = 0; token < language.vocab_size(); ++token) {
    const std::string name = language.token_name(token);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(language.token_from_name(name), token) << name;
  }
  EXPECT_EQ(language.token_name(0), "|");
  EXPECT_EQ(language.token_name(language.filler(0)), "f0");
  EXPECT_EQ(language.token_name(language.key(11)), "k11");
  EXPECT_EQ(language.token_name(language.value(4)), "v4");
  EXPECT_EQ(language.meaning(language.key(7)), (TokenMeaning{.kind = TokenKind::kKey, .index = 7}));
}

TEST(LookupLanguage, HasNoTokenForWrongNames) {
  const LookupLanguage language;
  for (const char* name : {"", "k", "k64", "v64", "f16", "k-1", "k01", "x1", "k1 ", "||", "k1x"}) {
    EXPECT_FALSE(language.token_from_name(name).has_value()) << "'" << name << "'";
  }
  EXPECT_THAT(error_of([&] { language.token_name(145); }), HasSubstr("0..144, got 145"));
  EXPECT_THAT(error_of([&] { language.token_name(-1); }), HasSubstr("got -1"));
}

TEST(LookupLanguage, InBytesIsMadeOfLettersAndPunctuation) {
  const LookupLanguage language = lookup_language_in_bytes();
  EXPECT_EQ(language.separator(), '\n');
  EXPECT_EQ(language.key(0), 'A');
  EXPECT_EQ(language.key(25), 'Z');
  EXPECT_EQ(language.value(3), 'd');
  EXPECT_EQ(language.filler(0), ' ');
  EXPECT_EQ(language.vocab_size(), 'z' + 1);
  std::set<lm::TokenId> ids(language.ids.begin(), language.ids.end());
  EXPECT_EQ(std::ssize(ids), language.own_tokens());
  for (lm::TokenId token = 0; token < 257; ++token) {
    EXPECT_EQ(language.holds(token), ids.count(token) == 1) << token;
    if (!language.holds(token)) continue;
    EXPECT_EQ(language.token_from_name(language.token_name(token)), token) << token;
  }
  EXPECT_EQ(language.meaning('C'), (TokenMeaning{.kind = TokenKind::kKey, .index = 2}));
  EXPECT_THAT(error_of([&] { language.meaning('7'); }), HasSubstr("of the language, got 55"));

  // The same draws as with the language's own ids.
  LookupLanguage own = language;
  own.ids.clear();
  base::Random a(3), b(3);
  const LookupSequence bytes = sample_sequence(language, a), plain = sample_sequence(own, b);
  for (std::size_t i = 0; i < plain.tokens.size(); ++i) {
    EXPECT_EQ(bytes.tokens[i], language.ids[static_cast<std::size_t>(plain.tokens[i])]) << i;
  }
}

TEST(LookupLanguage, SequenceHoldsItsRecordsAndAnswersEveryQuery) {
  const LookupLanguage language{.keys = 20, .haystack = 40, .records = 12, .queries = 7};
  base::Random random(4);
  for (int round = 0; round < 200; ++round) {
    const LookupSequence sequence = sample_sequence(language, random);
    ASSERT_EQ(static_cast<std::int64_t>(sequence.tokens.size()), language.length());
    std::map<lm::TokenId, lm::TokenId> records;
    for (std::size_t i = 0; i < 40; ++i) {
      const TokenKind kind = language.meaning(sequence.tokens[i]).kind;
      if (kind == TokenKind::kKey) {
        EXPECT_TRUE(records.emplace(sequence.tokens[i], sequence.tokens[i + 1]).second);
        EXPECT_EQ(language.meaning(sequence.tokens[i + 1]).kind, TokenKind::kValue);
        ++i;
      } else {
        EXPECT_EQ(kind, TokenKind::kFiller) << "at " << i;
      }
    }
    EXPECT_EQ(records.size(), 12U);
    EXPECT_EQ(sequence.tokens[40], language.separator());
    ASSERT_EQ(sequence.query_positions.size(), 7U);
    std::set<lm::TokenId> asked;
    for (std::size_t q = 0; q < 7; ++q) {
      const std::size_t position = 41 + 2 * q;
      EXPECT_EQ(sequence.query_positions[q], static_cast<std::int64_t>(position));
      const lm::TokenId key = sequence.tokens[position];
      ASSERT_EQ(records.count(key), 1U);
      EXPECT_EQ(sequence.tokens[position + 1], records[key]);
      EXPECT_TRUE(asked.insert(key).second);
    }
  }
}

TEST(LookupLanguage, SameSeedGivesTheSameSequence) {
  const LookupLanguage language;
  base::Random a(9);
  base::Random b(9);
  base::Random c(10);
  const LookupSequence first = sample_sequence(language, a);
  EXPECT_EQ(first.tokens, sample_sequence(language, b).tokens);
  EXPECT_NE(first.tokens, sample_sequence(language, c).tokens);
}

TEST(PlacePairs, MakesEverySetOfPlacesEquallyLikely) {
  // 2 pairs in 6 tokens: 6 sets of places.
  base::Random random(2);
  std::map<std::vector<std::int64_t>, int> counts;
  constexpr int kDraws = 60000;
  for (int i = 0; i < kDraws; ++i) ++counts[place_pairs(6, 2, random)];
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [starts, count] : counts) {
    EXPECT_GE(starts[1] - starts[0], 2);
    EXPECT_LE(starts[1], 4);
    EXPECT_NEAR(count, kDraws / 6.0, 5 * std::sqrt(kDraws * 5.0 / 36)) << starts[0] << starts[1];
  }
}

TEST(PlacePairs, FillsTheSpaceAndAllowsNoPair) {
  base::Random random(2);
  EXPECT_EQ(place_pairs(6, 3, random), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_TRUE(place_pairs(6, 0, random).empty());
  EXPECT_TRUE(place_pairs(0, 0, random).empty());
}

TEST(LookupLanguageJson, ComesBackEqual) {
  const LookupLanguage language{
      .fillers = 2, .keys = 9, .values = 4, .haystack = 30, .records = 8, .queries = 3};
  EXPECT_EQ(lookup_language_from_json(to_json(language), "test"), language);
  EXPECT_EQ(lookup_language_from_json(base::Json::object(), "test"), LookupLanguage());
}

TEST(LookupLanguageJson, IdsComeBackAsTextOrLists) {
  const LookupLanguage bytes = lookup_language_in_bytes();
  EXPECT_EQ(to_json(bytes).at("tokens").at("keys"), "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  EXPECT_EQ(lookup_language_from_json(to_json(bytes), "test"), bytes);
  LookupLanguage words = bytes;
  for (lm::TokenId& id : words.ids) id += 1000;
  EXPECT_EQ(to_json(words).at("tokens").at("separator"), base::Json({1010}));
  EXPECT_EQ(lookup_language_from_json(to_json(words), "test"), words);
  const auto sized =
      lookup_language_from_json(base::parse_json(R"({"records": 2, "queries": 1, "tokens":
                       {"separator": "|", "fillers": " .", "keys": [7, 9, 11], "values": "01"}})",
                                                 "test"),
                                "test");
  EXPECT_EQ(sized.keys, 3);
  EXPECT_EQ(sized.key(1), 9);
  EXPECT_EQ(sized.value(1), '1');
}

TEST(LookupLanguageJson, RefusesUnknownKeysAndContradictorySizes) {
  const auto refusal = [](const char* text) {
    return error_of([&] { lookup_language_from_json(base::parse_json(text, "test"), "test"); });
  };
  EXPECT_THAT(refusal(R"({"record": 3})"), HasSubstr("did you mean 'records'?"));
  EXPECT_THAT(refusal(R"({"records": 65, "queries": 1, "haystack": 200})"),
              HasSubstr("'records' of at most 'keys' (64), got 65"));
  EXPECT_THAT(refusal(R"({"queries": 13})"), HasSubstr("'queries' of at most 'records' (12)"));
  EXPECT_THAT(refusal(R"({"haystack": 23})"), HasSubstr("'haystack' of at least 24"));
  EXPECT_THAT(refusal(R"({"fillers": 0})"), HasSubstr("'fillers' of at least 1, got 0"));
  EXPECT_THAT(refusal(R"({"keys": 3000000000})"), HasSubstr("'keys' of at most"));
  const auto tokens = [&](const char* separator, const char* keys, const char* more = "") {
    return refusal(fmt::format(R"({{"records": 2, "queries": 1, {} "tokens": {{"separator": {},
                               "fillers": " ", "keys": {}, "values": "xy"}}}})",
                               more, separator, keys)
                       .c_str());
  };
  EXPECT_EQ(tokens("\"|\"", "\"abc\""), "no error");
  EXPECT_THAT(tokens("\"|\"", "\"abx\""), HasSubstr("every id of 'tokens' once, got 120 twice"));
  EXPECT_THAT(tokens("\"ab\"", "\"cd\""), HasSubstr("one 'separator', got \"ab\""));
  EXPECT_THAT(tokens("\"|\"", "[1, -2]"), HasSubstr("got [1,-2]"));
  EXPECT_THAT(tokens("\"|\"", "\"\""), HasSubstr("at least one token"));
  EXPECT_THAT(tokens("\"|\"", "\"abc\"", "\"keys\": 2,"), HasSubstr("as many"));
}

}  // namespace
}  // namespace kvphase::task
