#include "serve/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "serve/scripted_model.h"

namespace kvphase::serve {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::Not;

struct Answer {
  int status = 0;
  Json json;
  std::string raw;
};

class ApiTest : public ::testing::Test {
 protected:
  Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& authorization = "") {
    const HttpReply reply = api().handle(
        {.method = method, .path = path, .authorization = authorization, .body = body});
    Answer answer{.status = reply.status, .raw = reply.body};
    if (reply.stream) {
      reply.stream([&](std::string_view bytes) {
        answer.raw += bytes;
        return true;
      });
    } else {
      answer.json = Json::parse(reply.body);
    }
    return answer;
  }
  Answer post(const std::string& path, const std::string& body) { return ask("POST", path, body); }

  // The objects of a streamed reply; the last event must be [DONE].
  std::vector<Json> events(const Answer& answer) {
    std::vector<Json> result;
    std::string_view rest = answer.raw;
    bool done = false;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("data: ")) << rest;
      EXPECT_FALSE(done) << "an event after [DONE]";
      const std::string_view data = rest.substr(6, end - 6);
      done = data == "[DONE]";
      if (!done) result.push_back(Json::parse(data));
      rest.remove_prefix(end + 2);
    }
    EXPECT_TRUE(done) << answer.raw;
    return result;
  }

  Api& api() {
    if (!api_) api_ = std::make_unique<Api>(model, options);
    return *api_;
  }

  ScriptedModel model;
  ServeOptions options;

 private:
  std::unique_ptr<Api> api_;
};

TEST_F(ApiTest, CompletesATokenPromptWithLogProbabilitiesAndIds) {
  const Answer answer = post("/v1/completions",
                             R"({"model": "scripted", "prompt": [1, 2], "max_tokens": 2,
                                 "temperature": 0, "logprobs": 2, "return_token_ids": true})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  Json reply = answer.json;
  EXPECT_THAT(reply["id"].get<std::string>(), ::testing::StartsWith("cmpl-"));
  EXPECT_GT(reply["created"].get<std::int64_t>(), 1'700'000'000);
  reply.erase("id");
  reply.erase("created");
  const Json expected = Json::parse(R"({
    "object": "text_completion", "model": "scripted", "system_fingerprint": "0123456789abcdef",
    "choices": [{"index": 0, "text": "w3 w6",
      "logprobs": {"text_offset": [0, 2], "token_logprobs": [-0.5, -0.5], "tokens": ["w3", " w6"],
                   "top_logprobs": [{"w3": -0.5, "w4": -2.0}, {" w6": -0.5, " w7": -2.0}]},
      "finish_reason": "length", "prompt_token_ids": [1, 2], "token_ids": [3, 6]}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4,
              "prompt_tokens_details": {"cached_tokens": 0}}})");
  EXPECT_EQ(reply, expected) << reply.dump(1);
  EXPECT_EQ(model.requests.at(0).temperature, 0);
}

TEST_F(ApiTest, TakesEveryKindOfPrompt) {
  const auto text_of = [&](const std::string& prompt) {
    const Answer answer = post("/v1/completions", R"({"max_tokens": 1, "prompt": )" + prompt + "}");
    EXPECT_EQ(answer.status, 200) << answer.raw;
    std::string all;
    for (const Json& choice : answer.json["choices"]) {
      all += choice["text"].get<std::string>() + std::to_string(choice["index"].get<int>()) + ";";
    }
    return all;
  };
  EXPECT_EQ(text_of(R"("w1 w2")"), "w30;");
  EXPECT_EQ(text_of(R"(["w1 w2", "w4"])"), "w30;w41;");
  EXPECT_EQ(text_of("[1, 2]"), "w30;");
  EXPECT_EQ(text_of("[[1, 2], [4], [9, 9]]"), "w30;w41;w82;");
}

