#include "task/lookup_language.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/error.h"

namespace kvphase::task {
namespace {

lm::TokenId checked_id(std::int64_t first, std::int64_t index, std::int64_t count) {
  assert(index >= 0 && index < count);
  (void)count;
  return static_cast<lm::TokenId>(first + index);
}

std::int64_t random_index(base::Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(bound)));
}

}  // namespace

lm::TokenId LookupLanguage::filler(std::int64_t index) const {
  return checked_id(1, index, fillers);
}

lm::TokenId LookupLanguage::key(std::int64_t index) const {
  return checked_id(1 + fillers, index, keys);
}

lm::TokenId LookupLanguage::value(std::int64_t index) const {
  return checked_id(1 + fillers + keys, index, values);
}

TokenMeaning LookupLanguage::meaning(lm::TokenId token) const {
  std::int64_t index = token;
  if (index < 0 || index >= vocab_size()) {
    throw base::usage_error("lookup", "expected a token id of 0..{}, got {}", vocab_size() - 1,
                            token);
  }
  if (index == 0) return {.kind = TokenKind::kSeparator, .index = 0};
  index -= 1;
  if (index < fillers) return {.kind = TokenKind::kFiller, .index = index};
  index -= fillers;
  if (index < keys) return {.kind = TokenKind::kKey, .index = index};
  return {.kind = TokenKind::kValue, .index = index - keys};
}

std::string LookupLanguage::token_name(lm::TokenId token) const {
  const TokenMeaning what = meaning(token);
  switch (what.kind) {
    case TokenKind::kSeparator:
      return "|";
    case TokenKind::kFiller:
      return fmt::format("f{}", what.index);
    case TokenKind::kKey:
      return fmt::format("k{}", what.index);
    case TokenKind::kValue:
      break;
  }
  return fmt::format("v{}", what.index);
}

std::optional<lm::TokenId> LookupLanguage::token_from_name(std::string_view name) const {
  if (name == "|") return separator();
  if (name.size() < 2) return std::nullopt;
  std::int64_t index = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 1, end, index);
  if (error != std::errc() || stop != end || index < 0) return std::nullopt;
  // "k007" would be a second name of "k7".
  if (fmt::format("{}{}", name.front(), index) != name) return std::nullopt;
  if (name.front() == 'f' && index < fillers) return filler(index);
  if (name.front() == 'k' && index < keys) return key(index);
  if (name.front() == 'v' && index < values) return value(index);
  return std::nullopt;
}

void validate(const LookupLanguage& language, std::string_view scope) {
  const auto at_least_one = [scope](std::string_view name, std::int64_t size) {
    if (size < 1) throw base::usage_error(scope, "expected '{}' of at least 1, got {}", name, size);
    if (size > 1'000'000'000) {
      throw base::usage_error(scope, "expected '{}' of at most 1000000000, got {}", name, size);
    }
  };
  at_least_one("fillers", language.fillers);
  at_least_one("keys", language.keys);
  at_least_one("values", language.values);
  at_least_one("haystack", language.haystack);
  at_least_one("records", language.records);
  at_least_one("queries", language.queries);
  if (language.vocab_size() > 2'000'000'000) {
    throw base::usage_error(scope, "expected at most 2000000000 tokens, got {}; lower 'keys'",
                            language.vocab_size());
  }
  if (language.records > language.keys) {
    throw base::usage_error(scope,
                            "expected 'records' of at most 'keys' ({}), got {}; keys are distinct",
                            language.keys, language.records);
  }
  if (language.queries > language.records) {
    throw base::usage_error(scope, "expected 'queries' of at most 'records' ({}), got {}",
                            language.records, language.queries);
  }
  if (2 * language.records > language.haystack) {
    throw base::usage_error(scope,
                            "expected a 'haystack' of at least {} for {} records, got {}; a record "
                            "takes two tokens",
                            2 * language.records, language.records, language.haystack);
  }
}

base::Json to_json(const LookupLanguage& language) {
  base::Json json;
  json["fillers"] = language.fillers;
  json["keys"] = language.keys;
  json["values"] = language.values;
  json["haystack"] = language.haystack;
  json["records"] = language.records;
  json["queries"] = language.queries;
  return json;
}

LookupLanguage lookup_language_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  const LookupLanguage defaults;
  LookupLanguage language;
  language.fillers = reader.integer("fillers", defaults.fillers);
  language.keys = reader.integer("keys", defaults.keys);
  language.values = reader.integer("values", defaults.values);
  language.haystack = reader.integer("haystack", defaults.haystack);
  language.records = reader.integer("records", defaults.records);
  language.queries = reader.integer("queries", defaults.queries);
  reader.finish();
  validate(language, scope);
  return language;
}

std::vector<std::int64_t> place_pairs(std::int64_t length, std::int64_t count,
                                      base::Random& random) {
  assert(count >= 0 && 2 * count <= length);
  const std::vector<std::size_t> cells = random.sample_without_replacement(
      static_cast<std::size_t>(length - count), static_cast<std::size_t>(count));
  std::vector<std::int64_t> starts(cells.begin(), cells.end());
  std::sort(starts.begin(), starts.end());
  for (std::size_t i = 0; i < starts.size(); ++i) starts[i] += static_cast<std::int64_t>(i);
  return starts;
}

LookupSequence sample_sequence(const LookupLanguage& language, base::Random& random) {
  struct Record {
    lm::TokenId key;
    lm::TokenId value;
  };
  std::vector<Record> records;
  records.reserve(static_cast<std::size_t>(language.records));
  for (const std::size_t key : random.sample_without_replacement(
           static_cast<std::size_t>(language.keys), static_cast<std::size_t>(language.records))) {
    records.push_back({.key = language.key(static_cast<std::int64_t>(key)),
                       .value = language.value(random_index(random, language.values))});
  }

  LookupSequence sequence;
  sequence.tokens.reserve(static_cast<std::size_t>(language.length()));
  for (std::int64_t i = 0; i < language.haystack; ++i) {
    sequence.tokens.push_back(language.filler(random_index(random, language.fillers)));
  }
  const std::vector<std::int64_t> starts = place_pairs(language.haystack, language.records, random);
  for (std::size_t i = 0; i < records.size(); ++i) {
    sequence.tokens[static_cast<std::size_t>(starts[i])] = records[i].key;
    sequence.tokens[static_cast<std::size_t>(starts[i] + 1)] = records[i].value;
  }

  sequence.tokens.push_back(language.separator());
  random.shuffle(std::span<Record>(records));
  for (std::size_t i = 0; i < static_cast<std::size_t>(language.queries); ++i) {
    sequence.query_positions.push_back(static_cast<std::int64_t>(sequence.tokens.size()));
    sequence.tokens.push_back(records[i].key);
    sequence.tokens.push_back(records[i].value);
  }
  return sequence;
}

}  // namespace kvphase::task
