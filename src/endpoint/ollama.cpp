// Ollama: /api/generate with raw text and /api/chat. Neither token ids nor a tokenizer; the OpenAI
// route is not used because it ignores num_ctx and truncates silently.
#include "base/error.h"
#include "endpoint/json_text.h"
#include "endpoint/kinds.h"
#include "endpoint/logprobs.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

class Ollama : public ServerApi {
 public:
  using ServerApi::ServerApi;

  ServerKind kind() const override { return ServerKind::kOllama; }

  Capabilities capabilities() const override {
    return {.text_prompts = true,
            .chat = true,
            .max_top_logprobs = 20,
            .cache_note =
                "no switch per request; older versions leave cached tokens out of "
                "prompt_eval_count, which then reads as truncation"};
  }

  WireRequest completion(const CompletionRequest& request) const override {
    if (!request.tokens.empty()) {
      throw base::usage_error("endpoint",
                              "expected a text or chat prompt for ollama, got token ids, which it "
                              "does not take");
    }
    Json body = {{"model", settings_.model}};
    if (!request.messages.empty()) {
      for (const ChatMessage& message : request.messages) {
        body["messages"].push_back({{"role", message.role}, {"content", message.content}});
      }
      if (settings_.reasoning_off) body["think"] = false;
    } else {
      body["prompt"] = request.text;
      body["raw"] = true;  // no template
    }
    Json& options = body["options"];
    options = {{"temperature", request.temperature}, {"num_predict", request.max_tokens}};
    if (settings_.context_length > 0) options["num_ctx"] = settings_.context_length;
    if (request.seed) options["seed"] = *request.seed & 0x7fffffffU;
    if (!request.stop.empty()) options["stop"] = request.stop;
    if (request.top_logprobs > 0) {
      body["logprobs"] = true;
      body["top_logprobs"] = request.top_logprobs;
    }
    body["stream"] = request.stream;
    merge_extra(body, settings_.extra);
    WireRequest wire = json_request(request.messages.empty() ? "/api/generate" : "/api/chat", body);
    wire.json_lines = true;
    return wire;
  }

  void read(const Json& body, const CompletionRequest& request, Reply& reply) const override {
    const Json message = body.is_object() ? body.value("message", Json()) : Json();
    const Json text = message.is_object() ? message.value("content", Json())
                      : body.is_object()  ? body.value("response", Json())
                                          : Json();
    if (!text.is_string()) {
      reply.outcome = Outcome::kInvalidBody;
      reply.detail = "no response or message in " +
                     excerpt(body.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    reply.text = text.get<std::string>();
    const Json thinking =
        message.is_object() ? message.value("thinking", Json()) : body.value("thinking", Json());
    if (thinking.is_string()) reply.reasoning = thinking.get<std::string>();
    const auto count = [&](const char* key) -> std::optional<std::int64_t> {
      if (!body.contains(key) || !body[key].is_number_integer()) return std::nullopt;
      return body[key].get<std::int64_t>();
    };
    reply.usage = {.prompt_tokens = count("prompt_eval_count"),
                   .completion_tokens = count("eval_count")};
    if (!reply.usage.prompt_tokens) reply.notes.emplace_back("no prompt_eval_count");
    if (body.contains("done_reason") && body["done_reason"].is_string()) {
      reply.finish_reason = body["done_reason"].get<std::string>();
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
    if (!event.is_object()) return false;
    const auto append = [](Json& target, const std::string& key, const Json& piece) {
      if (!piece.is_string()) return;
      target[key] = target.value(key, std::string()) + piece.get<std::string>();
    };
    for (const auto& [key, value] : event.items()) {
      if (key == "response" || key == "thinking") {
        append(whole, key, value);
      } else if (key == "message" && value.is_object()) {
        if (!whole.contains(key)) whole[key] = Json::object();
        for (const char* part : {"content", "thinking"}) {
          append(whole[key], part, value.value(part, Json()));
        }
      } else if (key == "logprobs" && whole.contains(key)) {
        continue;  // only the first token's are read
      } else {
        whole[key] = value;
      }
    }
    return event.value("done", false);
  }
};

}  // namespace

std::unique_ptr<ServerApi> make_ollama(ServerSettings settings) {
  return std::make_unique<Ollama>(std::move(settings));
}

}  // namespace kvphase::endpoint
