#include "guard/user_prompt.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/random.h"
#include "task/template_file.h"
#include "task/words.h"

namespace kvphase::guard {
namespace {

using base::Json;
using base::usage_error;

constexpr std::string_view kBefore = "{filler_before}";
constexpr std::string_view kShort = "{filler}";
constexpr std::string_view kAfter = "{filler_after}";

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

struct Place {
  std::size_t message = 0;
  std::size_t at = 0;
};

// Where a slot stands; empty: nowhere.
std::optional<Place> find_slot(const std::vector<PromptMessage>& messages, std::string_view slot) {
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const std::size_t at = messages[m].text.find(slot);
    if (at != std::string::npos) return Place{.message = m, .at = at};
  }
  return std::nullopt;
}

void replace_all(std::string& text, std::string_view part, std::string_view by) {
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + by.size())) {
    text.replace(at, part.size(), by);
  }
}

void mark_fact(std::vector<PromptMessage>& messages, const std::string& fact,
               std::string_view scope) {
  if (find_slot(messages, kBefore) || find_slot(messages, kAfter)) {
    throw usage_error(scope, "expected --fact or slots in the prompt, got both");
  }
  std::size_t count = 0;
  for (const PromptMessage& message : messages) count += count_of(message.text, fact);
  if (count != 1) {
    throw usage_error(scope, "expected the text of --fact once in the prompt, got it {} times",
                      count);
  }
  const Place place = *find_slot(messages, fact);
  std::string& text = messages[place.message].text;
  text.insert(place.at + fact.size(), kAfter);
  // A blank in front of the fact stays with it: filler is put between words.
  const std::size_t at = place.at > 0 && text[place.at - 1] == ' ' ? place.at - 1 : place.at;
  text.insert(at, kBefore);
}

void check_slots(std::vector<PromptMessage>& messages, std::string_view scope) {
  for (PromptMessage& message : messages) replace_all(message.text, kShort, kBefore);
  for (const std::string_view slot : {kBefore, kAfter}) {
    std::size_t count = 0;
    for (const PromptMessage& message : messages) count += count_of(message.text, slot);
    if (count > 1) throw usage_error(scope, "expected {} once, got it {} times", slot, count);
  }
  const auto before = find_slot(messages, kBefore), after = find_slot(messages, kAfter);
  if (!after) return;
  if (!before) {
    throw usage_error(scope, "expected {} in front of {}, got none; it marks where the fact begins",
                      kBefore, kAfter);
  }
  if (std::pair(after->message, after->at) < std::pair(before->message, before->at)) {
    throw usage_error(scope, "expected {} in front of {}, got it behind", kBefore, kAfter);
  }
}

std::string content_of(const Json& content, const std::string& scope) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw usage_error(scope, "expected text or a list of text parts, got {}", content.type_name());
  }
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", "") != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      throw usage_error(scope, "expected parts {{\"type\": \"text\", \"text\": ...}} only, got {}",
                        part.dump().substr(0, 60));
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

std::vector<PromptMessage> messages_of(const Json& list, const std::string& scope) {
  if (!list.is_array() || list.empty()) {
    throw usage_error(scope, "expected a list of at least one message, got {}",
                      list.is_array() ? "an empty one" : list.type_name());
  }
  std::vector<PromptMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    base::ObjectReader reader(list[i], fmt::format("{}[{}]", scope, i));
    const std::string role = reader.text("role");
    messages.push_back(
        {.role = role, .text = content_of(reader.required("content"), reader.scope())});
    reader.finish();
  }
  return messages;
}

// One item of a template with its haystack as text; what moves is put in the slots.
UserPrompt prompt_of(const task::FilledOptions& file, const PromptOptions& options,
                     std::string_view scope) {
  const auto items = std::ssize(file.entries);
  if (options.item < 0 || options.item >= items) {
    throw usage_error(scope, "expected --item 0 to {}, got {}", items - 1, options.item);
  }
  const task::FilledItem& item = file.entries[static_cast<std::size_t>(options.item)];
  const auto own = task::candidate_words();
  const std::vector<std::string> words = file.families.empty()
                                             ? std::vector<std::string>(own.begin(), own.end())
                                             : file.families[0].words;
  const bool has_after = std::ranges::any_of(file.segments, [](const task::Segment& segment) {
    return segment.slot == task::Slot::kFillerAfter;
  });
  const auto in_front =
      has_after ? static_cast<std::int64_t>(file.depth * static_cast<double>(file.haystack))
                : file.haystack;
  base::Random random(
      base::derive_seed(options.seed, "haystack", {static_cast<std::uint64_t>(options.item)}));
  const auto haystack = [&](std::int64_t count) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i)
      text += " " + words[random.uniform_index(words.size())];
    return text;
  };
  UserPrompt prompt{.kind = PromptKind::kTemplate,
                    .messages = {{.role = "user", .text = {}}},
                    .max_tokens = file.max_tokens,
                    .stop = file.stop,
                    .expected = item.answer};
  std::string& text = prompt.messages[0].text;
  for (const task::Segment& segment : file.segments) {
    switch (segment.slot) {
      case task::Slot::kText:
        text += segment.text;
        break;
      case task::Slot::kFillerBefore:
        text += haystack(in_front) + std::string(kBefore);
        break;
      case task::Slot::kFillerAfter:
        text += std::string(kAfter) + haystack(file.haystack - in_front);
        break;
      case task::Slot::kNeedle:
        text += item.needle;
        break;
      case task::Slot::kQuestion:
        text += item.question;
        break;
    }
  }
  return prompt;
}

