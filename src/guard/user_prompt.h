// A user's own prompt and its versions in which the fact, or all of it, stands some tokens later.
// Knows no model: which filler is one token is found by the caller.
//
//   {filler_before} (or {filler})  filler in front of the fact: it and what follows it move
//   {filler_after}                 filler behind the fact: with both, only the fact moves, and the
//                                  prompt's length and its end stay
//   neither                        filler in front of everything: the whole prompt moves
//
// In a text or chat file every other brace is text (code has braces of its own).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::guard {

struct PromptMessage {
  std::string role;  // "user" of a text file
  std::string text;  // with the slots
};

enum class PromptKind { kText, kChat, kTemplate };

struct UserPrompt {
  PromptKind kind = PromptKind::kText;
  std::vector<PromptMessage> messages;  // at least one; only one but for chats
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature;
  std::vector<std::string> stop;
  std::string expected;  // of a template: the right answer
};

struct PromptOptions {
  std::string fact;        // its text, once in the prompt: the slots go around it; empty: as marked
  std::int64_t item = 0;   // of a template
  std::uint64_t seed = 1;  // of a template's haystack
};

// By the file's name: "*.json" is a chat (a list of messages, or an object with "messages" and
// max_tokens, temperature or stop) or a template (docs/tasks.md), everything else is text. "-" is
// text from standard input. Throws a usage error.
UserPrompt read_user_prompt(const std::filesystem::path& path, const PromptOptions& options);
UserPrompt parse_user_prompt(std::string_view content, bool is_json, std::string_view scope,
                             const PromptOptions& options);
// Of a chat's messages alone, as the proxy gets them.
std::vector<PromptMessage> parse_messages(std::string_view json, std::string_view scope);

enum class Moves { kEverything, kFactAndRest, kFact };
Moves moved_by(const UserPrompt& prompt);
std::string_view describe(Moves moves);

// How much filler stands in each slot.
struct Fillers {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
// Of offset 0..offsets-1: `offset` in front, and behind what keeps the length where there is a
// slot.
Fillers fillers_at(const UserPrompt& prompt, std::int64_t offset, std::int64_t offsets);

// A message's text in pieces that begin where filler does, so that each can be tokenised by itself;
// concatenated they are the text. Filler is `word` after a blank, again and again. What follows a
// slot is parted from it in every version, with and without filler: by a line break where
// everything moves, by a blank where it begins with a letter or a digit.
using Pieces = std::vector<std::string>;
struct FilledMessage {
  std::string role;
  Pieces pieces;
  std::string text() const;
};
std::vector<FilledMessage> fill(const UserPrompt& prompt, std::string_view unit,
                                const Fillers& fillers);

// The prompt without filler, its slots and its options: what a resumed run must find again.
std::string identity_of(const UserPrompt& prompt);

}  // namespace kvphase::guard
