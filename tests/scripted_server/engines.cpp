#include "tests/scripted_server/engines.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/random.h"

namespace kvphase::scripted {
namespace {

using base::Json;
using Ids = std::vector<std::int32_t>;

Json not_found() { return {{"error", {{"message", "not found"}, {"code", 404}}}}; }

// A prompt as any route gives it.
struct Prompt {
  Ids ids;
  bool chat = false;
};

Prompt read_prompt(const Json& body, const EngineOptions& options) {
  Prompt prompt;
  const auto in_front = [&](std::int64_t count) {
    prompt.ids.insert(prompt.ids.begin(), static_cast<std::size_t>(count), 1);
  };
  if (body.contains("messages")) {
    prompt.chat = true;
    for (const Json& message : body["messages"]) {
      const Ids ids = scripted_tokens(message["content"].get<std::string>());
      prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    }
    in_front(options.template_overhead);
    return prompt;
  }
  for (const char* key : {"input_ids", "prompt", "text"}) {
    if (!body.contains(key)) continue;
    if (body[key].is_array()) {
      prompt.ids = body[key].get<Ids>();
    } else {
      prompt.ids = scripted_tokens(body[key].get<std::string>());
      in_front(options.bos);
    }
  }
  return prompt;
}

std::int64_t usage_of(const Prompt& prompt, const EngineOptions& options, const Request& request) {
  const auto n = static_cast<std::int64_t>(prompt.ids.size());
  return options.usage ? options.usage(n, request) : n;
}

Json usage_json(const Prompt& prompt, const EngineOptions& options, const Request& request) {
  if (!options.report_usage) return nullptr;
  const std::int64_t n = usage_of(prompt, options, request);
  return {{"prompt_tokens", n},
          {"completion_tokens", 1},
          {"total_tokens", n + 1},
          {"prompt_tokens_details", {{"cached_tokens", options.cached_tokens}}}};
}

std::string word(std::int32_t token) { return scripted_text({token}); }

std::string said(std::int32_t token, const EngineOptions& options) {
  return options.say ? options.say(token) : word(token);
}

}  // namespace

Ids scripted_tokens(std::string_view text) {
  Ids ids;
  std::size_t start = 0;
  while (start < text.size()) {
    if (text[start] == ' ' || text[start] == '\n') {
      ++start;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", start), text.size());
    const std::string_view one = text.substr(start, end - start);
    start = end;
    std::int32_t id = 0;
    if (one.size() > 1 && one[0] == 'w') {
      const auto [stop, error] = std::from_chars(one.data() + 1, one.data() + one.size(), id);
      if (error == std::errc{} && stop == one.data() + one.size()) {
        ids.push_back(id);
        continue;
      }
    }
    for (std::size_t i = 0; i < one.size(); i += 6) {
      std::uint64_t hash = 7;
      for (const char c : one.substr(i, 6))
        hash = base::mix64(hash ^ static_cast<unsigned char>(c));
      ids.push_back(100'000 + static_cast<std::int32_t>(hash % 100'000));
    }
  }
  return ids;
}

std::string scripted_text(const Ids& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += " w" + std::to_string(token);
  return text;
}

Model lookup_model(std::function<bool(std::int64_t)> wrong) {
  return [wrong = std::move(wrong)](const Ids& prompt) {
    for (std::size_t i = 0; i + 1 < prompt.size(); ++i) {
      if (prompt[i] != prompt.back()) continue;
      const std::int32_t right = prompt[i + 1];
      const std::int32_t other = right + 1;
      if (wrong(static_cast<std::int64_t>(i))) {
        return std::vector<Alternative>{{other, -0.25}, {right, -2.5}, {3, -4}};
      }
      return std::vector<Alternative>{{right, -0.125}, {other, -3}, {3, -4}};
    }
    return std::vector<Alternative>{{2, -0.5}, {3, -1.5}};
  };
}

Handler llama_cpp_engine(EngineOptions options) {
  return [options](const Request& request) -> Reply {
    if (request.path == "/props") {
      return json_reply({{"default_generation_settings", {{"n_ctx", options.context}}},
                         {"total_slots", 1},
                         {"model_path", "/models/scripted.gguf"},
                         {"build_info", "b9931-scripted"}});
    }
    if (request.path == "/v1/models") {
      return json_reply(
          {{"object", "list"}, {"data", {{{"id", "scripted.gguf"}, {"owned_by", "llamacpp"}}}}});
    }
    const Json body = request.json();
    if (request.path == "/tokenize") {
      Ids ids = scripted_tokens(body["content"].get<std::string>());
      if (body.value("add_special", false)) {
        ids.insert(ids.begin(), static_cast<std::size_t>(options.bos), 1);
      }
      return json_reply({{"tokens", ids}});
    }
    if (request.path == "/detokenize") {
      return json_reply({{"content", scripted_text(body["tokens"].get<Ids>())}});
    }
    if (request.path != "/completion") return json_reply(not_found(), 404);
    if (options.fault) {
      if (auto reply = options.fault(request)) return *reply;
    }
    const Prompt prompt = read_prompt(body, options);
    const auto n = static_cast<std::int64_t>(prompt.ids.size());
    if (n > options.context) {
      return json_reply(
          {{"error",
            {{"code", 400},
             {"message", "request exceeds the available context size, try increasing it"},
             {"type", "exceed_context_size_error"},
             {"n_prompt_tokens", n},
             {"n_ctx", options.context}}}},
          400);
    }
    const auto answer = options.model(prompt.ids);
    Json reply = {{"content", said(answer[0].token, options)},
                  {"tokens", Ids{answer[0].token}},
                  {"stop", true},
                  {"stop_type", options.say ? "eos" : "limit"},
                  {"tokens_evaluated", usage_of(prompt, options, request)},
                  {"tokens_predicted", 1},
                  {"truncated", false},
                  {"timings", {{"cache_n", options.cached_tokens}, {"prompt_n", n}}}};
    if (body.value("n_probs", 0) > 0) {
      Json entry = {{"id", answer[0].token},
                    {"token", word(answer[0].token)},
                    {"logprob", answer[0].logprob},
                    {"top_logprobs", Json::array()}};
      for (const auto& [token, logprob] : answer) {
        entry["top_logprobs"].push_back(
            {{"id", token}, {"token", word(token)}, {"logprob", logprob}});
      }
      reply["completion_probabilities"] = Json::array({entry});
    }
    return json_reply(reply);
  };
}

Handler vllm_engine(EngineOptions options, std::string owner) {
  return [options, owner = std::move(owner)](const Request& request) -> Reply {
    if (request.path == "/version" && owner == "vllm") return json_reply({{"version", "0.99"}});
    if (request.path == "/v1/models") {
      Json model = {{"id", "scripted"}, {"owned_by", owner}, {"max_model_len", options.context}};
      if (!options.card.is_null()) model["kvphase"] = options.card;
      return json_reply({{"object", "list"}, {"data", Json::array({model})}});
    }
    const Json body = request.json();
    if (request.path == "/tokenize") {
      Ids ids = scripted_tokens(body["prompt"].get<std::string>());
      if (body.value("add_special_tokens", true)) {
        ids.insert(ids.begin(), static_cast<std::size_t>(options.bos), 1);
      }
      return json_reply(
          {{"count", ids.size()}, {"max_model_len", options.context}, {"tokens", ids}});
    }
    if (request.path == "/detokenize") {
      return json_reply({{"prompt", scripted_text(body["tokens"].get<Ids>())}});
    }
    if (request.path != "/v1/completions" && request.path != "/v1/chat/completions") {
      return json_reply(not_found(), 404);
    }
    if (options.fault) {
      if (auto reply = options.fault(request)) return *reply;
    }
    const Prompt prompt = read_prompt(body, options);
    if (static_cast<std::int64_t>(prompt.ids.size()) > options.context) {
      return json_reply({{"error",
                          {{"message", "This model's maximum context length is " +
                                           std::to_string(options.context) + " tokens."},
                           {"type", "BadRequestError"},
                           {"param", nullptr},
                           {"code", 400}}}},
                        400);
    }
    const auto answer = options.model(prompt.ids);
    const std::string text = said(answer[0].token, options);
    Json choice = {
        {"index", 0}, {"finish_reason", options.say ? "stop" : "length"}, {"logprobs", nullptr}};
    if (prompt.chat) {
      choice["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      choice["text"] = text;
    }
    if (body.contains("logprobs") && !prompt.chat) {
      const auto shown = [&](std::int32_t token) {
        return body.value("return_tokens_as_token_ids", false) ? "token_id:" + std::to_string(token)
                                                               : word(token);
      };
      Json top = Json::object();
      for (const auto& [token, logprob] : answer) top[shown(token)] = logprob;
      choice["logprobs"] = {{"tokens", {shown(answer[0].token)}},
                            {"token_logprobs", {answer[0].logprob}},
                            {"top_logprobs", Json::array({top})},
                            {"text_offset", {0}}};
    }
    if (body.value("return_token_ids", false) && options.returns_ids) {
      choice["prompt_token_ids"] = prompt.ids;
      choice["token_ids"] = Ids{answer[0].token};
    }
    return json_reply({{"object", "text_completion"},
                       {"choices", Json::array({choice})},
                       {"usage", usage_json(prompt, options, request)}});
  };
}

Handler sglang_engine(EngineOptions options) {
  return [options](const Request& request) -> Reply {
    if (request.path == "/get_model_info") return json_reply({{"model_path", "scripted"}});
    if (request.path == "/get_server_info") {
      return json_reply({{"version", "0.9"}, {"context_length", options.context}});
    }
    if (request.path == "/v1/models") {
      return json_reply(
          {{"object", "list"}, {"data", {{{"id", "scripted"}, {"owned_by", "sglang"}}}}});
    }
    if (request.path != "/generate") return json_reply(not_found(), 404);
    if (options.fault) {
      if (auto reply = options.fault(request)) return *reply;
    }
    const Json body = request.json();
    const Prompt prompt = read_prompt(body, options);
    if (static_cast<std::int64_t>(prompt.ids.size()) > options.context) {
      return json_reply({{"object", "error"},
                         {"message", "The input is longer than the model's context length"},
                         {"type", "BadRequestError"},
                         {"param", nullptr},
                         {"code", 400}},
                        400);
    }
    const auto answer = options.model(prompt.ids);
    Json meta = {{"prompt_tokens", usage_of(prompt, options, request)},
                 {"completion_tokens", 1},
                 {"cached_tokens", options.cached_tokens},
                 {"finish_reason", {{"type", "length"}, {"length", 1}}}};
    if (body.value("return_logprob", false)) {
      Json top = Json::array();
      for (const auto& [token, logprob] : answer) {
        top.push_back(Json::array({logprob, token, word(token)}));
      }
      meta["output_token_logprobs"] = Json::array({top[0]});
      meta["output_top_logprobs"] = Json::array({top});
    }
    return json_reply({{"text", said(answer[0].token, options)},
                       {"output_ids", Ids{answer[0].token}},
                       {"meta_info", meta}});
  };
}

Handler ollama_engine(EngineOptions options) {
  return [options](const Request& request) -> Reply {
    if (request.path == "/api/version") return json_reply({{"version", "0.30.5"}});
    if (request.path == "/v1/models") {
      return json_reply(
          {{"object", "list"}, {"data", {{{"id", "scripted"}, {"owned_by", "library"}}}}});
    }
    const bool chat = request.path == "/api/chat";
    if (request.path != "/api/generate" && !chat) return json_reply({{"error", "not found"}}, 404);
    if (options.fault) {
      if (auto reply = options.fault(request)) return *reply;
    }
    const Json body = request.json();
    Prompt prompt = read_prompt(body, options);
    // Silent truncation, as reported for Ollama.
    const std::int64_t context = body.contains("options")
                                     ? body["options"].value("num_ctx", options.context)
                                     : options.context;
    if (static_cast<std::int64_t>(prompt.ids.size()) > context) {
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - (context / 2 + 2));
    }
    const auto answer = options.model(prompt.ids);
    Json reply = {
        {"model", "scripted"}, {"done", true}, {"done_reason", options.say ? "stop" : "length"}};
    if (chat) {
      reply["message"] = {{"role", "assistant"}, {"content", said(answer[0].token, options)}};
    } else {
      reply["response"] = said(answer[0].token, options);
    }
    if (options.report_usage) {
      reply["prompt_eval_count"] = usage_of(prompt, options, request);
      reply["eval_count"] = 1;
    }
    if (body.value("logprobs", false)) {
      Json entry = {{"token", word(answer[0].token)},
                    {"logprob", answer[0].logprob},
                    {"top_logprobs", Json::array()}};
      for (const auto& [token, logprob] : answer) {
        entry["top_logprobs"].push_back({{"token", word(token)}, {"logprob", logprob}});
      }
      reply["logprobs"] = Json::array({entry});
    }
    return json_reply(reply);
  };
}

Handler chat_api(EngineOptions options) {
  return [options](const Request& request) -> Reply {
    if (request.path == "/v1/models") {
      return json_reply(
          {{"object", "list"}, {"data", {{{"id", "hosted"}, {"owned_by", "somebody"}}}}});
    }
    if (request.path != "/v1/chat/completions") return json_reply(not_found(), 404);
    if (options.fault) {
      if (auto reply = options.fault(request)) return *reply;
    }
    const Prompt prompt = read_prompt(request.json(), options);
    const auto answer = options.model(prompt.ids);
    return json_reply(
        {{"choices",
          {{{"index", 0},
            {"finish_reason", "stop"},
            {"message", {{"role", "assistant"}, {"content", said(answer[0].token, options)}}}}}},
         {"usage", usage_json(prompt, options, request)}});
  };
}

}  // namespace kvphase::scripted
