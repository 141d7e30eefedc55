#include "serve/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "serve/parameters.h"

namespace kvphase::serve {
namespace {

using base::Json;
using lm::TokenId;

constexpr std::int64_t kMaxStops = 16;
constexpr std::int64_t kDefaultMaxTokens = 16;  // of /v1/completions, as OpenAI and vLLM

TokenId token_from(const Json& value, std::int64_t vocab_size, const std::string& param) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX);
  const std::int64_t last = vocab_size > 0 ? vocab_size - 1 : INT32_MAX;
  if (!fits || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > last) {
    throw invalid_request(fmt::format("expected the tokens of '{}' to be ids of 0 to {}, got {}",
                                      param, last, shown(value)),
                          param, "invalid_value");
  }
  return static_cast<TokenId>(value.get<std::int64_t>());
}

std::vector<TokenId> tokens_from(const Json& list, std::int64_t vocab_size,
                                 const std::string& param) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const Json& value : list) tokens.push_back(token_from(value, vocab_size, param));
  return tokens;
}

// string | [string] | [int] | [[int]]
std::vector<Prompt> prompts_from(const Parameters& body, const ServeOptions& options,
                                 std::int64_t vocab_size) {
  const Json& prompt = body.required("prompt");
  if (prompt.is_string()) return {prompt.get<std::string>()};
  const char* kinds = "a text, a list of texts, a list of token ids or a list of such lists";
  if (!prompt.is_array() || prompt.empty()) throw body.wrong("prompt", kinds);
  if (prompt.front().is_number()) return {tokens_from(prompt, vocab_size, "prompt")};
  if (static_cast<std::int64_t>(prompt.size()) > options.max_prompts) {
    throw invalid_request(fmt::format("expected at most {} prompts in a request, got {}",
                                      options.max_prompts, prompt.size()),
                          "prompt", "too_many_prompts");
  }
  std::vector<Prompt> prompts;
  for (const Json& one : prompt) {
    if (one.type() != prompt.front().type()) throw body.wrong("prompt", kinds);
    if (one.is_string()) {
      prompts.emplace_back(one.get<std::string>());
    } else if (one.is_array()) {
      prompts.emplace_back(tokens_from(one, vocab_size, "prompt"));
    } else {
      throw body.wrong("prompt", kinds);
    }
  }
  return prompts;
}

std::vector<std::string> stops_from(const Parameters& body) {
  const Json* stop = body.find("stop");
  if (stop == nullptr) return {};
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  std::vector<std::string> stops;
  for (const Json& one : list) {
    if (!one.is_string() || one.get<std::string>().empty()) {
      throw body.wrong("stop", "a text or a list of texts, none of them empty");
    }
    stops.push_back(one.get<std::string>());
  }
  if (static_cast<std::int64_t>(stops.size()) > kMaxStops) {
    throw body.wrong("stop", fmt::format("at most {} texts", kMaxStops));
  }
  return stops;
}

// What would change the sampled text and is not implemented is refused unless it asks for nothing.
void refuse_unsupported(const Parameters& body) {
  if (body.integer("n").value_or(1) != 1) throw body.unsupported("n", "1");
  if (body.real("top_p").value_or(1) != 1) throw body.unsupported("top_p", "1");
  for (const char* name : {"presence_penalty", "frequency_penalty"}) {
    if (body.real(name).value_or(0) != 0) throw body.unsupported(name, "0");
  }
  const Json* bias = body.find("logit_bias");
  if (bias != nullptr && !bias->is_object()) throw body.wrong("logit_bias", "an object");
  if (bias != nullptr && !bias->empty()) throw body.unsupported("logit_bias", "none");
}

void read_common(const Parameters& body, TextRequest& request) {
  request.model = body.text("model").value_or("");
  request.temperature = body.real("temperature", 0, 100).value_or(1);
  request.seed = body.integer("seed");
  request.stop = stops_from(body);
  request.stream = body.boolean("stream");
  request.return_token_ids = body.boolean("return_token_ids");
  request.return_tokens_as_token_ids = body.boolean("return_tokens_as_token_ids");
  if (const Json* options = body.find("stream_options")) {
    const Parameters stream_options(*options, "stream_options.");
    request.include_usage = stream_options.boolean("include_usage");
    if (!request.stream) throw body.unsupported("stream_options", "none without 'stream': true");
  }
  refuse_unsupported(body);
}

