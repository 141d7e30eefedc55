#include "guard/versions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "guard/body.h"

namespace kvphase::guard {
namespace {

using base::Json;

void take_suffix_off(Json& json, const GuardOptions& options) {
  if (!json.contains("model") || !json["model"].is_string()) return;
  auto model = json["model"].get<std::string>();
  if (options.suffix.empty() || !model.ends_with(options.suffix)) return;
  model.resize(model.size() - options.suffix.size());
  json["model"] = model;
}

// The text that stands first in the prompt, to put filler in front of; null with `why` filled.
Json* first_text(Json& body, bool chat, std::string& why) {
  if (body.contains("n") && body["n"] != 1) why = "it asks for more than one answer";
  for (const char* key : {"tools", "functions"}) {
    if (body.contains(key) && !body[key].empty()) why = "it offers tools";
  }
  if (!why.empty()) return nullptr;
  if (!chat) {
    if (body.contains("prompt") && body["prompt"].is_string()) return &body["prompt"];
    why = "its prompt is no text";
    return nullptr;
  }
  if (!body.contains("messages") || !body["messages"].is_array() || body["messages"].empty()) {
    why = "it has no messages";
    return nullptr;
  }
  for (Json& message : body["messages"]) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_string()) {
      why = "a message is no text";
      return nullptr;
    }
  }
  return &body["messages"][0]["content"];
}

// How many tokens each prompt is longer than the one that came; empty: no count of one of the two.
std::vector<std::optional<std::int64_t>> shifts_of(std::span<const VersionReply> replies) {
  std::vector<std::optional<std::int64_t>> shifts;
  std::optional<std::int64_t> plain;
  for (const VersionReply& reply : replies) {
    const std::optional<Said> said = read_reply(reply);
    shifts.push_back(said ? said->prompt_tokens : std::nullopt);
    if (reply.version == 0 && !plain) plain = shifts.back();
  }
  for (std::optional<std::int64_t>& shift : shifts) {
    shift = shift && plain ? std::optional(*shift - *plain) : std::nullopt;
  }
  return shifts;
}

std::int64_t offset_of(std::int64_t version, bool free_line_break) {
  return free_line_break ? std::max<std::int64_t>(0, version - 1) : version;
}

bool was_asked(std::span<const VersionReply> replies, std::int64_t version) {
  return std::ranges::find(replies, version, &VersionReply::version) != replies.end();
}

// What the counts say of the line break; empty: none but of version 0, or neither fits them all.
std::optional<bool> counted_free(std::span<const VersionReply> replies,
                                 std::span<const std::optional<std::int64_t>> shifts) {
  bool fits_free = false;
  bool fits_token = false;
  bool fits_both = true;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!shifts[i]) continue;
    const bool free = *shifts[i] == offset_of(replies[i].version, true);
    const bool token = *shifts[i] == offset_of(replies[i].version, false);
    if (!free && !token) return std::nullopt;
    fits_free = fits_free || (free && !token);
    fits_token = fits_token || (token && !free);
    fits_both = fits_both && free && token;
  }
  if (fits_both || fits_free == fits_token) return std::nullopt;
  return fits_free;
}

}  // namespace

bool takes_suffix(std::string_view body, const GuardOptions& options) {
  if (options.suffix.empty() || body.find(options.suffix + "\"") == std::string_view::npos) {
    return false;
  }
  const Json json = parse(body);
  return json.is_object() && json.contains("model") && json["model"].is_string() &&
         json["model"].get<std::string>().ends_with(options.suffix);
}

std::string without_suffix(const std::string& body, const GuardOptions& options) {
  if (!takes_suffix(body, options)) return body;
  Json json = parse(body);
  take_suffix_off(json, options);
  return dump(json);
}

Versions make_versions(std::string_view path, std::string_view body, std::int64_t offsets,
                       const GuardOptions& options) {
  Versions versions{.chat = path.ends_with("/chat/completions")};
  if (!versions.chat && !path.ends_with("/completions")) {
    versions.skipped = "only completions and chat completions can be";
    return versions;
  }
  Json json = parse(body);
  if (!json.is_object()) {
    versions.skipped = "its body is no JSON object";
    return versions;
  }
  take_suffix_off(json, options);
  versions.stream = json.contains("stream") && json["stream"] == true;
  json.erase("stream");
  json.erase("stream_options");
  if (!json.contains("temperature")) json["temperature"] = 0;
  Json* text = first_text(json, versions.chat, versions.skipped);
  if (text == nullptr) return versions;
  const auto original = text->get<std::string>();
  std::string filler;
  for (std::int64_t version = 0; version <= offsets; ++version) {
    if (version > 0) {
      *text = fmt::format("{}\n{}", filler, original);
      filler += fmt::format(" {}", options.filler);
    }
    versions.bodies.push_back(dump(json));
  }
  return versions;
}

std::optional<Said> read_reply(const VersionReply& reply) {
  if (reply.status / 100 != 2) return std::nullopt;
  const Json body = parse(reply.body);
  if (!body.is_object() || !body.contains("choices") || !body["choices"].is_array() ||
      body["choices"].empty() || !body["choices"][0].is_object()) {
    return std::nullopt;
  }
  const Json& choice = body["choices"][0];
  Said said;
  if (choice.contains("text") && choice["text"].is_string()) {
    said.text = choice["text"].get<std::string>();
  } else if (choice.contains("message") && choice["message"].is_object() &&
             choice["message"].contains("content") && choice["message"]["content"].is_string()) {
    said.text = choice["message"]["content"].get<std::string>();
  } else {
    return std::nullopt;
  }
  said.cut = choice.contains("finish_reason") && choice["finish_reason"] == "length";
  if (body.contains("usage") && body["usage"].is_object()) {
    const auto count = [&](const char* key) -> std::optional<std::int64_t> {
      const Json& usage = body["usage"];
      if (!usage.contains(key) || !usage[key].is_number_integer()) return std::nullopt;
      return usage[key].get<std::int64_t>();
    };
    said.prompt_tokens = count("prompt_tokens");
    said.completion_tokens = count("completion_tokens").value_or(0);
  }
  return said;
}

Offsets offsets_of(std::span<const VersionReply> replies, std::int64_t k) {
  const std::vector<std::optional<std::int64_t>> shifts = shifts_of(replies);
  const std::optional<bool> counted = counted_free(replies, shifts);
  Offsets offsets{.free_line_break = counted.value_or(was_asked(replies, k))};
  std::vector<bool> proven(static_cast<std::size_t>(k), false);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const std::int64_t offset = offset_of(replies[i].version, offsets.free_line_break);
    offsets.of.push_back(offset < k ? offset : -1);
    if (offset < k && shifts[i]) proven[static_cast<std::size_t>(offset)] = true;
  }
  offsets.verified = counted.has_value() && std::ranges::find(proven, false) == proven.end();
  return offsets;
}

std::optional<std::int64_t> missing_version(std::span<const VersionReply> replies, std::int64_t k) {
  const std::optional<bool> free = counted_free(replies, shifts_of(replies));
  if (!free) return std::nullopt;
  const std::int64_t needed = *free ? k : 1;
  return was_asked(replies, needed) ? std::nullopt : std::optional(needed);
}

}  // namespace kvphase::guard
