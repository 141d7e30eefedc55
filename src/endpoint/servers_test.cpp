#include <gtest/gtest.h>

#include "base/error.h"
#include "endpoint/client.h"
#include "endpoint/detect.h"
#include "endpoint/test_support.h"
#include "tests/scripted_server/engines.h"

namespace kvphase::endpoint {
namespace {

using base::Json;
using scripted::EngineOptions;
using scripted::Request;
using scripted::ScriptedServer;

EngineOptions engine() {
  return {.model = scripted::lookup_model([](std::int64_t) { return false; }), .context = 64};
}

struct Kind {
  ServerKind kind;
  scripted::Handler handler;
};

std::vector<Kind> engines(const EngineOptions& options = engine()) {
  return {{ServerKind::kLlamaCpp, scripted::llama_cpp_engine(options)},
          {ServerKind::kVllm, scripted::vllm_engine(options)},
          {ServerKind::kKvphase, scripted::vllm_engine(options, "kvphase")},
          {ServerKind::kSglang, scripted::sglang_engine(options)},
          {ServerKind::kOllama, scripted::ollama_engine(options)},
          {ServerKind::kGeneric, scripted::chat_api(options)}};
}

TEST(Servers, EachKindIsFoundByAskingWithItsModelAndContext) {
  for (const Kind& kind : engines()) {
    ScriptedServer server(kind.handler);
    Client client(server.url() + "/v1", quiet());
    EXPECT_EQ(name_of(client.info().kind), name_of(kind.kind)) << client.info().evidence;
    EXPECT_FALSE(client.info().model.empty());
    const bool says_context = kind.kind != ServerKind::kOllama && kind.kind != ServerKind::kGeneric;
    EXPECT_EQ(client.info().context_length, says_context ? 64 : 0) << name_of(kind.kind);
  }
}

TEST(Servers, HostedApisAreKnownByTheirHost) {
  const Getter nothing = [](const std::string&) { return std::nullopt; };
  for (const auto& [url, kind] :
       {std::pair{"https://api.openai.com/v1", ServerKind::kOpenAi},
        std::pair{"https://api.deepseek.com", ServerKind::kDeepSeek},
        std::pair{"https://openrouter.ai/api/v1", ServerKind::kOpenRouter},
        std::pair{"https://notopenai.com/v1", ServerKind::kGeneric}}) {
    EXPECT_EQ(detect_server(parse_base_url(url), std::nullopt, nothing).kind, kind) << url;
  }
  EXPECT_EQ(detect_server(parse_base_url("http://x"), ServerKind::kSglang, nothing).kind,
            ServerKind::kSglang);
}

TEST(Servers, AnAddressWithNobodyBehindItIsAnEnvironmentError) {
  std::string url;
  {
    url = ScriptedServer([](const Request&) { return scripted::Reply{}; }).url();
  }
  try {
    Client client(url, quiet());
    FAIL() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("refused"), std::string::npos) << error.what();
  }
}

TEST(Servers, NamesOfKindsAreReadWithTheNearestOneInTheError) {
  for (const auto& entry : server_kinds()) EXPECT_EQ(server_kind_of(entry.name), entry.kind);
  try {
    server_kind_of("vlmm");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("nearest: vllm"), std::string::npos) << error.what();
  }
}

TEST(Servers, TokenPromptsComeBackWithTheFirstTokensRivalsByIdFromEveryEngineThatTakesThem) {
  for (const Kind& kind : engines()) {
    ScriptedServer server(kind.handler);
    Client client(server.url(), quiet());
    const CompletionRequest request{.tokens = {9, 5, 6, 7, 5}, .max_tokens = 1, .top_logprobs = 3};
    if (!client.api().capabilities().token_prompts) {
      EXPECT_THROW(client.complete(request), base::Error) << name_of(kind.kind);
      continue;
    }
    const Reply reply = client.complete(request);
    ASSERT_TRUE(reply.answered()) << name_of(kind.kind) << reply.detail;
    EXPECT_EQ(reply.text, " w6");
    EXPECT_EQ(reply.usage.prompt_tokens, 5);
    ASSERT_TRUE(reply.first) << reply.first_absent;
    EXPECT_EQ(reply.first->id, 6);
    EXPECT_EQ(reply.first->logprob, -0.125);
    ASSERT_EQ(reply.first->top.size(), 3U);
    EXPECT_EQ(reply.first->top[1].id, 7);
    EXPECT_EQ(reply.first->top[1].logprob, -3);
  }
}