// -1 asks for the whole vocabulary, where the server allows that many.
std::int64_t checked_logprobs(std::int64_t wanted, const std::string& param,
                              const ServeOptions& options, std::int64_t vocab_size) {
  const bool unlimited = options.max_logprobs < 0;
  if (wanted == -1 && (unlimited || options.max_logprobs >= vocab_size) && vocab_size > 0) {
    return vocab_size;
  }
  if (wanted < 0 || (!unlimited && wanted > options.max_logprobs)) {
    throw invalid_request(
        fmt::format("expected '{}' to be at most {}, the log-probabilities this server gives per "
                    "token, got {}; start the server with a larger --max-logprobs",
                    param, options.max_logprobs, wanted),
        param, "invalid_value");
  }
  return vocab_size > 0 ? std::min(wanted, vocab_size) : wanted;
}

std::string content_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw invalid_request(fmt::format("expected a message's 'content' to be a text or a list of "
                                      "text parts, got {}",
                                      shown(content)),
                          "messages", "invalid_value");
  }
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text) {
      throw invalid_request(
          fmt::format("expected the parts of a message's 'content' to be of type text, got {}",
                      shown(part)),
          "messages", "invalid_value");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

}  // namespace

std::string render_chat(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    throw invalid_request(
        fmt::format("expected 'messages' to be a list of at least one message, got {}",
                    shown(messages)),
        "messages", "invalid_value");
  }
  std::string text;
  for (const Json& message : messages) {
    const bool has_role =
        message.is_object() && message.contains("role") && message["role"].is_string();
    if (!has_role || !message.contains("content")) {
      throw invalid_request(fmt::format("expected each of 'messages' to have a text 'role' and a "
                                        "'content', got {}",
                                        shown(message)),
                            "messages", "invalid_value");
    }
    if (!text.empty()) text += "\n";
    text += content_text(message["content"]);
  }
  return text;
}

TextRequest completion_request(const Json& json, const ServeOptions& options,
                               std::int64_t vocab_size) {
  const Parameters body(json);
  TextRequest request{.route = Route::kCompletion};
  read_common(body, request);
  request.prompts = prompts_from(body, options, vocab_size);
  request.max_tokens = body.integer("max_tokens", 0, INT64_MAX).value_or(kDefaultMaxTokens);
  if (const auto wanted = body.integer("logprobs")) {
    request.top_logprobs = checked_logprobs(*wanted, "logprobs", options, vocab_size);
  }
  if (body.boolean("echo")) {
    throw body.unsupported("echo", "false (the model gives no log-probabilities of the prompt)");
  }
  if (body.integer("best_of").value_or(1) != 1) throw body.unsupported("best_of", "1");
  if (!body.text("suffix").value_or("").empty()) throw body.unsupported("suffix", "none");
  if (body.integer("prompt_logprobs")) throw body.unsupported("prompt_logprobs", "none");
  return request;
}

TextRequest chat_request(const Json& json, const ServeOptions& options, std::int64_t vocab_size) {
  const Parameters body(json);
  TextRequest request{.route = Route::kChat};
  read_common(body, request);
  request.prompts = {render_chat(body.required("messages"))};
  const auto completion_tokens = body.integer("max_completion_tokens", 0, INT64_MAX);
  const auto max_tokens = body.integer("max_tokens", 0, INT64_MAX);
  request.max_tokens = completion_tokens ? completion_tokens : max_tokens;
  const bool logprobs = body.boolean("logprobs");
  const auto top = body.integer("top_logprobs");
  if (top && !logprobs) {
    throw invalid_request("'top_logprobs' requires 'logprobs' to be true", "top_logprobs",
                          "invalid_value");
  }
  if (logprobs) {
    request.top_logprobs = checked_logprobs(top.value_or(0), "top_logprobs", options, vocab_size);
  }
  for (const char* name : {"tools", "functions"}) {
    const Json* value = body.find(name);
    if (value != nullptr && !value->is_array()) throw body.wrong(name, "a list");
    if (value != nullptr && !value->empty()) throw body.unsupported(name, "none");
  }
  if (const Json* format = body.find("response_format")) {
    const Parameters response_format(*format, "response_format.");
    if (response_format.text("type").value_or("text") != "text") {
      throw response_format.unsupported("type", "\"text\"");
    }
  }
  return request;
}

TokenizeRequest tokenize_request(const Json& json) {
  const Parameters body(json);
  TokenizeRequest request{.return_token_strings = body.boolean("return_token_strs")};
  body.boolean("add_special_tokens");  // there are none to add
  if (const Json* messages = body.find("messages")) {
    request.prompt = render_chat(*messages);
    return request;
  }
  body.required("prompt");
  request.prompt = *body.text("prompt");
  return request;
}

std::vector<TokenId> detokenize_request(const Json& json, std::int64_t vocab_size) {
  const Parameters body(json);
  const Json& tokens = body.required("tokens");
  if (!tokens.is_array()) throw body.wrong("tokens", "a list of token ids");
  return tokens_from(tokens, vocab_size, "tokens");
}

}  // namespace kvphase::serve
