// The lookup language: a haystack of filler with key-value records, a separator, then queries that
// repeat a key and must be answered with its value. Its sizes, its token ids and a sampler. Must
// not know models or phases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "lm/language_model.h"

namespace kvphase::task {

enum class TokenKind { kSeparator, kFiller, kKey, kValue };

struct TokenMeaning {
  TokenKind kind = TokenKind::kSeparator;
  std::int64_t index = 0;  // within its kind, 0 for the separator
  bool operator==(const TokenMeaning&) const = default;
};

// Its own tokens in this order: the separator, then fillers, keys, values. Positions count from 0.
struct LookupLanguage {
  std::int64_t fillers = 16;  // different filler tokens
  std::int64_t keys = 64;     // different keys: more of them make guessing harder
  std::int64_t values = 64;   // different values
  // Tokens before the separator. 72 = 3 * 24 is the smallest haystack in which an audit modulo 24
  // can give every residue the same mean and variance of the target's position.
  std::int64_t haystack = 72;
  std::int64_t records = 12;  // key-value pairs in the haystack; their keys are distinct
  std::int64_t queries = 12;  // key-value pairs after the separator, at most `records`

  static constexpr lm::TokenId kLargestVocabulary = 1 << 24;

  // [own_tokens()] the ids that the language's tokens have in a model's vocabulary, where that
  // holds more than the language, e.g. bytes of letters. Empty: 0, 1, 2, ...
  std::vector<lm::TokenId> ids;

  std::int64_t own_tokens() const { return 1 + fillers + keys + values; }
  std::int64_t vocab_size() const;  // the least vocabulary that holds it: 1 + its largest id
  std::int64_t length() const { return haystack + 1 + 2 * queries; }  // tokens of a sequence

  lm::TokenId separator() const { return ids.empty() ? 0 : ids.front(); }
  lm::TokenId filler(std::int64_t index) const;
  lm::TokenId key(std::int64_t index) const;
  lm::TokenId value(std::int64_t index) const;

  TokenMeaning meaning(lm::TokenId token) const;  // usage error outside the language
  bool holds(lm::TokenId token) const;

  // "|", "f0", "k12", "v3", whatever the ids.
  std::string token_name(lm::TokenId token) const;
  std::optional<lm::TokenId> token_from_name(std::string_view name) const;

  bool operator==(const LookupLanguage&) const = default;
};

// Throws a usage error naming the sizes that contradict each other.
void validate(const LookupLanguage& language, std::string_view scope);

// The language in bytes: separator newline, keys A..Z, values a..z, fillers blank and punctuation,
// so that a record reads like "Qx" in a line of text. The other sizes are the defaults.
LookupLanguage lookup_language_in_bytes();

// `ids` are written as "tokens": {"separator", "fillers", "keys", "values"}, each a text that
// stands for its bytes or a list of ids; reading it the three sizes may be left out.
base::Json to_json(const LookupLanguage& language);
// Unknown keys are refused with the nearest valid one; the result is validated.
LookupLanguage lookup_language_from_json(const base::Json& json, std::string_view scope);

struct LookupSequence {
  std::vector<lm::TokenId> tokens;  // [length()]
  // Positions of the query keys, increasing; the token after each is the answer.
  std::vector<std::int64_t> query_positions;  // [queries]
};

// First tokens of `count` pairs that do not overlap in 0..length-1, increasing; every set of places
// is equally likely. Needs 2 * count <= length.
// Squeezing each pair to one cell maps the places one to one to the count-subsets of
// length - count cells.
std::vector<std::int64_t> place_pairs(std::int64_t length, std::int64_t count,
                                      base::Random& random);

// Distinct random keys with random values at places of place_pairs, random filler between them; the
// queries are the records in random order (the first `queries` of it).
LookupSequence sample_sequence(const LookupLanguage& language, base::Random& random);

}  // namespace kvphase::task
