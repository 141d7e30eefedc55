// llama.cpp's llama-server: the native /completion for token ids and text, the OpenAI-style route
// for chat. Pure id arrays get no BOS there, text does when the model wants one.
#include "base/error.h"
#include "endpoint/json_text.h"
#include "endpoint/kinds.h"
#include "endpoint/logprobs.h"
#include "endpoint/openai_style.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

class LlamaCpp : public OpenAiStyle {
 public:
  explicit LlamaCpp(ServerSettings settings)
      : OpenAiStyle(ServerKind::kLlamaCpp, std::move(settings)) {}

  Capabilities capabilities() const override {
    return {.token_prompts = true,
            .text_prompts = true,
            .chat = true,
            .tokenizer = true,
            .max_top_logprobs = 1000,  // n_probs has no documented limit; ours keeps replies small
            .ids_in_logprobs = true,
            .cold_switch = true,
            .cache_note = "cache_prompt=false; one slot (-np 1) keeps batches from mixing"};
  }

  WireRequest completion(const CompletionRequest& request) const override {
    if (!request.messages.empty()) return OpenAiStyle::completion(request);
    Json body = Json::object();
    if (request.tokens.empty()) body["prompt"] = request.text;
    body["n_predict"] = request.max_tokens;
    body["temperature"] = request.temperature;
    if (request.seed) body["seed"] = *request.seed & 0x7fffffffU;
    if (!request.stop.empty()) body["stop"] = request.stop;
    body["n_probs"] = request.top_logprobs;
    body["cache_prompt"] = !request.cold;
    body["return_tokens"] = true;
    body["stream"] = request.stream;
    merge_extra(body, settings_.extra);
    if (request.tokens.empty()) return json_request("/completion", body);
    return token_request("/completion", body, "prompt", request.tokens);
  }

  void read(const Json& body, const CompletionRequest& request, Reply& reply) const override {
    if (body.contains("choices")) {
      OpenAiStyle::read(body, request, reply);
      return;
    }
    if (!body.is_object() || !body.contains("content") || !body["content"].is_string()) {
      reply.outcome = Outcome::kInvalidBody;
      reply.detail =
          "no content in " + excerpt(body.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    reply.text = body["content"].get<std::string>();
    const auto text = [&](const char* key) {
      return body.contains(key) && body[key].is_string() ? body[key].get<std::string>() : "";
    };
    const auto count = [](const Json& object, const char* key) -> std::optional<std::int64_t> {
      if (!object.is_object() || !object.contains(key) || !object[key].is_number_integer()) {
        return std::nullopt;
      }
      return object[key].get<std::int64_t>();
    };
    const std::string stop = text("stop_type");
    reply.finish_reason = stop == "limit" ? "length" : stop.empty() ? "" : "stop";
    reply.usage.prompt_tokens = count(body, "tokens_evaluated");
    reply.usage.completion_tokens = count(body, "tokens_predicted");
    if (body.contains("timings")) reply.usage.cached_tokens = count(body["timings"], "cache_n");
    if (body.contains("tokens") && body["tokens"].is_array()) {
      for (const Json& id : body["tokens"]) {
        if (id.is_number_integer()) reply.generated_ids.push_back(id.get<lm::TokenId>());
      }
    }
    if (request.top_logprobs > 0) {
      read_first_token(body, request.top_logprobs, reply);
    } else {
      reply.first_absent = "not asked for";
    }
    if (reply.first && !reply.first->id && !reply.generated_ids.empty()) {
      reply.first->id = reply.generated_ids.front();
    }
    // The flag is also set when the answer, not the prompt, met the end of the context. With ids
    // the count tells the two apart.
    const bool whole_prompt =
        !request.tokens.empty() && reply.usage.prompt_tokens == std::ssize(request.tokens);
    if (body.contains("truncated") && body["truncated"] == true && !whole_prompt) {
      reply.outcome = Outcome::kPromptTruncated;
      reply.detail = "the server says that it truncated the prompt";
    }
    split_reasoning(reply);
    decide_outcome(request, reply);
  }

  bool fold(Json& whole, const Json& event) const override {
    if (event.contains("choices")) return OpenAiStyle::fold(whole, event);
    if (!event.is_object()) return false;
    for (const auto& [key, value] : event.items()) {
      if (key == "content" && value.is_string()) {
        whole["content"] = whole.value("content", std::string()) + value.get<std::string>();
      } else if (key == "tokens" && value.is_array()) {
        for (const Json& id : value) whole["tokens"].push_back(id);
      } else if (key == "completion_probabilities" && whole.contains(key)) {
        continue;  // only the first token's are read
      } else {
        whole[key] = value;
      }
    }
    return event.contains("stop") && event["stop"] == true;
  }

  std::optional<WireRequest> tokenize(std::string_view text, bool add_special) const override {
    return json_request("/tokenize",
                        {{"content", std::string(text)}, {"add_special", add_special}});
  }

  std::optional<WireRequest> detokenize(std::span<const lm::TokenId> tokens) const override {
    return json_request("/detokenize", {{"tokens", tokens}});
  }

 protected:
  void add_members(Json& body, const CompletionRequest& request) const override {
    body["cache_prompt"] = !request.cold;
    if (settings_.reasoning_off) body["chat_template_kwargs"] = {{"enable_thinking", false}};
  }
};

}  // namespace

std::unique_ptr<ServerApi> make_llama_cpp(ServerSettings settings) {
  return std::make_unique<LlamaCpp>(std::move(settings));
}

}  // namespace kvphase::endpoint