TEST_F(ApiTest, DefaultsAreThoseOfOpenAi) {
  model.endless = true;
  post("/v1/completions", R"({"prompt": [1]})");
  EXPECT_EQ(model.requests.at(0).max_tokens, 16);
  EXPECT_EQ(model.requests.at(0).temperature, 1);
  EXPECT_EQ(model.requests.at(0).top_logprobs, 0);
}

TEST_F(ApiTest, ASeedRepeatsAndItsAbsenceDoesNot) {
  for (int i = 0; i < 2; ++i) post("/v1/completions", R"({"prompt": [1], "seed": 7})");
  for (int i = 0; i < 2; ++i) post("/v1/completions", R"({"prompt": [1]})");
  EXPECT_EQ(model.requests.at(0).seed, model.requests.at(1).seed);
  EXPECT_NE(model.requests.at(2).seed, model.requests.at(3).seed);
}

TEST_F(ApiTest, NoTokensAreAllowedAndCounted) {
  const Answer answer = post("/v1/completions", R"({"prompt": [1, 2, 3], "max_tokens": 0})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.json["choices"][0]["text"], "");
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer.json["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer.json["usage"]["completion_tokens"], 0);
}

TEST_F(ApiTest, TheContextsEndFinishesByLength) {
  const Answer answer =
      post("/v1/completions", R"({"prompt": [1, 2, 3, 4, 5, 6, 7, 8], "max_tokens": 100})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.json["usage"]["completion_tokens"], 1);
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "length");
}

TEST_F(ApiTest, AStopTextFinishesByStop) {
  const Answer answer =
      post("/v1/completions", R"({"prompt": [1, 2], "max_tokens": 4, "stop": [" w2"]})");
  EXPECT_EQ(answer.json["choices"][0]["text"], "w3 w6");
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "stop");
}

TEST_F(ApiTest, TokensCanBeNamedByTheirIds) {
  const Answer answer = post("/v1/completions", R"({"prompt": [1, 2], "max_tokens": 1,
      "logprobs": 1, "return_tokens_as_token_ids": true})");
  EXPECT_EQ(answer.json["choices"][0]["logprobs"]["tokens"][0], "token_id:3");
  EXPECT_EQ(answer.json["choices"][0]["logprobs"]["top_logprobs"][0]["token_id:3"], -0.5);
}

TEST_F(ApiTest, TheWholeVocabularyComesWhereTheServerAllowsIt) {
  options.max_logprobs = -1;
  const Answer answer =
      post("/v1/completions", R"({"prompt": [1, 2], "max_tokens": 1, "logprobs": -1})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  const Json top = answer.json["choices"][0]["logprobs"]["top_logprobs"][0];
  EXPECT_EQ(top.size(), 10u);
  EXPECT_EQ(top["w2"], -9999.0) << "an impossible token has a finite number in JSON";
}

TEST_F(ApiTest, ChatsOverTheMessagesContents) {
  const Answer answer = post("/v1/chat/completions", R"({"model": "scripted", "temperature": 0,
      "messages": [{"role": "system", "content": "w1"},
                   {"role": "user", "content": [{"type": "text", "text": "w2 "},
                                                {"type": "text", "text": "w4"}]}],
      "max_completion_tokens": 1, "logprobs": true, "top_logprobs": 1})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  EXPECT_THAT(model.requests.at(0).prompt, ::testing::ElementsAre(1, 2, 4));
  EXPECT_EQ(answer.json["object"], "chat.completion");
  const Json choice = answer.json["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "w7");
  EXPECT_EQ(choice["logprobs"]["content"], Json::parse(R"([
    {"token": "w7", "logprob": -0.5, "bytes": [119, 55],
     "top_logprobs": [{"token": "w7", "logprob": -0.5, "bytes": [119, 55]}]}])"));
  EXPECT_EQ(answer.json["usage"]["prompt_tokens"], 3);
}

TEST_F(ApiTest, StreamsACompletionAndItsUsage) {
  const Answer answer = post("/v1/completions", R"({"prompt": [[1, 2], [4]], "max_tokens": 2,
      "stream": true, "stream_options": {"include_usage": true}, "logprobs": 0,
      "return_token_ids": true})");
  ASSERT_EQ(answer.status, 200) << answer.raw;
  std::string texts[2];
  std::string reasons[2];
  const std::vector<Json> all = events(answer);
  for (const Json& one : all) {
    EXPECT_EQ(one["id"], all[0]["id"]);
    if (one["choices"].empty()) continue;
    EXPECT_TRUE(one["usage"].is_null());
    const Json& choice = one["choices"][0];
    texts[choice["index"].get<int>()] += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) reasons[choice["index"].get<int>()] = "length";
  }
  EXPECT_EQ(texts[0], "w3 w6");
  EXPECT_EQ(texts[1], "w4 w8");
  EXPECT_EQ(reasons[0] + reasons[1], "lengthlength");
  EXPECT_EQ(all[0]["choices"][0]["prompt_token_ids"], Json::parse("[1, 2]"));
  EXPECT_EQ(all[2]["choices"][0]["token_ids"], Json::parse("[6]"));
  EXPECT_EQ(all[2]["choices"][0]["logprobs"]["text_offset"], Json::parse("[2]"));
  EXPECT_EQ(all.back()["choices"], Json::array());
  EXPECT_EQ(all.back()["usage"]["total_tokens"], 7);
}