UserPrompt chat_of(const Json& json, const std::string& scope) {
  UserPrompt prompt{.kind = PromptKind::kChat};
  if (json.is_array()) {
    prompt.messages = messages_of(json, scope);
    return prompt;
  }
  base::ObjectReader reader(json, scope);
  prompt.messages = messages_of(reader.required("messages"), scope + ".messages");
  if (reader.has("max_tokens")) prompt.max_tokens = reader.integer("max_tokens");
  prompt.temperature = reader.optional_real("temperature");
  if (reader.has("stop")) {
    const Json& stop = reader.required("stop");
    prompt.stop = stop.is_string() ? std::vector{stop.get<std::string>()} : reader.texts("stop");
  }
  reader.finish();
  if (prompt.max_tokens && *prompt.max_tokens < 1) {
    throw usage_error(scope, "expected max_tokens of at least 1, got {}", *prompt.max_tokens);
  }
  return prompt;
}

// Right behind filler it would become part of the filler's last word.
bool joins_a_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

std::string filler(std::string_view unit, std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += unit;
  return text;
}

// Other bytes would be sent as replacement characters: another prompt.
bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace

std::vector<PromptMessage> parse_messages(std::string_view json, std::string_view scope) {
  return messages_of(base::parse_json(json, scope), std::string(scope));
}

UserPrompt parse_user_prompt(std::string_view content, bool is_json, std::string_view scope,
                             const PromptOptions& options) {
  UserPrompt prompt;
  if (!is_json) {
    if (content.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      throw usage_error(scope, "expected a prompt, got an empty text");
    }
    if (!is_utf8(content)) {
      throw usage_error(scope, "expected a text in UTF-8, got other bytes; convert the file");
    }
    prompt.messages = {{.role = "user", .text = std::string(content)}};
  } else {
    const Json json = base::parse_json(content, scope);
    const bool is_template = json.is_object() && json.contains("prompt");
    if (!is_template && !json.is_array() && !(json.is_object() && json.contains("messages"))) {
      throw usage_error(scope,
                        "expected a list of messages, an object with messages, or a template with "
                        "prompt and items, got {}; a text prompt's file must not end in .json",
                        json.is_object() ? "an object with neither" : json.type_name());
    }
    prompt = is_template ? prompt_of(task::parse_template(content, scope), options, scope)
                         : chat_of(json, std::string(scope));
  }
  check_slots(prompt.messages, scope);
  if (!options.fact.empty()) mark_fact(prompt.messages, options.fact, scope);
  return prompt;
}

UserPrompt read_user_prompt(const std::filesystem::path& path, const PromptOptions& options) {
  if (path == "-") {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return parse_user_prompt(text, false, "standard input", options);
  }
  return parse_user_prompt(base::read_file(path), path.extension() == ".json", path.string(),
                           options);
}

Moves moved_by(const UserPrompt& prompt) {
  if (find_slot(prompt.messages, kAfter)) return Moves::kFact;
  return find_slot(prompt.messages, kBefore) ? Moves::kFactAndRest : Moves::kEverything;
}

std::string_view describe(Moves moves) {
  switch (moves) {
    case Moves::kEverything:
      return "the whole prompt moves";
    case Moves::kFactAndRest:
      return "the fact and what follows it move";
    case Moves::kFact:
      return "the fact moves, the prompt's length and end stay";
  }
  return "";
}

Fillers fillers_at(const UserPrompt& prompt, std::int64_t offset, std::int64_t offsets) {
  assert(offset >= 0 && offset < offsets);
  return {.before = offset, .after = moved_by(prompt) == Moves::kFact ? offsets - 1 - offset : 0};
}

std::string FilledMessage::text() const {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

std::vector<FilledMessage> fill(const UserPrompt& prompt, std::string_view unit,
                                const Fillers& fillers) {
  std::vector<FilledMessage> filled;
  const Moves moves = moved_by(prompt);
  for (const PromptMessage& message : prompt.messages) {
    FilledMessage one{.role = message.role};
    std::string rest = message.text;
    const auto add = [&](std::string text) {
      if (!text.empty()) one.pieces.push_back(std::move(text));
    };
    if (moves == Moves::kEverything && filled.empty()) {
      add(filler(unit, fillers.before));
      add("\n");
    }
    for (const auto& [slot, count] :
         {std::pair(kBefore, fillers.before), std::pair(kAfter, fillers.after)}) {
      const std::size_t at = rest.find(slot);
      if (at == std::string::npos) continue;
      add(rest.substr(0, at));
      add(filler(unit, count));
      rest.erase(0, at + slot.size());
      // Always, so that the versions differ in filler alone.
      if (!rest.empty() && joins_a_word(rest[0])) rest = fmt::format(" {}", rest);
    }
    add(rest);
    filled.push_back(std::move(one));
  }
  return filled;
}

std::string identity_of(const UserPrompt& prompt) {
  Json json = {{"messages", Json::array()}, {"stop", prompt.stop}, {"expected", prompt.expected}};
  for (const PromptMessage& message : prompt.messages) {
    json["messages"].push_back({message.role, message.text});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvphase::guard
