#include "endpoint/server.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "endpoint/errors.h"
#include "endpoint/json_text.h"
#include "endpoint/kinds.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

constexpr std::array<ServerKindName, 9> kServerKinds = {{
    {ServerKind::kLlamaCpp, "llama.cpp"},
    {ServerKind::kVllm, "vllm"},
    {ServerKind::kKvphase, "kvphase"},
    {ServerKind::kSglang, "sglang"},
    {ServerKind::kOllama, "ollama"},
    {ServerKind::kOpenAi, "openai"},
    {ServerKind::kDeepSeek, "deepseek"},
    {ServerKind::kOpenRouter, "openrouter"},
    {ServerKind::kGeneric, "generic"},
}};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string_view::npos) return "";
  return text.substr(start, text.find_last_not_of(kSpace) - start + 1);
}

}  // namespace

std::span<const ServerKindName> server_kinds() { return kServerKinds; }

std::string_view name_of(ServerKind kind) {
  return std::find_if(kServerKinds.begin(), kServerKinds.end(),
                      [&](const ServerKindName& entry) { return entry.kind == kind; })
      ->name;
}

ServerKind server_kind_of(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& entry : kServerKinds) {
    if (entry.name == name) return entry.kind;
    names.emplace_back(entry.name);
  }
  throw base::usage_error("endpoint", "expected --api to be one of {}, got '{}'; nearest: {}",
                          fmt::join(names, ", "), name, base::nearest_name(name, names));
}

std::unique_ptr<ServerApi> make_server(ServerKind kind, ServerSettings settings) {
  switch (kind) {
    case ServerKind::kLlamaCpp:
      return make_llama_cpp(std::move(settings));
    case ServerKind::kVllm:
    case ServerKind::kKvphase:
      return make_vllm(kind, std::move(settings));
    case ServerKind::kSglang:
      return make_sglang(std::move(settings));
    case ServerKind::kOllama:
      return make_ollama(std::move(settings));
    default:
      return make_openai_style(kind, std::move(settings));
  }
}

std::optional<WireRequest> ServerApi::tokenize(std::string_view, bool) const {
  return std::nullopt;
}
std::optional<WireRequest> ServerApi::detokenize(std::span<const lm::TokenId>) const {
  return std::nullopt;
}
std::optional<std::vector<lm::TokenId>> ServerApi::read_tokens(const Json& body) const {
  const auto tokens = body.find("tokens");
  if (!body.is_object() || tokens == body.end() || !tokens->is_array()) return std::nullopt;
  std::vector<lm::TokenId> ids;
  ids.reserve(tokens->size());
  for (const Json& token : *tokens) {
    const Json& id = token.is_object() ? token.value("id", Json()) : token;
    if (!id.is_number_integer()) return std::nullopt;
    ids.push_back(id.get<lm::TokenId>());
  }
  return ids;
}
std::optional<std::string> ServerApi::read_text(const Json& body) const {
  for (const char* key : {"content", "prompt", "text"}) {
    if (body.is_object() && body.contains(key) && body[key].is_string()) {
      return body[key].get<std::string>();
    }
  }
  return std::nullopt;
}

