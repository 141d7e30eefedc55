#include "endpoint/endpoint_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "endpoint/test_support.h"
#include "tests/scripted_server/engines.h"

namespace kvphase::endpoint {
namespace {

using scripted::EngineOptions;
using scripted::Request;
using scripted::ScriptedServer;

EngineOptions engine(std::int64_t wrong_phase = -1) {
  return {.model = scripted::lookup_model(
              [wrong_phase](std::int64_t position) { return position % 4 == wrong_phase; })};
}

// Prompts that look token 50 up, at positions 0..n-1 of a prompt of n + 2 tokens.
std::vector<lm::ScoreRequest> lookups(std::int64_t n) {
  std::vector<lm::ScoreRequest> requests;
  for (std::int64_t position = 0; position < n; ++position) {
    std::vector<lm::TokenId> prompt(static_cast<std::size_t>(n + 1), 9);
    prompt[static_cast<std::size_t>(position)] = 50;
    prompt[static_cast<std::size_t>(position + 1)] = 60;
    prompt.push_back(50);
    requests.push_back({.prompt = prompt, .target = 60});
  }
  return requests;
}

TEST(EndpointModel, ScoresTokenPromptsAlikeOnEveryEngine) {
  for (const auto& handler :
       {scripted::vllm_engine(engine(3)), scripted::vllm_engine(engine(3), "kvphase"),
        scripted::sglang_engine(engine(3)), scripted::llama_cpp_engine(engine(3))}) {
    ScriptedServer server(handler);
    EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {.top_logprobs = 3});
    const auto replies = model.score_next(lookups(16));
    ASSERT_EQ(replies.size(), 16U);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      const bool right = i % 4 != 3;
      ASSERT_TRUE(replies[i].answered()) << replies[i].missing;
      EXPECT_EQ(replies[i].top, right ? 60 : 61) << i;
      EXPECT_EQ(replies[i].target_logprob, right ? -0.125 : -2.5) << i;
      EXPECT_EQ(replies[i].margin, right ? -0.125 + 3 : -2.5 + 0.25) << i;
    }
    EXPECT_EQ(model.totals().replies, 16);
    EXPECT_EQ(model.totals().prompt_tokens, 16 * 18);
    EXPECT_EQ(model.identity().kind, "endpoint");
    EXPECT_EQ(model.traits().context_length, 8192);
  }
}

TEST(EndpointModel, Row1AWrongTokenAtOnePromptLengthIsAnAnswerAndNotAnError) {
  EngineOptions options = engine();
  options.model = [](const std::vector<std::int32_t>& prompt) {
    return std::vector<scripted::Alternative>{{prompt.size() % 4 == 3 ? 61 : 60, -0.1}};
  };
  ScriptedServer server(scripted::vllm_engine(options));
  EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
  std::vector<lm::ScoreRequest> requests;
  for (std::size_t n = 4; n < 12; ++n) {
    requests.push_back({.prompt = std::vector<lm::TokenId>(n, 9), .target = 60});
  }
  const auto replies = model.score_next(requests);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_TRUE(replies[i].answered());
    EXPECT_EQ(replies[i].top, (i + 4) % 4 == 3 ? 61 : 60);
    EXPECT_EQ(replies[i].target_logprob.has_value(), (i + 4) % 4 != 3)
        << "a target outside the list has no log-probability";
    EXPECT_FALSE(replies[i].margin) << "no rival was shown";
  }
}

TEST(EndpointModel, Row31AFailureAtOnePhaseIsMissingThereAndNowhereElse) {
  EngineOptions options = engine();
  options.fault = [](const Request& request) -> std::optional<scripted::Reply> {
    const auto prompt = request.json()["prompt"].get<std::vector<int>>();
    const auto at = std::find(prompt.begin(), prompt.end(), 50) - prompt.begin();
    if (at % 4 != 2) return std::nullopt;
    return scripted::Reply{.status = 500, .body = "{\"error\":\"oom\"}"};
  };
  ScriptedServer server(scripted::vllm_engine(options));
  EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
  const auto replies = model.score_next(lookups(16));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].missing, i % 4 == 2 ? "server_error" : "") << i;
  }
  EXPECT_EQ(model.totals().missing, 4);
}

