#include "task/mitigate_prompt.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/error.h"
#include "base/random.h"
#include "task/bm25.h"

namespace kvphase::task {
namespace {

// In front of what a mitigation adds in words; constant, so it counts 0 tokens.
std::string_view header_of(Mitigation mitigation) {
  switch (mitigation) {
    case Mitigation::kRestate:
      return "\n\nThe key facts once more:";
    case Mitigation::kList:
      return "\n\nKey facts:";
    case Mitigation::kRetrieve:
      return "\n\nFrom the text above, what may hold the answer:";
    default:
      return "";
  }
}

constexpr std::string_view kItemOfList = "\n-";
constexpr std::string_view kItemOfRetrieved = "\n";

std::ptrdiff_t at(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

// A text or ids, and the tokens that the task counts for it.
struct Added {
  std::vector<lm::TokenId> ids;
  std::string text;
  std::int64_t tokens = 0;
};

void grow(Prompt& prompt, std::int64_t tokens) {
  prompt.query_position += tokens;
  prompt.length += tokens;
  if (prompt.words && prompt.words->tokens) *prompt.words->tokens += tokens;
}

// At a token of a prompt in ids, before a piece of one in words.
void insert(Prompt& prompt, std::size_t place, const Added& added) {
  if (prompt.words) {
    if (added.text.empty()) return;
    auto& pieces = prompt.words->pieces;
    pieces.insert(pieces.begin() + at(place), added.text);
  } else {
    auto& tokens = prompt.request.prompt;
    tokens.insert(tokens.begin() + at(place), added.ids.begin(), added.ids.end());
  }
  grow(prompt, added.tokens);
}

std::vector<KeyFact> chosen_facts(const Prompt& prompt, const Anatomy& anatomy,
                                  const MitigationOptions& options) {
  const std::size_t all = anatomy.facts.size();
  const auto wanted = static_cast<std::size_t>(options.facts.value_or(std::ssize(anatomy.facts)));
  if (wanted >= all) return anatomy.facts;
  base::Random random(
      base::derive_seed(options.seed, "mitigate.facts", {static_cast<std::uint64_t>(prompt.item)}));
  std::vector<bool> take(all);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < all; ++i) {
    if (anatomy.facts[i].asked) take[i] = ++taken > 0;
  }
  for (const std::size_t i : random.sample_without_replacement(all, all)) {
    if (taken >= wanted) break;
    if (!take[i]) take[i] = ++taken > 0;
  }
  std::vector<KeyFact> facts;
  for (std::size_t i = 0; i < all; ++i) {
    if (take[i]) facts.push_back(anatomy.facts[i]);
  }
  return facts;
}

Added restated(const std::vector<KeyFact>& facts, Mitigation mitigation) {
  Added added{.ids = {}, .text = std::string(header_of(mitigation))};
  for (const KeyFact& fact : facts) {
    added.ids.insert(added.ids.end(), fact.ids.begin(), fact.ids.end());
    if (mitigation == Mitigation::kRestate || fact.key.empty()) {
      if (mitigation == Mitigation::kList) added.text += kItemOfList;
      added.text += fact.text;
      added.tokens += fact.tokens;
    } else {
      added.text += fmt::format("{}{}:{}", kItemOfList, fact.key, fact.value);
      added.tokens += fact.pair_tokens;
    }
  }
  return added;
}

// Numbers of words, letter case and punctuation aside.
class Terms {
 public:
  std::vector<Term> of(std::string_view text) {
    std::vector<Term> terms;
    std::string word;
    const auto finish = [&] {
      if (!word.empty()) {
        terms.push_back(numbers_.emplace(word, std::ssize(numbers_)).first->second);
      }
      word.clear();
    };
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80 || std::isalnum(byte) != 0) {
        word += static_cast<char>(std::tolower(byte));
      } else {
        finish();
      }
    }
    finish();
    return terms;
  }

 private:
  std::unordered_map<std::string, Term> numbers_;
};

Added retrieved_ids(const Prompt& prompt, const Anatomy& anatomy, std::int64_t count,
                    std::int64_t length) {
  const auto& tokens = prompt.request.prompt;
  std::vector<Unit> units;
  for (std::size_t i = anatomy.context_begin; i < anatomy.context_end; ++i) {
    units.push_back({.terms = {tokens[i]}});
  }
  const std::vector<Term> query(anatomy.ask_ids.begin(), anatomy.ask_ids.end());
  std::vector<Passage> best = best_passages(units, query, count, length);
  std::ranges::reverse(best);
  Added added;
  for (const Passage& p : best) {
    const auto from = tokens.begin() + at(anatomy.context_begin);
    added.ids.insert(added.ids.end(), from + at(p.begin), from + at(p.end));
  }
  added.tokens = std::ssize(added.ids);
  return added;
}