TEST_F(ApiTest, StreamsAChatInTheUsualOrder) {
  const Answer answer = post("/v1/chat/completions", R"({"max_tokens": 1, "stream": true,
      "messages": [{"role": "user", "content": "w1 w2"}]})");
  const std::vector<Json> all = events(answer);
  ASSERT_EQ(all.size(), 3u) << answer.raw;
  EXPECT_EQ(all[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(all[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(all[1]["choices"][0]["delta"]["content"], "w3");
  EXPECT_EQ(all[2]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(all[2]["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(all[0].contains("usage"));
}

TEST_F(ApiTest, AModelThatFailsWhileStreamingEndsTheStreamWithTheError) {
  model.on_generate = [](const auto&) { throw std::runtime_error("out of paper"); };
  const Answer answer = post("/v1/completions", R"({"prompt": [1], "stream": true})");
  EXPECT_THAT(events(answer).back()["error"]["message"].get<std::string>(),
              HasSubstr("out of paper"));
}

TEST_F(ApiTest, AModelThatFailsIsAServerErrorAndTheNextRequestIsServed) {
  model.on_generate = [](const auto&) { throw std::runtime_error("out of paper"); };
  const Answer answer = post("/v1/completions", R"({"prompt": [1]})");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.json["error"]["type"], "server_error");
  model.on_generate = nullptr;
  EXPECT_EQ(post("/v1/completions", R"({"prompt": [1]})").status, 200);
}

TEST_F(ApiTest, AClientThatLeavesFreesTheModel) {
  model.endless = true;
  const HttpReply reply =
      api().handle({.method = "POST",
                    .path = "/v1/completions",
                    .body = R"({"prompt": [1], "stream": true, "max_tokens": 1000000000000})"});
  int events = 0;
  reply.stream([&](std::string_view) { return ++events < 5; });
  EXPECT_EQ(events, 5);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": [1], "max_tokens": 1})").status, 200);
}

TEST_F(ApiTest, ListsItsModel) {
  const Answer list = ask("GET", "/v1/models");
  ASSERT_EQ(list.status, 200);
  EXPECT_EQ(list.json["object"], "list");
  EXPECT_EQ(list.json["data"][0]["id"], "scripted");
  EXPECT_EQ(list.json["data"][0]["max_model_len"], 8);
  EXPECT_EQ(ask("GET", "/v1/models/scripted").json, list.json["data"][0]);
  const Answer other = ask("GET", "/v1/models/other");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json["error"]["code"], "model_not_found");
}

TEST_F(ApiTest, SaysOfItsModelWhatAnAuditNeedsToKnow) {
  options.about_model = {{"language", {{"records", 3}}}};
  options.max_logprobs = -1;
  const Json card = ask("GET", "/v1/models").json["data"][0]["kvphase"];
  EXPECT_EQ(card["vocab_size"], model.traits().vocab_size);
  EXPECT_EQ(card["max_logprobs"], -1);
  EXPECT_EQ(card["language"]["records"], 3);
  EXPECT_TRUE(card["stride"].is_null()) << card;  // the scripted model has none
  EXPECT_EQ(card["full_attention"], false);
}

TEST_F(ApiTest, TokenizesAndDetokenizes) {
  EXPECT_EQ(post("/tokenize", R"({"prompt": "w1 w0", "return_token_strs": true})").json,
            Json::parse(R"({"count": 2, "max_model_len": 8, "tokens": [1, 0],
                            "token_strs": ["w1", "w0"]})"));
  EXPECT_EQ(post("/tokenize", R"({"messages": [{"role": "user", "content": "w5"}]})").json,
            Json::parse(R"({"count": 1, "max_model_len": 8, "tokens": [5], "token_strs": null})"));
  EXPECT_EQ(post("/tokenize", R"({"prompt": ""})").json["count"], 0);
  EXPECT_EQ(post("/detokenize", R"({"tokens": [3, 1]})").json,
            Json::parse(R"({"prompt": "w3 w1"})"));
}

TEST_F(ApiTest, IsHealthyWithoutAKey) {
  options.api_key = "s3cret-key";
  EXPECT_EQ(ask("GET", "/health").json, Json::parse(R"({"status": "ok"})"));
}

TEST_F(ApiTest, AsksForTheKeyAndNeverSaysIt) {
  options.api_key = "s3cret-key";
  const std::string body = R"({"prompt": [1], "max_tokens": 1})";
  for (const char* wrong : {"", "s3cret-key", "Bearer ", "Bearer s3cret-kez", "Bearer s3cret-key2",
                            "Bearer s3cret-ke", "Basic s3cret-key"}) {
    for (const char* path : {"/v1/completions", "/tokenize", "/nowhere"}) {
      const Answer answer = ask("POST", path, body, wrong);
      EXPECT_EQ(answer.status, 401) << wrong << path;
      EXPECT_EQ(answer.json["error"]["code"], "invalid_api_key");
      EXPECT_THAT(answer.raw, Not(HasSubstr("s3cret")));
    }
    EXPECT_EQ(ask("GET", "/v1/models", "", wrong).status, 401);
  }
  EXPECT_EQ(ask("POST", "/v1/completions", body, "Bearer s3cret-key").status, 200);
  EXPECT_TRUE(model.requests.size() == 1);
}

TEST_F(ApiTest, RefusesUnknownPathsAndMethods) {
  EXPECT_EQ(ask("GET", "/").status, 404);
  EXPECT_EQ(post("/v1/embeddings", "{}").json["error"]["code"], "unknown_url");
  const HttpReply reply = api().handle({.method = "GET", .path = "/v1/completions"});
  EXPECT_EQ(reply.status, 405);
  EXPECT_THAT(reply.headers, ::testing::Contains(::testing::Pair("Allow", "POST")));
  EXPECT_EQ(ask("DELETE", "/v1/models").status, 405);
}

TEST_F(ApiTest, RefusesWhatItCannotReadOrHonourNamingTheParameter) {
  struct Case {
    const char* body;
    const char* param;
    const char* words;
  };
  const Case completions[] = {
      {"", "", "JSON object"},
      {"[1]", "", "JSON object"},
      {"{\"prompt\": \"\xff\"}", "", "UTF-8"},
      {"{}", "prompt", "got none"},
      {R"({"prompt": null})", "prompt", "got none"},
      {R"({"prompt": 5})", "prompt", "a list of token ids"},
      {R"({"prompt": []})", "prompt", "a list of token ids"},
      {R"({"prompt": [1, "w1"]})", "prompt", "ids of 0 to 9"},
      {R"({"prompt": ["w1", 1]})", "prompt", "a list of token ids"},
      {R"({"prompt": [true]})", "prompt", "a list of token ids"},
      {R"({"prompt": [1.5]})", "prompt", "ids of 0 to 9"},
      {R"({"prompt": [10]})", "prompt", "got 10"},
      {R"({"prompt": [-1]})", "prompt", "got -1"},
      {R"({"prompt": [99999999999999999999]})", "prompt", "ids of 0 to 9"},
      {R"({"prompt": [[1], []]})", "prompt", "at least one token"},
      {R"({"prompt": ""})", "prompt", "at least one token"},
      {R"({"prompt": "w1 zebra"})", "", "zebra"},
      {R"({"prompt": [1], "max_tokens": "16"})", "max_tokens", "an integer, got \"16\""},
      {R"({"prompt": [1], "max_tokens": 1.5})", "max_tokens", "an integer"},
      {R"({"prompt": [1], "max_tokens": -1})", "max_tokens", "at least 0"},
      {R"({"prompt": [1], "max_tokens": 18446744073709551615})", "max_tokens", "an integer"},
      {R"({"prompt": [1], "temperature": "0"})", "temperature", "a number"},
      {R"({"prompt": [1], "temperature": -0.1})", "temperature", "0 to 100"},
      {R"({"prompt": [1], "seed": 1.5})", "seed", "an integer"},
      {R"({"prompt": [1], "logprobs": true})", "logprobs", "an integer"},
      {R"({"prompt": [1], "logprobs": 21})", "logprobs", "at most 20"},
      {R"({"prompt": [1], "logprobs": -2})", "logprobs", "at most 20"},
      {R"({"prompt": [1], "echo": true})", "echo", "not supported"},
      {R"({"prompt": [1], "echo": 1})", "echo", "true or false"},
      {R"({"prompt": [1], "n": 2})", "n", "expected 1, got 2"},
      {R"({"prompt": [1], "best_of": 2})", "best_of", "not supported"},
      {R"({"prompt": [1], "top_p": 0.5})", "top_p", "not supported"},
      {R"({"prompt": [1], "suffix": "x"})", "suffix", "not supported"},
      {R"({"prompt": [1], "logit_bias": {"1": -100}})", "logit_bias", "not supported"},
      {R"({"prompt": [1], "presence_penalty": 1})", "presence_penalty", "not supported"},
      {R"({"prompt": [1], "prompt_logprobs": 1})", "prompt_logprobs", "not supported"},
      {R"({"prompt": [1], "stop": 5})", "stop", "a text"},
      {R"({"prompt": [1], "stop": [""]})", "stop", "none of them empty"},
      {R"({"prompt": [1], "stream": "yes"})", "stream", "true or false"},
      {R"({"prompt": [1], "stream_options": {}})", "stream_options", "'stream': true"},
      {R"({"prompt": [1], "stream": true, "stream_options": {"include_usage": 1}})",
       "stream_options.include_usage", "true or false"},
      {R"({"prompt": [1], "model": 5})", "model", "a text"},
  };
  for (const Case& one : completions) {
    const Answer answer = post("/v1/completions", one.body);
    EXPECT_EQ(answer.status, 400) << one.body;
    const Json error = answer.json["error"];
    EXPECT_EQ(error["type"], "invalid_request_error") << one.body;
    EXPECT_EQ(error["param"].is_null() ? "" : error["param"].get<std::string>(), one.param)
        << one.body;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(one.words)) << one.body;
  }
  const Case chats[] = {
      {R"({})", "messages", "got none"},
      {R"({"messages": []})", "messages", "at least one message"},
      {R"({"messages": ["w1"]})", "messages", "'role'"},
      {R"({"messages": [{"role": "user"}]})", "messages", "'content'"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages", "text parts"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages",
       "of type text"},
      {R"({"messages": [{"role": "user", "content": "w1"}], "top_logprobs": 5})", "top_logprobs",
       "requires 'logprobs'"},
      {R"({"messages": [{"role": "user", "content": "w1"}], "logprobs": 5})", "logprobs",
       "true or false"},
      {R"({"messages": [{"role": "user", "content": "w1"}], "logprobs": true,
           "top_logprobs": 21})",
       "top_logprobs", "at most 20"},
      {R"({"messages": [{"role": "user", "content": "w1"}], "tools": [{}]})", "tools",
       "not supported"},
      {R"({"messages": [{"role": "user", "content": "w1"}],
           "response_format": {"type": "json_object"}})",
       "response_format.type", "not supported"},
  };
  for (const Case& one : chats) {
    const Answer answer = post("/v1/chat/completions", one.body);
    EXPECT_EQ(answer.status, 400) << one.body;
    EXPECT_EQ(answer.json["error"]["param"], one.param) << one.body;
    EXPECT_THAT(answer.json["error"]["message"].get<std::string>(), HasSubstr(one.words))
        << one.body;
  }
  EXPECT_EQ(post("/tokenize", R"({"prompt": [1]})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens": "w1"})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens": [11]})").status, 400);
  EXPECT_TRUE(model.requests.empty()) << "a refused request must not reach the model";
}