TEST(Servers, TextPromptsGoRawOrAreRefusedAndTokenizersAgree) {
  for (const Kind& kind : engines()) {
    ScriptedServer server(kind.handler);
    Client client(server.url(), quiet());
    const Capabilities can = client.api().capabilities();
    if (kind.kind != ServerKind::kGeneric) {
      const Reply reply = client.complete({.text = "w9 w5 w6 w5", .max_tokens = 1});
      EXPECT_EQ(reply.text, " w6") << name_of(kind.kind) << reply.detail;
    }
    std::string why;
    const auto tokens = client.tokenize("w9 w5 abcdefgh", false, why);
    EXPECT_EQ(tokens.has_value(), can.tokenizer) << why;
    if (tokens) {
      EXPECT_EQ(tokens->size(), 4U);
      EXPECT_EQ(client.detokenize(std::vector<lm::TokenId>{9, 5}, why), " w9 w5") << why;
    } else {
      EXPECT_NE(why.find("no tokenizer"), std::string::npos) << why;
    }
  }
}

TEST(Servers, Row4EveryEnginesOwnOverContextErrorIsKnown) {
  for (const Kind& kind : engines()) {
    if (kind.kind == ServerKind::kOllama || kind.kind == ServerKind::kGeneric) continue;
    ScriptedServer server(kind.handler);
    Client client(server.url(), quiet());
    const Reply reply = client.complete({.tokens = std::vector<lm::TokenId>(100, 5)});
    EXPECT_EQ(name_of(reply.outcome), "over_context") << name_of(kind.kind) << reply.detail;
  }
}

// The JSON that a kind would send.
Json wire(ServerKind kind, const CompletionRequest& request, ServerSettings settings = {}) {
  settings.model = "m";
  return Json::parse(make_server(kind, std::move(settings))->completion(request).body);
}

TEST(Servers, Row11ColdRequestsKeepOutOfTheCacheWhereTheServerCanBeTold) {
  const CompletionRequest request{.tokens = {1, 2}, .cold = true, .cache_salt = "s1"};
  EXPECT_EQ(wire(ServerKind::kLlamaCpp, request)["cache_prompt"], false);
  EXPECT_EQ(wire(ServerKind::kVllm, request)["cache_salt"], "s1");
  const CompletionRequest chat{.messages = {{"user", "x"}}, .cache_salt = "s1"};
  EXPECT_EQ(wire(ServerKind::kDeepSeek, chat)["user_id"], "s1");
  CompletionRequest warm = request;
  warm.cold = false;
  EXPECT_EQ(wire(ServerKind::kLlamaCpp, warm)["cache_prompt"], true);
}

TEST(Servers, Row11FreshSaltsAreSentAndAWarmReplyIsNoted) {
  EngineOptions options = engine();
  options.cached_tokens = 3;
  ScriptedServer server(scripted::vllm_engine(options));
  Client client(server.url(), quiet());
  const Reply reply = client.complete({.tokens = {9, 5, 6, 5}});
  client.complete({.tokens = {9, 5, 6, 5}});
  EXPECT_EQ(reply.notes.at(0), "warm: 3 prompt tokens came from a cache");
  const auto requests = server.requests();
  const std::string first = requests.at(requests.size() - 2).json()["cache_salt"];
  const std::string second = requests.back().json()["cache_salt"];
  EXPECT_FALSE(first.empty());
  EXPECT_NE(first, second);
}

TEST(Servers, ReasoningIsSwitchedOffInEachKindsWords) {
  const CompletionRequest chat{.messages = {{"user", "x"}}};
  EXPECT_EQ(wire(ServerKind::kDeepSeek, chat)["thinking"]["type"], "disabled");
  EXPECT_EQ(wire(ServerKind::kOllama, chat)["think"], false);
  EXPECT_EQ(wire(ServerKind::kOpenRouter, chat)["reasoning"]["enabled"], false);
  for (const ServerKind kind : {ServerKind::kLlamaCpp, ServerKind::kVllm, ServerKind::kSglang}) {
    EXPECT_EQ(wire(kind, chat)["chat_template_kwargs"]["enable_thinking"], false);
  }
  const Json on = wire(ServerKind::kDeepSeek, chat, {.reasoning_off = false});
  EXPECT_FALSE(on.contains("thinking"));
}

TEST(Servers, WhatAUserAddsToTheBodyWins) {
  const CompletionRequest chat{.messages = {{"user", "x"}}, .max_tokens = 3};
  const Json body = wire(ServerKind::kOpenAi, chat,
                         {.extra = {{"max_tokens", 7}, {"reasoning_effort", "minimal"}}});
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["reasoning_effort"], "minimal");
}

// As a llama.cpp of October 2026 answers a prompt of 64 ids in a context of 65.
TEST(Servers, Row5LlamaCppsTruncatedFlagOnAnAnswerThatMetTheContextsEndIsNoCutPrompt) {
  const auto api = make_server(ServerKind::kLlamaCpp, {});
  const base::Json body = {{"content", " v15"},      {"truncated", true},
                           {"stop_type", "limit"},   {"tokens_predicted", 1},
                           {"tokens_evaluated", 64}, {"stop", true}};
  Reply whole;
  api->read(body, {.tokens = std::vector<lm::TokenId>(64, 1)}, whole);
  EXPECT_EQ(whole.outcome, Outcome::kOk) << whole.detail;
  Reply cut;
  api->read(body, {.tokens = std::vector<lm::TokenId>(100, 1)}, cut);
  EXPECT_EQ(cut.outcome, Outcome::kPromptTruncated);
  Reply text;
  api->read(body, {.text = "a text of unknown length"}, text);
  EXPECT_EQ(text.outcome, Outcome::kPromptTruncated) << "nothing shows that it is whole";
}