TEST(EndpointModel, Row5And2APromptThatTheServerCountsDifferentlyIsMissing) {
  EngineOptions options = engine();
  options.usage = [](std::int64_t n, const Request&) { return n + 1; };
  ScriptedServer server(scripted::sglang_engine(options));
  const auto client = std::make_shared<Client>(server.url(), quiet());
  EXPECT_EQ(EndpointModel(client, {}).score_next(lookups(1))[0].missing, "prompt_grown");
  EXPECT_TRUE(EndpointModel(client, {.overhead = 1}).score_next(lookups(1))[0].answered());
  EXPECT_EQ(EndpointModel(client, {.overhead = 2}).score_next(lookups(1))[0].missing,
            "prompt_truncated");
}

TEST(EndpointModel, AnEndOfTextTokenIsAnAnswer) {
  EngineOptions options = engine();
  options.fault = [](const Request&) -> std::optional<scripted::Reply> {
    return scripted::json_reply(
        {{"choices",
          {{{"text", ""},
            {"finish_reason", "stop"},
            {"token_ids", {2}},
            {"logprobs",
             {{"tokens", {"token_id:2"}},
              {"token_logprobs", {-0.25}},
              {"top_logprobs", {{{"token_id:2", -0.25}, {"token_id:60", -1.75}}}}}}}}},
         {"usage", {{"prompt_tokens", 3}}}});
  };
  ScriptedServer server(scripted::vllm_engine(options));
  EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
  const auto reply = model.score_next(lookups(1))[0];
  EXPECT_TRUE(reply.answered()) << reply.missing;
  EXPECT_EQ(reply.top, 2);
  EXPECT_EQ(reply.margin, -1.5);
}

TEST(EndpointModel, Row8WithoutLogprobsTheAnswerCountsByItsTokenOrText) {
  for (const bool ids : {true, false}) {
    EngineOptions options = engine();
    options.fault = [ids](const Request&) -> std::optional<scripted::Reply> {
      base::Json choice = {{"text", " w60"}, {"finish_reason", "length"}, {"logprobs", nullptr}};
      if (ids) choice["token_ids"] = {60};
      return scripted::json_reply(
          {{"choices", base::Json::array({choice})}, {"usage", {{"prompt_tokens", 3}}}});
    };
    ScriptedServer server(scripted::vllm_engine(options));
    EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
    auto requests = lookups(1);
    auto reply = model.score_next(requests)[0];
    EXPECT_EQ(reply.top, 60) << ids;
    EXPECT_FALSE(reply.target_logprob || reply.margin);
    requests[0].target = 61;
    reply = model.score_next(requests)[0];
    EXPECT_EQ(reply.top, ids ? 60 : -1);
    EXPECT_EQ(reply.answer_text, ids ? "" : " w60");
  }
}

TEST(EndpointModel, TheSmallestIdOfEqualsIsTheTop) {
  EngineOptions options = engine();
  options.model = [](const std::vector<std::int32_t>&) {
    return std::vector<scripted::Alternative>{{7, -0.7}, {5, -0.7}, {3, -2}};
  };
  ScriptedServer server(scripted::llama_cpp_engine(options));
  EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
  EXPECT_EQ(model.score_next(lookups(1))[0].top, 5);
}

TEST(EndpointModel, GeneratesTokenByTokenAndNamesAFailure) {
  EngineOptions options = engine();
  options.model = [](const std::vector<std::int32_t>& prompt) {
    return std::vector<scripted::Alternative>{{prompt.back() + 1, -0.5}, {1, -3}};
  };
  ScriptedServer server(scripted::vllm_engine(options));
  EndpointModel model(std::make_shared<Client>(server.url(), quiet()), {});
  std::vector<lm::TokenId> tokens;
  model.generate({.prompt = {10}, .max_tokens = 4, .top_logprobs = 1},
                 [&](const lm::GeneratedToken& token) {
                   tokens.push_back(token.token);
                   EXPECT_EQ(token.logprob, -0.5);
                   EXPECT_EQ(token.top.size(), 1U);
                   return token.token != 13;
                 });
  EXPECT_EQ(tokens, (std::vector<lm::TokenId>{11, 12, 13}));
  EXPECT_EQ(model.tokenize("w3 w4"), (std::vector<lm::TokenId>{3, 4}));
  EXPECT_EQ(model.detokenize(std::vector<lm::TokenId>{3, 4}), " w3 w4");
}

TEST(EndpointModel, RefusesAServerThatTakesNoTokenIds) {
  ScriptedServer server(scripted::chat_api(engine()));
  EXPECT_THROW(EndpointModel(std::make_shared<Client>(server.url(), quiet()), {}), base::Error);
}

}  // namespace
}  // namespace kvphase::endpoint