TEST_F(ApiTest, IgnoresWhatItDoesNotKnowAndWhatAsksForNothing) {
  const Answer answer = post("/v1/completions", R"({"prompt": [1], "max_tokens": 1, "n": 1,
      "top_p": 1, "best_of": 1, "echo": false, "suffix": null, "logit_bias": {}, "stop": [],
      "presence_penalty": 0, "user": "me", "cache_prompt": false, "frobnicate": [1, {}]})");
  EXPECT_EQ(answer.status, 200) << answer.raw;
}

TEST_F(ApiTest, RefusesAPromptLongerThanTheContextWithItsCounts) {
  const Answer answer =
      post("/v1/completions", R"({"prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9], "max_tokens": 1})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(answer.json["error"]["n_prompt_tokens"], 9);
  EXPECT_EQ(answer.json["error"]["n_ctx"], 8);
}

TEST_F(ApiTest, RefusesTooManyPromptsAndAnotherModel) {
  options.max_prompts = 2;
  EXPECT_EQ(post("/v1/completions", R"({"prompt": [[1], [2], [3]]})").json["error"]["code"],
            "too_many_prompts");
  const Answer other = post("/v1/completions", R"({"prompt": [1], "model": "gpt-9"})");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json["error"]["code"], "model_not_found");
}