WireRequest json_request(std::string path, const Json& body) {
  return {.path = std::move(path),
          .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

WireRequest token_request(std::string path, const Json& body, const char* key,
                          std::span<const lm::TokenId> tokens) {
  WireRequest wire = json_request(std::move(path), body);
  const std::string rest = std::move(wire.body);  // "{...}"
  constexpr std::size_t kLongest = 12;            // characters of an id and its comma
  std::string text = fmt::format("{{\"{}\":[", key);
  const std::size_t start = text.size();
  text.resize(start + tokens.size() * kLongest);
  char* at = text.data() + start;
  for (const lm::TokenId token : tokens) {
    at = std::to_chars(at, at + kLongest, token).ptr;
    *at++ = ',';
  }
  if (!tokens.empty()) --at;
  text.resize(static_cast<std::size_t>(at - text.data()));
  text += rest == "{}" ? "]" : "],";
  text += std::string_view(rest).substr(1);
  wire.body = std::move(text);
  return wire;
}

void merge_extra(Json& body, const Json& extra) {
  if (!extra.is_object()) return;
  for (const auto& [key, value] : extra.items()) body[key] = value;
}

void split_reasoning(Reply& reply) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  const std::string text = reply.text;
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool opened =
      start != std::string::npos && std::string_view(text).substr(start).starts_with(kOpen);
  const std::size_t inside = opened ? start + kOpen.size() : 0;
  const std::size_t close = text.find(kClose);
  if (!opened && close == std::string::npos) return;
  reply.reasoning += text.substr(inside, close == std::string::npos ? close : close - inside);
  reply.text = close == std::string::npos ? "" : text.substr(close + kClose.size());
}

void decide_outcome(const CompletionRequest& request, Reply& reply) {
  if (reply.outcome != Outcome::kOk) return;
  const auto missing = [&](Outcome outcome, std::string detail) {
    reply.outcome = outcome;
    reply.detail = std::move(detail);
  };
  if (request.expected_prompt_tokens && reply.usage.prompt_tokens &&
      *request.expected_prompt_tokens != *reply.usage.prompt_tokens) {
    const auto sent = *request.expected_prompt_tokens;
    const auto read = *reply.usage.prompt_tokens;
    missing(read < sent ? Outcome::kPromptTruncated : Outcome::kPromptGrown,
            fmt::format("sent {} prompt tokens, the server read {}", sent, read));
    return;
  }
  const bool empty = trim(reply.text).empty();
  if (reply.finish_reason == "content_filter") {
    missing(Outcome::kRefused, "the content filter ended the reply");
  } else if (empty && !trim(reply.reasoning).empty()) {
    missing(Outcome::kReasoningOnly,
            reply.finish_reason == "length"
                ? fmt::format("max_tokens ({}) used up by reasoning", request.max_tokens)
                : "reasoning without an answer");
  } else if (reply.text.empty()) {
    missing(Outcome::kEmpty,
            fmt::format("an empty answer, finish reason '{}'", excerpt(reply.finish_reason, 40)));
  } else if (looks_like_error_text(reply.text)) {
    missing(Outcome::kErrorText, "an error message as answer: " + excerpt(reply.text));
  } else if (request.needs_end && reply.finish_reason == "length") {
    missing(Outcome::kTruncated,
            fmt::format("cut after max_tokens ({}): {}", request.max_tokens, excerpt(reply.text)));
  }
}

Usage read_usage(const Json& body, std::vector<std::string>& notes) {
  Usage usage;
  const auto found = body.find("usage");
  if (found == body.end() || !found->is_object()) {
    notes.emplace_back("no usage counts");
    return usage;
  }
  const auto count = [](const Json& object, const char* key) -> std::optional<std::int64_t> {
    const auto value = object.find(key);
    if (value == object.end() || !value->is_number_integer()) return std::nullopt;
    const auto number = value->get<std::int64_t>();
    if (number < 0) return std::nullopt;
    return number;
  };
  const auto inner = [&](const char* group, const char* key) -> std::optional<std::int64_t> {
    const auto object = found->find(group);
    if (object == found->end() || !object->is_object()) return std::nullopt;
    return count(*object, key);
  };
  usage.prompt_tokens = count(*found, "prompt_tokens");
  usage.completion_tokens = count(*found, "completion_tokens");
  usage.cached_tokens = inner("prompt_tokens_details", "cached_tokens");
  if (!usage.cached_tokens) usage.cached_tokens = count(*found, "prompt_cache_hit_tokens");
  usage.reasoning_tokens = inner("completion_tokens_details", "reasoning_tokens");
  if (usage.prompt_tokens == 0) {  // no prompt has no tokens: a placeholder
    notes.emplace_back("usage counts are all zero");
    usage = {};
  }
  return usage;
}

}  // namespace kvphase::endpoint
