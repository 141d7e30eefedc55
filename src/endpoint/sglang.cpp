// SGLang: the native /generate for token ids and text, the OpenAI-style route for chat.
#include "endpoint/json_text.h"
#include "endpoint/kinds.h"
#include "endpoint/logprobs.h"
#include "endpoint/openai_style.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

class Sglang : public OpenAiStyle {
 public:
  explicit Sglang(ServerSettings settings)
      : OpenAiStyle(ServerKind::kSglang, std::move(settings)) {}

  Capabilities capabilities() const override {
    return {.token_prompts = true,
            .text_prompts = true,
            .chat = true,
            .max_top_logprobs = 1000,
            .ids_in_logprobs = true,
            .cache_note =
                "no switch per request: start it with --disable-radix-cache, or flush "
                "with /flush_cache between requests; with cached prompts greedy answers "
                "have been seen to change"};
  }

  WireRequest completion(const CompletionRequest& request) const override {
    if (!request.messages.empty()) return OpenAiStyle::completion(request);
    Json body = Json::object();
    if (request.tokens.empty()) body["text"] = request.text;
    // Everything is said: what is not comes from the model's generation_config, not from SGLang.
    Json& sampling = body["sampling_params"];
    sampling = {{"max_new_tokens", request.max_tokens},
                {"temperature", request.temperature},
                {"top_p", 1.0},
                {"top_k", -1},
                {"min_p", 0.0},
                {"repetition_penalty", 1.0},
                {"frequency_penalty", 0.0},
                {"presence_penalty", 0.0}};
    if (!request.stop.empty()) sampling["stop"] = request.stop;
    if (request.top_logprobs > 0) {
      body["return_logprob"] = true;
      body["logprob_start_len"] = -1;  // generated tokens only: the prompt's cost memory
      body["top_logprobs_num"] = request.top_logprobs;
      body["return_text_in_logprobs"] = true;
    }
    body["stream"] = request.stream;
    merge_extra(body, settings_.extra);
    if (request.tokens.empty()) return json_request("/generate", body);
    return token_request("/generate", body, "input_ids", request.tokens);
  }

  void read(const Json& whole, const CompletionRequest& request, Reply& reply) const override {
    if (whole.is_object() && whole.contains("choices")) {
      OpenAiStyle::read(whole, request, reply);
      return;
    }
    // A list of one when the prompt was a list of one.
    const Json& body = whole.is_array() && !whole.empty() ? whole.front() : whole;
    if (!body.is_object() || !body.contains("text") || !body["text"].is_string()) {
      reply.outcome = Outcome::kInvalidBody;
      reply.detail =
          "no text in " + excerpt(whole.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    reply.text = body["text"].get<std::string>();
    const Json meta = body.value("meta_info", Json::object());
    const auto count = [&](const char* key) -> std::optional<std::int64_t> {
      if (!meta.contains(key) || !meta[key].is_number_integer()) return std::nullopt;
      return meta[key].get<std::int64_t>();
    };
    reply.usage = {.prompt_tokens = count("prompt_tokens"),
                   .completion_tokens = count("completion_tokens"),
                   .cached_tokens = count("cached_tokens")};
    if (meta.contains("finish_reason")) {
      const Json& reason = meta["finish_reason"];
      if (reason.is_object()) reply.finish_reason = reason.value("type", std::string());
      if (reason.is_string()) reply.finish_reason = reason.get<std::string>();
    }
    if (reply.finish_reason == "abort") {
      reply.outcome = Outcome::kErrorInside;
      reply.detail =
          "the server aborted the request: " +
          excerpt(meta["finish_reason"].dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    if (body.contains("output_ids") && body["output_ids"].is_array()) {
      for (const Json& id : body["output_ids"]) {
        if (id.is_number_integer()) reply.generated_ids.push_back(id.get<lm::TokenId>());
      }
    }
    if (request.top_logprobs > 0) {
      read_first_token(body, request.top_logprobs, reply);
    } else {
      reply.first_absent = "not asked for";
    }
    split_reasoning(reply);
    decide_outcome(request, reply);
  }

  bool fold(Json& whole, const Json& event) const override {
    if (event.contains("choices")) return OpenAiStyle::fold(whole, event);
    whole = event;  // each event holds all of the text so far
    const Json meta = event.is_object() ? event.value("meta_info", Json()) : Json();
    return meta.is_object() && meta.contains("finish_reason") && !meta["finish_reason"].is_null();
  }

 protected:
  void add_members(Json& body, const CompletionRequest& request) const override {
    if (settings_.reasoning_off) body["chat_template_kwargs"] = {{"enable_thinking", false}};
    if (!request.cache_salt.empty()) body["cache_salt"] = request.cache_salt;
  }
};

}  // namespace

std::unique_ptr<ServerApi> make_sglang(ServerSettings settings) {
  return std::make_unique<Sglang>(std::move(settings));
}

}  // namespace kvphase::endpoint