TEST_F(ApiTest, OneRequestAtATimeHasTheModelAndTheLineIsBounded) {
  options.max_waiting = 3;
  std::atomic<bool> open = false;
  std::atomic<int> inside = 0;
  model.on_generate = [&](const auto&) {
    ++inside;
    while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  api();
  std::atomic<int> served = 0, refused = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const HttpReply reply = api().handle({.method = "POST",
                                            .path = "/v1/completions",
                                            .body = R"({"prompt": [1], "max_tokens": 1})"});
      if (reply.status == 200) ++served;
      if (reply.status == 503) {
        ++refused;
        EXPECT_THAT(reply.body, HasSubstr("server_overloaded"));
        EXPECT_THAT(reply.headers, ::testing::Contains(::testing::Pair("Retry-After", "1")));
      }
    });
  }
  while (refused < 4 || inside < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(ask("GET", "/health").status, 200) << "while the model is busy";
  open = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served, 4);
  EXPECT_EQ(refused, 4);
  EXPECT_FALSE(model.overlapped);
}

TEST_F(ApiTest, StoppingEndsARunningGeneration) {
  model.endless = true;
  std::atomic<bool> running = false;
  model.on_generate = [&](const auto&) { running = true; };
  api();
  Answer answer;
  std::thread client(
      [&] { answer = post("/v1/completions", R"({"prompt": [1], "max_tokens": 1000000000000})"); });
  while (!running) std::this_thread::yield();
  api().stop();
  client.join();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json["error"]["code"], "server_stopping");
  EXPECT_EQ(post("/v1/completions", R"({"prompt": [1]})").status, 503);
}

}  // namespace
}  // namespace kvphase::serve