Added retrieved_words(const Prompt& prompt, const Anatomy& anatomy, std::int64_t count,
                      std::int64_t length) {
  Terms terms;
  std::vector<Unit> units;
  std::vector<std::string_view> texts;
  for (std::size_t n = anatomy.context_begin; n < anatomy.context_end; ++n) {
    const std::string_view piece = prompt.words->pieces[n];
    if (piece == anatomy.whole) {
      units.push_back({.terms = terms.of(piece), .whole = true});
      texts.push_back(piece);
      continue;
    }
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = std::min(piece.find(' ', begin + 1), piece.size());
      texts.push_back(piece.substr(begin, end - begin));
      units.push_back({.terms = terms.of(texts.back())});
      begin = end;
    }
  }
  std::vector<Passage> best = best_passages(units, terms.of(anatomy.ask_text), count, length);
  std::ranges::reverse(best);
  Added added{.ids = {}, .text = std::string(header_of(Mitigation::kRetrieve))};
  for (const Passage& p : best) {
    added.text += kItemOfRetrieved;
    for (std::size_t u = p.begin; u < p.end; ++u) {
      added.text += texts[u];
      added.tokens += units[u].whole ? anatomy.whole_tokens : 1;
    }
  }
  return added;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) words += text[i] == ' ' && text[i + 1] != ' ';
  return words;
}

std::int64_t count_added(std::string text, const Anatomy& anatomy) {
  std::int64_t tokens = 0;
  if (!anatomy.whole.empty()) {
    for (std::size_t found; (found = text.find(anatomy.whole)) != std::string::npos;) {
      text.erase(found, anatomy.whole.size());
      tokens += anatomy.whole_tokens;
    }
  }
  return tokens + count_words(text);
}

}  // namespace

Prompt with_front(Prompt prompt, const Anatomy& anatomy, std::int64_t count, std::uint64_t seed) {
  if (count == 0) return prompt;
  base::Random random(base::derive_seed(seed, "mitigate.front"));
  Added added{.ids = {}, .text = {}, .tokens = count};
  for (std::int64_t i = 0; i < count; ++i) {
    if (prompt.words) {
      added.text += " " + anatomy.filler_words[random.uniform_index(anatomy.filler_words.size())];
    } else {
      added.ids.push_back(anatomy.filler_ids[random.uniform_index(anatomy.filler_ids.size())]);
    }
  }
  insert(prompt, anatomy.context_begin, added);
  prompt.target_position += count;
  if (prompt.words && prompt.words->shared > anatomy.context_begin) ++prompt.words->shared;
  return prompt;
}

Prompt with_help(Prompt prompt, const Anatomy& anatomy, const MitigationOptions& options) {
  const Mitigation mitigation = options.mitigation;
  if (mitigation != Mitigation::kRetrieve) {
    const Added added = restated(chosen_facts(prompt, anatomy, options), mitigation);
    const bool behind_context = !prompt.words && mitigation == Mitigation::kRestate;
    insert(prompt, behind_context ? anatomy.context_end : anatomy.help.value(), added);
    return prompt;
  }
  const std::int64_t count = options.passages.value_or(anatomy.passages);
  const std::int64_t length = options.passage_tokens.value_or(anatomy.passage_tokens);
  insert(prompt, anatomy.help.value(),
         prompt.words ? retrieved_words(prompt, anatomy, count, length)
                      : retrieved_ids(prompt, anatomy, count, length));
  return prompt;
}

Prompt with_query_first(Prompt prompt, const Anatomy& anatomy) {
  insert(prompt, anatomy.context_begin,
         {.ids = anatomy.ask_ids, .text = anatomy.lead, .tokens = anatomy.lead_tokens});
  prompt.target_position += anatomy.lead_tokens;
  if (!prompt.words) return prompt;
  auto& pieces = prompt.words->pieces;
  prompt.words->shared = 0;
  if (anatomy.intro.empty()) return prompt;
  if (anatomy.context_begin == 0) {
    pieces.insert(pieces.begin(), anatomy.intro);
  } else {
    pieces.front() += anatomy.intro;
  }
  return prompt;
}

Undone undo(Prompt prompt, const Anatomy& anatomy, Mitigation mitigation) {
  auto& pieces = prompt.words->pieces;
  Undone undone;
  const auto take = [&](std::size_t place) {
    std::string text = pieces.at(place);
    pieces.erase(pieces.begin() + at(place));
    return text;
  };
  switch (mitigation) {
    case Mitigation::kRestate:
    case Mitigation::kList:
    case Mitigation::kRetrieve: {
      const std::string_view header = header_of(mitigation);
      const auto found = std::ranges::find_if(
          pieces, [&](const std::string& piece) { return piece.starts_with(header); });
      if (found == pieces.end()) break;
      const std::string text = take(static_cast<std::size_t>(found - pieces.begin()));
      undone.tokens = count_added(text.substr(header.size()), anatomy);
      break;
    }
    case Mitigation::kQueryFirst: {
      std::size_t lead = anatomy.context_begin;
      if (!anatomy.intro.empty()) {
        if (lead == 0) {
          take(0);
        } else {
          pieces.front().resize(pieces.front().size() -
                                std::min(pieces.front().size(), anatomy.intro.size()));
        }
      }
      if (anatomy.lead.empty()) break;
      const std::string text = take(lead);
      // Words of one token, or a text whose tokens a tokenizer counted.
      undone.tokens =
          text == anatomy.lead && anatomy.intro.empty() ? anatomy.lead_tokens : count_words(text);
      break;
    }
    case Mitigation::kRandomPadding:
    case Mitigation::kMajority:
      undone.tokens = count_words(take(anatomy.context_begin));
      break;
  }
  undone.plain = std::move(prompt);
  return undone;
}

}  // namespace kvphase::task
