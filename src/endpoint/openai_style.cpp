#include "endpoint/openai_style.h"

#include "base/error.h"
#include "endpoint/json_text.h"
#include "endpoint/kinds.h"
#include "endpoint/logprobs.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Content is a string, or a list of {type: "text", text}.
std::string content_text(const Json* content) {
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array()) {
    for (const Json& part : *content) {
      if (const Json* piece = find(part, "text"); piece != nullptr && piece->is_string()) {
        text += piece->get<std::string>();
      }
    }
  }
  return text;
}

std::vector<lm::TokenId> ids_of(const Json* array) {
  std::vector<lm::TokenId> ids;
  if (array == nullptr || !array->is_array()) return ids;
  for (const Json& id : *array) {
    if (!id.is_number_integer()) return {};
    ids.push_back(id.get<lm::TokenId>());
  }
  return ids;
}

void append_text(Json& object, const char* key, const Json* piece) {
  if (piece == nullptr || !piece->is_string()) return;
  Json& whole = object[key];
  whole = (whole.is_string() ? whole.get<std::string>() : "") + piece->get<std::string>();
}

}  // namespace

Capabilities OpenAiStyle::capabilities() const {
  Capabilities can;
  can.text_prompts = kind_ == ServerKind::kGeneric || kind_ == ServerKind::kDeepSeek;
  can.max_top_logprobs = 20;
  if (kind_ == ServerKind::kDeepSeek) {
    can.cold_switch = true;  // user_id isolates the cache
    can.cache_note = "a fresh user_id per request; each pays the full prompt price";
  } else {
    can.cache_note =
        "the provider caches prompts as it likes; cached tokens are reported, not prevented";
  }
  return can;
}

Json OpenAiStyle::common_body(const CompletionRequest& request) const {
  Json body = Json::object();
  if (!settings_.model.empty()) body["model"] = settings_.model;
  if (!request.messages.empty()) {
    Json& messages = body["messages"] = Json::array();
    for (const ChatMessage& message : request.messages) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
    }
  } else if (request.tokens.empty()) {  // token ids are put in last, by finish()
    body["prompt"] = request.text;
  }
  body["max_tokens"] = request.max_tokens;
  body["temperature"] = request.temperature;
  if (request.seed && kind_ != ServerKind::kDeepSeek) {
    body["seed"] = *request.seed & 0x7fffffffU;  // some servers read 32 bits
  }
  if (!request.stop.empty()) body["stop"] = request.stop;
  if (request.top_logprobs > 0) {
    if (request.messages.empty()) {
      body["logprobs"] = request.top_logprobs;
    } else {
      body["logprobs"] = true;
      body["top_logprobs"] = request.top_logprobs;
    }
  }
  if (request.stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  return body;
}

void OpenAiStyle::add_members(Json& body, const CompletionRequest& request) const {
  if (kind_ == ServerKind::kDeepSeek) {
    if (settings_.reasoning_off) body["thinking"] = {{"type", "disabled"}};
    if (!request.cache_salt.empty()) body["user_id"] = request.cache_salt;
  } else if (kind_ == ServerKind::kOpenRouter) {
    if (settings_.reasoning_off) body["reasoning"] = {{"enabled", false}};
    body["usage"] = {{"include", true}};
  }
}

WireRequest OpenAiStyle::finish(Json body, const CompletionRequest& request) const {
  merge_extra(body, settings_.extra);
  const char* route = request.messages.empty() ? "/completions" : "/chat/completions";
  if (!request.tokens.empty()) {
    return token_request(settings_.version + route, body, "prompt", request.tokens);
  }
  return json_request(settings_.version + route, body);
}