TEST(Servers, Row5OllamaIsToldItsContext) {
  const Json body = wire(ServerKind::kOllama, {.text = "x"}, {.context_length = 32768});
  EXPECT_EQ(body["options"]["num_ctx"], 32768);
  EXPECT_EQ(body["raw"], true);
}

TEST(Servers, StreamsOfNativeRoutesFoldIntoTheWholeReply) {
  const auto fold = [](ServerKind kind, const std::vector<Json>& events) {
    const auto server = make_server(kind, {});
    Json whole = Json::object();
    bool finished = false;
    for (const Json& event : events) finished = server->fold(whole, event) || finished;
    EXPECT_TRUE(finished) << name_of(kind);
    Reply reply;
    server->read(whole, {.text = "x", .top_logprobs = 1}, reply);
    return reply;
  };
  const Reply llama =
      fold(ServerKind::kLlamaCpp,
           {{{"content", "K"},
             {"tokens", {5}},
             {"stop", false},
             {"completion_probabilities", {{{"id", 5}, {"token", "K"}, {"logprob", -1}}}}},
            {{"content", "7"},
             {"tokens", {6}},
             {"stop", false},
             {"completion_probabilities", {{{"id", 6}, {"token", "7"}, {"logprob", -2}}}}},
            {{"content", ""},
             {"tokens", Json::array()},
             {"stop", true},
             {"stop_type", "eos"},
             {"tokens_evaluated", 9}}});
  EXPECT_EQ(llama.text, "K7");
  EXPECT_EQ(llama.first->id, 5);
  EXPECT_EQ(llama.generated_ids, (std::vector<lm::TokenId>{5, 6}));
  EXPECT_EQ(llama.usage.prompt_tokens, 9);
  EXPECT_EQ(llama.finish_reason, "stop");
  const Reply sglang =
      fold(ServerKind::kSglang, {{{"text", "K"}, {"meta_info", {{"finish_reason", nullptr}}}},
                                 {{"text", "K7"},
                                  {"meta_info",
                                   {{"finish_reason", {{"type", "stop"}}},
                                    {"prompt_tokens", 9},
                                    {"output_token_logprobs", {{-1, 5, "K"}, {-2, 6, "7"}}}}}}});
  EXPECT_EQ(sglang.text, "K7");
  EXPECT_EQ(sglang.first->id, 5);
  const Reply ollama =
      fold(ServerKind::kOllama, {{{"response", "K"}, {"done", false}},
                                 {{"response", "7"}, {"done", true}, {"prompt_eval_count", 9}}});
  EXPECT_EQ(ollama.text, "K7");
}

TEST(Servers, OllamaStreamsJsonLinesCutAnywhere) {
  ScriptedServer server([](const Request& request) {
    if (request.path == "/api/generate") {
      return scripted::Reply{.content_type = "application/x-ndjson",
                             .pieces = {"{\"response\":\"K\",\"do", "ne\":false}\n{\"response\":",
                                        "\"7\",\"done\":true,\"prompt_eval_count\":3}"}};
    }
    return scripted::json_reply({{"version", "1"}});
  });
  ClientOptions options = quiet();
  options.api = ServerKind::kOllama;
  Client client(server.url(), options);
  const Reply reply = client.complete({.text = "x", .stream = true});
  EXPECT_EQ(reply.text, "K7") << reply.detail;
}

TEST(Servers, TheUsualKeyIsKeptBackFromPlainHttpToOtherHosts) {
  ScriptedServer proxy(scripted::chat_api(engine()));
  const auto keys_sent = [&](const std::string& named, const std::string& url) {
    ClientOptions options = quiet();
    options.api_key_env = named;
    options.environment = [&](const std::string& name) -> std::optional<std::string> {
      if (name == "OPENAI_API_KEY" || name == "MY_KEY") return "sk-0123456789";
      if (name == "http_proxy") return "http://127.0.0.1:" + std::to_string(proxy.port());
      return std::nullopt;
    };
    const Client client(url, options);
    return std::pair{proxy.requests().back().header("authorization"), client.info().notes.size()};
  };
  EXPECT_EQ(keys_sent("", "http://model.test").first, "");
  EXPECT_EQ(keys_sent("", "http://model.test").second, 1U);
  EXPECT_EQ(keys_sent("MY_KEY", "http://model.test").first, "Bearer sk-0123456789");
  EXPECT_EQ(keys_sent("", proxy.url()).first, "Bearer sk-0123456789") << "this machine";
  EXPECT_THROW(keys_sent("ABSENT_KEY", proxy.url()), base::Error);
}

}  // namespace
}  // namespace kvphase::endpoint
