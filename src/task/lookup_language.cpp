#include "task/lookup_language.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/error.h"

namespace kvphase::task {
namespace {

lm::TokenId id_of(const LookupLanguage& language, std::int64_t first, std::int64_t index,
                  std::int64_t count) {
  assert(index >= 0 && index < count);
  (void)count;
  if (language.ids.empty()) return static_cast<lm::TokenId>(first + index);
  return language.ids[static_cast<std::size_t>(first + index)];
}

// Number of the token among the language's own; -1: not of the language.
std::int64_t own_number(const LookupLanguage& language, lm::TokenId token) {
  if (language.ids.empty()) return token >= 0 && token < language.own_tokens() ? token : -1;
  const auto found = std::find(language.ids.begin(), language.ids.end(), token);
  return found == language.ids.end() ? -1 : found - language.ids.begin();
}

// Ids as a text where every one is a byte that JSON shows as it is, else as a list.
base::Json ids_to_json(std::span<const lm::TokenId> ids) {
  std::string text;
  for (const lm::TokenId id : ids) {
    const bool plain = (id >= ' ' && id <= '~') || id == '\n' || id == '\t';
    if (!plain) return base::Json(std::vector<lm::TokenId>(ids.begin(), ids.end()));
    text.push_back(static_cast<char>(id));
  }
  return text;
}

std::vector<lm::TokenId> ids_from_json(const base::Json& json, const std::string& scope) {
  std::vector<lm::TokenId> ids;
  if (json.is_string()) {
    for (const char byte : json.get<std::string>()) ids.push_back(static_cast<unsigned char>(byte));
  } else {
    const auto is_id = [](const base::Json& id) {
      return id.is_number_integer() && id >= 0 && id < LookupLanguage::kLargestVocabulary;
    };
    if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_id)) {
      throw base::usage_error(scope,
                              "expected a text (its bytes) or a list of ids below {}, got {}",
                              LookupLanguage::kLargestVocabulary, json.dump());
    }
    ids = json.get<std::vector<lm::TokenId>>();
  }
  if (ids.empty()) throw base::usage_error(scope, "expected at least one token, got none");
  return ids;
}

std::int64_t random_index(base::Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(bound)));
}

}  // namespace

lm::TokenId LookupLanguage::filler(std::int64_t index) const {
  return id_of(*this, 1, index, fillers);
}

lm::TokenId LookupLanguage::key(std::int64_t index) const {
  return id_of(*this, 1 + fillers, index, keys);
}

lm::TokenId LookupLanguage::value(std::int64_t index) const {
  return id_of(*this, 1 + fillers + keys, index, values);
}

std::int64_t LookupLanguage::vocab_size() const {
  return ids.empty() ? own_tokens() : std::int64_t{1} + *std::max_element(ids.begin(), ids.end());
}

bool LookupLanguage::holds(lm::TokenId token) const { return own_number(*this, token) >= 0; }

TokenMeaning LookupLanguage::meaning(lm::TokenId token) const {
  std::int64_t index = own_number(*this, token);
  if (index < 0 && ids.empty()) {
    throw base::usage_error("lookup", "expected a token id of 0..{}, got {}", own_tokens() - 1,
                            token);
  }
  if (index < 0)
    throw base::usage_error("lookup", "expected a token of the language, got {}", token);
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
  if (language.own_tokens() > 2'000'000'000) {
    throw base::usage_error(scope, "expected at most 2000000000 tokens, got {}; lower 'keys'",
                            language.own_tokens());
  }
  if (!language.ids.empty()) {
    if (std::ssize(language.ids) != language.own_tokens()) {
      throw base::usage_error(scope,
                              "expected as many 'fillers', 'keys' and 'values' as 'tokens' lists "
                              "({} tokens with the separator), got {}",
                              language.ids.size(), language.own_tokens());
    }
    std::vector<lm::TokenId> sorted = language.ids;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        twice != sorted.end()) {
      throw base::usage_error(scope, "expected every id of 'tokens' once, got {} twice", *twice);
    }
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
  if (!language.ids.empty()) {
    std::span<const lm::TokenId> rest = language.ids;
    const auto take = [&rest](std::int64_t count) {
      const auto taken = rest.first(static_cast<std::size_t>(count));
      rest = rest.subspan(taken.size());
      return ids_to_json(taken);
    };
    base::Json& tokens = json["tokens"];
    tokens["separator"] = take(1);
    tokens["fillers"] = take(language.fillers);
    tokens["keys"] = take(language.keys);
    tokens["values"] = take(language.values);
  }
  return json;
}

LookupLanguage lookup_language_in_bytes() {
  LookupLanguage language;
  std::string own = "\n ,.;:-=()";
  language.fillers = std::ssize(own) - 1;
  language.keys = language.values = 26;
  for (char key = 'A'; key <= 'Z'; ++key) own.push_back(key);
  for (char value = 'a'; value <= 'z'; ++value) own.push_back(value);
  language.ids.assign(own.begin(), own.end());
  return language;
}

LookupLanguage lookup_language_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  LookupLanguage defaults;
  LookupLanguage language;
  if (reader.has("tokens")) {
    base::ObjectReader tokens(json.at("tokens"), reader.scope() + ".tokens");
    const auto append = [&](const char* kind) {
      const auto ids = ids_from_json(tokens.required(kind), tokens.scope() + "." + kind);
      language.ids.insert(language.ids.end(), ids.begin(), ids.end());
      return std::ssize(ids);
    };
    if (append("separator") != 1) {
      throw base::usage_error(tokens.scope(), "expected one 'separator', got {}",
                              json.at("tokens").at("separator").dump());
    }
    defaults.fillers = append("fillers");
    defaults.keys = append("keys");
    defaults.values = append("values");
    tokens.finish();
  }
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