WireRequest OpenAiStyle::completion(const CompletionRequest& request) const {
  const Capabilities can = capabilities();
  if (!request.tokens.empty() && !can.token_prompts) {
    throw base::usage_error("endpoint",
                            "expected a text or chat prompt for {}, got token ids, which it does "
                            "not take",
                            name_of(kind_));
  }
  if (!request.text.empty() && !can.text_prompts) {
    throw base::usage_error("endpoint", "expected a chat prompt for {}, got raw text",
                            name_of(kind_));
  }
  if (request.top_logprobs > can.max_top_logprobs) {
    throw base::usage_error("endpoint", "expected at most {} log-probabilities from {}, got {}",
                            can.max_top_logprobs, name_of(kind_), request.top_logprobs);
  }
  Json body = common_body(request);
  add_members(body, request);
  return finish(std::move(body), request);
}

void OpenAiStyle::read(const Json& body, const CompletionRequest& request, Reply& reply) const {
  const Json* choices = find(body, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty() ||
      !choices->front().is_object()) {
    reply.outcome = Outcome::kInvalidBody;
    reply.detail =
        "no choices in " + excerpt(body.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  const Json& choice = choices->front();
  if (const Json* reason = find(choice, "finish_reason");
      reason != nullptr && reason->is_string()) {
    reply.finish_reason = reason->get<std::string>();
  }
  if (const Json* message = find(choice, "message")) {
    reply.text = content_text(find(*message, "content"));
    for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
      if (reply.reasoning.empty()) reply.reasoning = content_text(find(*message, key));
    }
    if (const Json* refusal = find(*message, "refusal");
        refusal != nullptr && refusal->is_string() && reply.text.empty() &&
        !refusal->get<std::string>().empty()) {
      reply.outcome = Outcome::kRefused;
      reply.detail = "refused: " + excerpt(refusal->get<std::string>());
    }
  } else {
    reply.text = content_text(find(choice, "text"));
  }
  reply.usage = read_usage(body, reply.notes);
  const Json* prompt_ids = find(choice, "prompt_token_ids");
  reply.prompt_ids = ids_of(prompt_ids != nullptr ? prompt_ids : find(body, "prompt_token_ids"));
  reply.generated_ids = ids_of(find(choice, "token_ids"));
  if (request.top_logprobs > 0) {
    read_first_token(body, request.top_logprobs, reply);
  } else {
    reply.first_absent = "not asked for";
  }
  if (reply.first && !reply.first->id && !reply.generated_ids.empty()) {
    reply.first->id = reply.generated_ids.front();
  }
  split_reasoning(reply);
  decide_outcome(request, reply);
}

bool OpenAiStyle::fold(Json& whole, const Json& event) const {
  if (const Json* usage = find(event, "usage")) whole["usage"] = *usage;
  const Json* choices = find(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return false;
  const Json& piece = choices->front();
  Json& choice = whole["choices"][0];
  if (const Json* delta = find(piece, "delta")) {
    Json& message = choice["message"];
    if (!message.is_object()) message = Json::object();
    for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"}) {
      append_text(message, key, find(*delta, key));
    }
  } else {
    append_text(choice, "text", find(piece, "text"));
  }
  if (const Json* ids = find(piece, "prompt_token_ids")) choice["prompt_token_ids"] = *ids;
  if (const Json* ids = find(piece, "token_ids"); ids != nullptr && ids->is_array()) {
    for (const Json& id : *ids) choice["token_ids"].push_back(id);
  }
  // Only the first token's log-probabilities are read; the first chunk that has any holds them.
  if (const Json* logprobs = find(piece, "logprobs");
      logprobs != nullptr && !choice.contains("logprobs")) {
    const Json* content = find(*logprobs, "content");
    const Json* tokens = find(*logprobs, "tokens");
    if ((content != nullptr && !content->empty()) || (tokens != nullptr && !tokens->empty())) {
      choice["logprobs"] = *logprobs;
    }
  }
  if (const Json* reason = find(piece, "finish_reason")) {
    choice["finish_reason"] = *reason;
    return true;
  }
  return false;
}

std::unique_ptr<ServerApi> make_openai_style(ServerKind kind, ServerSettings settings) {
  return std::make_unique<OpenAiStyle>(kind, std::move(settings));
}

}  // namespace kvphase::endpoint
