// Every row of the list of public reports (docs/servers.md, "What goes wrong") as a scripted reply
// through the whole client. The numbers are the rows'.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "endpoint/client.h"
#include "tests/scripted_server/engines.h"

namespace kvphase::endpoint {
namespace {

using base::Json;
using scripted::json_reply;
using scripted::Reply;
using scripted::Request;
using scripted::ScriptedServer;
using SReply = scripted::Reply;

const std::string kKey = "sk-scripted-0123456789abcdef";

struct CallSetup {
  ServerKind kind = ServerKind::kGeneric;
  RetryPolicy retry = {.attempts = 1};
  HttpTimeouts timeouts = {.connect = 30, .first_byte = 30, .idle = 30, .total = 90};
  std::vector<double>* waits = nullptr;
  bool stream = false;
};

ClientOptions options_of(const CallSetup& setup) {
  ClientOptions options;
  options.http.timeouts = setup.timeouts;
  options.retry = setup.retry;
  options.api = setup.kind;
  options.model = std::string("m");
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "OPENAI_API_KEY") return kKey;
    return std::nullopt;
  };
  options.sleep = [waits = setup.waits](double seconds) {
    if (waits != nullptr) waits->push_back(seconds);
  };
  return options;
}

// Everything of a reply that could be shown, for grepping.
std::string all_of(const endpoint::Reply& reply) {
  std::string text = reply.detail + "\n" + reply.text + "\n" + reply.reasoning + "\n" +
                     reply.finish_reason + "\n" + reply.first_absent;
  for (const auto& note : reply.notes) text += "\n" + note;
  if (reply.first) {
    text += reply.first->text + reply.first->note;
    for (const auto& token : reply.first->top) text += token.text;
  }
  return text;
}

CompletionRequest chat(std::int64_t max_tokens = 16) {
  return {.messages = {{"user", "what is the code?"}}, .max_tokens = max_tokens};
}

// One completion against a server that answers every completion with `handler`.
endpoint::Reply ask(const scripted::Handler& handler, const CallSetup& setup = {},
                    CompletionRequest request = chat()) {
  ScriptedServer server([&](const Request& asked) {
    if (asked.method == "GET") {
      return json_reply({{"object", "list"}, {"data", {{{"id", "m"}}}}});
    }
    return handler(asked);
  });
  Client client(server.url(), options_of(setup));
  request.stream = setup.stream;
  const endpoint::Reply reply = client.complete(request);
  for (const auto& entry : client.errors().entries()) {
    EXPECT_EQ(entry.first_detail.find(kKey), std::string::npos);
  }
  EXPECT_EQ(all_of(reply).find(kKey), std::string::npos) << all_of(reply);
  return reply;
}

endpoint::Reply ask(const SReply& reply, const CallSetup& setup = {},
                    const CompletionRequest& request = chat()) {
  return ask([&](const Request&) { return reply; }, setup, request);
}

Json message(const Json& fields, const std::string& finish = "stop") {
  return {{"choices", {{{"index", 0}, {"message", fields}, {"finish_reason", finish}}}},
          {"usage", {{"prompt_tokens", 12}, {"completion_tokens", 3}}}};
}

std::string_view outcome(const endpoint::Reply& reply) { return name_of(reply.outcome); }

TEST(ServerCases, Row0AnOrdinaryAnswerIsRead) {
  const auto reply = ask(json_reply(message({{"role", "assistant"}, {"content", "K7"}})));
  EXPECT_EQ(outcome(reply), "ok") << reply.detail;
  EXPECT_EQ(reply.text, "K7");
  EXPECT_EQ(reply.usage.prompt_tokens, 12);
  EXPECT_EQ(reply.attempts, 1);
  EXPECT_GT(reply.total_seconds, 0);
}

TEST(ServerCases, Row4OverContextIsKnownInEveryEnvelopeAndNeverAskedAgain) {
  const Json llama = {{"error",
                       {{"code", 400},
                        {"message", "request (14429 tokens) exceeds the available context size"},
                        {"type", "exceed_context_size_error"},
                        {"n_prompt_tokens", 14429},
                        {"n_ctx", 8192}}}};
  const std::vector<SReply> replies = {
      json_reply(llama, 400),
      json_reply(llama, 200),
      json_reply(llama, 500),
      json_reply({{"error", {{"message", "too big"}, {"type", "context_exceeded"}}}}, 400),
      json_reply({{"error", {{"message", "x"}, {"code", "context_length_exceeded"}}}}, 400),
      json_reply({{"object", "error"},
                  {"message", "The input is longer than the model's context length (8192)"},
                  {"type", "BadRequestError"},
                  {"code", 400}},
                 400),
      json_reply({{"error", "input length exceeds the context length: context window is 4096"}},
                 400),
      SReply{.status = 400, .content_type = "text/plain", .body = "prompt is too long: 9 > 8"}};
  for (const SReply& scripted : replies) {
    const auto reply = ask(scripted, {.retry = {.attempts = 5}});
    EXPECT_EQ(outcome(reply), "over_context") << scripted.status << " " << scripted.body;
    EXPECT_EQ(reply.attempts, 1);
  }
  EXPECT_NE(ask(json_reply(llama, 400)).detail.find("prompt 14429 tokens, context 8192"),
            std::string::npos);
}

TEST(ServerCases, Row5SilentTruncationIsMissingAndNotWrong) {
  Json body = message({{"content", "not found"}});
  body["usage"]["prompt_tokens"] = 4096 / 2 + 2;
  CompletionRequest request = chat();
  request.expected_prompt_tokens = 9000;
  const auto reply = ask(json_reply(body), {}, request);
  EXPECT_EQ(outcome(reply), "prompt_truncated");
  EXPECT_NE(reply.detail.find("sent 9000 prompt tokens, the server read 2050"), std::string::npos)
      << reply.detail;
  const auto ollama =
      ask(json_reply({{"response", "not found"}, {"done", true}, {"prompt_eval_count", 2050}}),
          {.kind = ServerKind::kOllama},
          {.text = "long", .max_tokens = 4, .expected_prompt_tokens = 9000});
  EXPECT_EQ(outcome(ollama), "prompt_truncated");
  request.expected_prompt_tokens = 2000;
  EXPECT_EQ(outcome(ask(json_reply(body), {}, request)), "prompt_grown");
}

TEST(ServerCases, Row7AnswersThatAreOnlyReasoningAreTheirOwnClass) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    const auto reply =
        ask(json_reply(message({{"content", nullptr}, {field, "the code is K7"}}, "length")));
    EXPECT_EQ(outcome(reply), "reasoning_only") << field;
    EXPECT_EQ(reply.text, "") << "the value inside the reasoning is no answer";
    EXPECT_EQ(reply.reasoning, "the code is K7");
    EXPECT_NE(reply.detail.find("used up by reasoning"), std::string::npos) << reply.detail;
  }
  const auto closed = ask(json_reply(message({{"content", "<think>K8?</think> K7"}})));
  EXPECT_EQ(outcome(closed), "ok");
  EXPECT_EQ(closed.text, " K7");
  EXPECT_EQ(closed.reasoning, "K8?");
  const auto headless = ask(json_reply(message({{"content", "so K8?</think>\nK7"}})));
  EXPECT_EQ(headless.text, "\nK7") << "the template opened the reasoning";
  const auto open = ask(json_reply(message({{"content", "<think>K7, no, stop"}})));
  EXPECT_EQ(outcome(open), "reasoning_only") << "a stop text fired inside the reasoning";
  EXPECT_EQ(outcome(ask(json_reply(message({{"content", ""}})))), "empty");
  EXPECT_EQ(outcome(ask(json_reply(message({{"content", nullptr}})))), "empty");
}

TEST(ServerCases, Row13AnErrorWithStatus200IsNoAnswer) {
  for (const Json& body : {Json({{"error", {{"message", "engine died"}, {"code", 500}}}}),
                           Json({{"error", "model runner has unexpectedly stopped"}}),
                           Json({{"object", "error"}, {"message", "abort"}, {"code", 400}}),
                           Json({{"choices",
                                  {{{"error", {{"message", "provider failed"}}},
                                    {"message", {{"content", "partial"}}}}}}})}) {
    const auto reply = ask(json_reply(body));
    EXPECT_EQ(outcome(reply), "error_inside") << body.dump();
    EXPECT_EQ(reply.text, "");
  }
  EXPECT_EQ(outcome(ask(json_reply(Json::object()))), "invalid_body");
  EXPECT_EQ(outcome(ask(json_reply({{"choices", Json::array()}}))), "invalid_body");
  EXPECT_EQ(outcome(ask(json_reply({{"choices", "x"}}))), "invalid_body");
  EXPECT_EQ(outcome(ask(json_reply({{"choices", {1}}}))), "invalid_body");
}

TEST(ServerCases, Row14RateLimitsAreWaitedOutAsTheServerAsks) {
  for (const auto& [header, value, low, high] :
       {std::tuple{"Retry-After", "20", 20.0, 22.1}, std::tuple{"retry-after-ms", "2500", 2.5, 2.8},
        std::tuple{"x-ratelimit-reset-tokens", "6m30s", 390.0, 430.0}}) {
    std::vector<double> waits;
    const auto reply = ask(
        [&, name = std::string(header), text = std::string(value)](const Request& request) {
          if (request.index < 2) {  // 0 was the question for the models
            return SReply{.status = 429,
                          .headers = {{name, text}},
                          .body = R"({"error":{"code":"rate_limit_exceeded"}})"};
          }
          return json_reply(message({{"content", "K7"}}));
        },
        {.retry = {.attempts = 3}, .waits = &waits});
    EXPECT_EQ(outcome(reply), "ok");
    EXPECT_EQ(reply.attempts, 2);
    ASSERT_EQ(waits.size(), 1U) << header;
    EXPECT_GE(waits[0], low) << header;
    EXPECT_LE(waits[0], high) << header;
    EXPECT_EQ(reply.waited_seconds, waits[0]);
  }
}

TEST(ServerCases, Row14WithoutAHeaderTheWaitsOutlastAMinutesWindow) {
  std::vector<double> waits;
  const auto reply = ask(SReply{.status = 429, .body = "{}"}, {.retry = {}, .waits = &waits});
  EXPECT_EQ(outcome(reply), "rate_limited");
  EXPECT_EQ(reply.attempts, 7);
  double total = 0;
  for (const double wait : waits) total += wait;
  EXPECT_GT(total, 31);
}

TEST(ServerCases, Row14QuotaBalanceAndKeyErrorsAreNotAskedAgain) {
  const auto expect = [](const SReply& scripted, std::string_view name) {
    const auto reply = ask(scripted, {.retry = {.attempts = 5}});
    EXPECT_EQ(outcome(reply), name) << scripted.body;
    EXPECT_EQ(reply.attempts, 1);
  };
  expect(json_reply({{"error", {{"code", "insufficient_quota"}}}}, 429), "no_balance");
  expect(json_reply({{"error", {{"message", "Insufficient Balance"}}}}, 402), "no_balance");
  expect(json_reply({{"error", {{"code", 401}, {"message", "Invalid API Key"}}}}, 401),
         "not_authorized");
  expect(json_reply({{"error", "Unauthorized"}}, 401), "not_authorized");
}

TEST(ServerCases, Row15GatewayTimeoutsInHtmlOrJsonAreClassed) {
  EXPECT_EQ(outcome(ask(SReply{.status = 524, .body = R"({"error":"timeout"})", .delay = 0.05})),
            "gateway_timeout");
  const auto html = ask(SReply{.status = 504,
                               .content_type = "text/html",
                               .body = "<html><h1>504 Gateway Time-out</h1></html>"});
  EXPECT_EQ(outcome(html), "gateway_timeout");
  EXPECT_NE(html.detail.find("<html>"), std::string::npos) << html.detail;
  const auto page = ask(SReply{.content_type = "text/html", .body = "<!DOCTYPE html><p>busy"});
  EXPECT_EQ(outcome(page), "invalid_body") << "HTTP 200 with a page";
}

std::string event(const Json& json) { return fmt::format("data: {}\n\n", json.dump()); }
Json delta(const std::string& text) {
  return {
      {"choices", {{{"index", 0}, {"delta", {{"content", text}}}, {"finish_reason", nullptr}}}}};
}
Json finish(const std::string& reason) {
  return {{"choices", {{{"index", 0}, {"delta", Json::object()}, {"finish_reason", reason}}}}};
}
SReply stream(std::vector<std::string> pieces) {
  return {.content_type = "text/event-stream", .pieces = std::move(pieces)};
}
const CallSetup kStream{.stream = true};

TEST(ServerCases, Row16StreamsWithCommentsCutCharactersAndNoDoneAreRead) {
  const std::string wide = "\xE4\xBD\xA0\xF0\x9F\x98\x80";
  const std::string text = ": keep-alive\n\n" + event(delta("K")) + event(delta(wide)) +
                           event(finish("stop")) +
                           event({{"choices", Json::array()},
                                  {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 2}}}});
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < text.size(); i += 3) pieces.push_back(text.substr(i, 3));
  const auto reply = ask(stream(pieces), kStream);
  EXPECT_EQ(outcome(reply), "ok") << reply.detail;
  EXPECT_EQ(reply.text, "K" + wide);
  EXPECT_EQ(reply.finish_reason, "stop");
  EXPECT_EQ(reply.usage.prompt_tokens, 5);
}

TEST(ServerCases, Row16AStreamThatEndsEarlyOrHoldsAnErrorIsNoAnswer) {
  EXPECT_EQ(outcome(ask(stream({event(delta("K7"))}), kStream)), "stream_cut");
  EXPECT_EQ(outcome(ask(stream({event(delta("K7")), "data: [DONE]\n\n"}), kStream)), "stream_cut");
  SReply cut = stream({event(delta("K7")), event(finish("stop"))});
  cut.cut_after = event(delta("K7")).size();
  EXPECT_EQ(outcome(ask(cut, kStream)), "stream_cut");
  const auto error =
      ask(stream({event(delta("K7")), event({{"error", {{"message", "worker died"}}}})}), kStream);
  EXPECT_EQ(outcome(error), "error_inside");
  EXPECT_NE(error.detail.find("worker died"), std::string::npos);
  EXPECT_EQ(outcome(ask(stream({"data: {\"choices\":[{\n\n"}), kStream)), "invalid_body");
  EXPECT_EQ(outcome(ask(stream({": only comments\n\n"}), kStream)), "stream_cut");
  const auto plain = ask(json_reply(message({{"content", "K7"}})), kStream);
  EXPECT_EQ(plain.text, "K7") << "a server that does not stream: " << plain.detail;
  const std::string body = message({{"content", "K7"}}).dump();
  EXPECT_EQ(ask(stream({"\n", "\n\n", body}), kStream).text, "K7") << "kept alive, then plain";
  EXPECT_EQ(outcome(ask(json_reply({{"error", "no"}}, 500), kStream)), "server_error");
}

TEST(ServerCases, Row17UsageThatIsNullOrZeroIsAbsent) {
  for (const Json& usage :
       {Json(nullptr), Json({{"prompt_tokens", 0}, {"completion_tokens", 0}}), Json("x")}) {
    Json body = message({{"content", "K7"}});
    body["usage"] = usage;
    CompletionRequest request = chat();
    request.expected_prompt_tokens = 12;
    const auto reply = ask(json_reply(body), {}, request);
    EXPECT_EQ(outcome(reply), "ok") << "absent counts are no proof of truncation";
    EXPECT_FALSE(reply.usage.prompt_tokens);
    ASSERT_EQ(reply.notes.size(), 1U);
  }
}

TEST(ServerCases, Row19ABodyThatIsTooLargeForTheServerIsNamed) {
  const auto reply =
      ask(SReply{.status = 413, .content_type = "text/plain", .body = "Payload Too Large"});
  EXPECT_EQ(outcome(reply), "request_too_large");
  EXPECT_EQ(reply.detail, "HTTP 413: Payload Too Large");
}

TEST(ServerCases, Row21AnErrorTextIsNeverGradedAsAnAnswer) {
  for (const std::string text :
       {"This model's maximum context length is 8192 tokens. However, you requested 9000.",
        "<html><body>502 Bad Gateway</body></html>", "Rate limit exceeded, try again in 20s",
        R"({"error":{"message":"x"}})"}) {
    EXPECT_EQ(outcome(ask(json_reply(message({{"content", text}})))), "error_text") << text;
  }
  for (const std::string text : {"K7", "error", "The context is 8192.", "limit-42"}) {
    EXPECT_EQ(outcome(ask(json_reply(message({{"content", text}})))), "ok") << text;
  }
}

TEST(ServerCases, Row30TheKeyIsInNoOutputWhateverTheServerEchoes) {
  // ask() greps each reply and the error log for the key.
  const std::string header = "Authorization: Bearer " + kKey;
  EXPECT_EQ(outcome(ask(json_reply({{"error", {{"message", "bad " + header}}}}, 401))),
            "not_authorized");
  ask(SReply{.status = 500, .content_type = "text/plain", .body = header});
  ask(json_reply({{"error", header}}));
  const auto echoed = ask(json_reply(message({{"content", "your key is " + kKey}})));
  EXPECT_EQ(echoed.text, "your key is [redacted]");
  ask(json_reply(message({{"content", ""}, {"reasoning", kKey}}, kKey)));
  ask(SReply{.body = "{\"" + kKey});
  ask(stream({event({{"error", {{"message", header}}}})}), kStream);
}

TEST(ServerCases, Row30DetectionErrorsHideTheKeyToo) {
  ScriptedServer server([](const Request& request) {
    return json_reply(
        {{"error", {{"message", fmt::format("no {}", request.header("authorization"))}}}}, 401);
  });
  try {
    Client client(server.url(), options_of({}));
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find(kKey), std::string::npos) << text;
    EXPECT_NE(text.find("[redacted]"), std::string::npos) << text;
    EXPECT_NE(text.find("--api-key-env"), std::string::npos) << text;
    EXPECT_EQ(error.kind(), base::ErrorKind::kEnvironment);
  }
  EXPECT_EQ(server.requests().at(0).header("authorization"), "Bearer " + kKey);
}

TEST(ServerCases, Row31ErrorsAreCountedByKindAndNeverVanish) {
  ScriptedServer server([](const Request& request) {
    if (request.method == "GET") return json_reply({{"data", {{{"id", "m"}}}}});
    const std::string text = request.json()["messages"][0]["content"];
    if (text == "3")
      return json_reply({{"error", fmt::format("cuda error {}", request.index)}}, 500);
    if (text == "5") return SReply{.status = 404, .body = "{}"};
    return json_reply(message({{"content", text}}));
  });
  Client client(server.url(), options_of({}));
  std::vector<CompletionRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back({.messages = {{"user", std::to_string(i % 8)}}, .max_tokens = 4});
  }
  std::vector<int> calls(requests.size());
  const auto replies =
      client.complete_all(requests, [&](std::size_t i, const endpoint::Reply&) { ++calls[i]; });
  ASSERT_EQ(replies.size(), requests.size());
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(calls[i], 1);
    EXPECT_EQ(outcome(replies[i]), i % 8 == 3 ? "server_error" : i % 8 == 5 ? "not_found" : "ok");
    EXPECT_EQ(replies[i].text, replies[i].answered() ? std::to_string(i % 8) : "") << "in order";
  }
  const auto errors = client.errors().entries();
  ASSERT_EQ(errors.size(), 2U) << "one entry for each kind, whatever numbers the text holds";
  EXPECT_EQ(errors[0].count, 5);
  EXPECT_EQ(errors[1].count, 5);
  EXPECT_NE(errors[0].first_detail.find(errors[0].status == 500 ? "cuda" : "404"),
            std::string::npos);
}

TEST(ServerCases, Row32ALoadingServerAndAFullOneAreWaitedFor) {
  std::vector<double> waits;
  const auto reply = ask(
      [](const Request& request) {
        if (request.index == 1) {
          return json_reply(
              {{"error",
                {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}}},
              503);
        }
        if (request.index == 2) {
          return json_reply({{"error", {{"code", 503}, {"message", "no slot available"}}}}, 503);
        }
        return json_reply(message({{"content", "K7"}}));
      },
      {.retry = {.attempts = 5}, .waits = &waits});
  EXPECT_EQ(outcome(reply), "ok");
  EXPECT_EQ(reply.attempts, 3);
  EXPECT_EQ(waits.size(), 2U);
}

TEST(ServerCases, Row32AServerThatLoadsWhileItIsDetectedIsWaitedForAndThenNamed) {
  ScriptedServer server([](const Request&) {
    return json_reply({{"error", {{"code", 503}, {"message", "Loading model"}}}}, 503);
  });
  std::vector<double> waits;
  ClientOptions options = options_of({.retry = {.attempts = 4}, .waits = &waits});
  options.api.reset();
  try {
    Client client(server.url(), options);
    FAIL() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("Loading model"), std::string::npos) << error.what();
  }
  EXPECT_EQ(waits.size(), 3U);
}

TEST(ServerCases, FaultsOfTheTransportAreClassedAndNeverCrash) {
  const std::string good = message({{"content", "K7"}}).dump();
  EXPECT_EQ(outcome(ask(SReply{.body = good, .cut_after = 20})), "disconnected");
  EXPECT_EQ(outcome(ask(SReply{.body = "", .raw = true})), "disconnected");
  const CallSetup hurried{.timeouts = {.connect = 30, .first_byte = 30, .idle = 0.3, .total = 90}};
  EXPECT_EQ(outcome(ask(SReply{.body = good, .seconds_per_byte = 1}, hurried)), "timeout");
  const CallSetup brief{.timeouts = {.connect = 30, .first_byte = 30, .idle = 30, .total = 0.5}};
  EXPECT_EQ(outcome(ask(SReply{.body = good, .delay = 60}, brief)), "timeout");
  EXPECT_EQ(outcome(ask(SReply{.body = std::string(10 << 20, ' ') + good})), "reply_too_large");
  EXPECT_EQ(outcome(ask(SReply{.body = good, .claimed_length = 20})), "invalid_body");
  EXPECT_EQ(outcome(ask(SReply{.body = good, .claimed_length = 2000, .close = true})),
            "disconnected");
  EXPECT_EQ(outcome(ask(SReply{.status = 308, .headers = {{"Location", "/v1/chat/completions"}}})),
            "redirect_refused");
  EXPECT_EQ(outcome(ask(SReply{.body = std::string(100'000, '[')})), "invalid_body");
  const auto broken = ask(SReply{.body = R"({"choices":[{"message":{"content":"K)"
                                         "\xFF\xC3"
                                         R"("}}]})"});
  EXPECT_EQ(outcome(broken), "ok");
  EXPECT_EQ(broken.text, "K\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(broken.notes.at(0), "bytes that are not UTF-8 in the body");
  EXPECT_EQ(outcome(ask(SReply{.body = "\n\n\n\n" + good})), "ok") << "DeepSeek's empty lines";
}

TEST(ServerCases, UnforeseenJsonIsAnInvalidBodyForEveryKind) {
  const std::vector<Json> bodies = {
      Json::array(),
      1,
      "text",
      nullptr,
      {{"choices", {{{"message", 3}, {"finish_reason", {1}}}}}},
      {{"choices", {{{"message", {{"content", {{"a", 1}}}}}, {"logprobs", {{"content", {1}}}}}}}},
      {{"content", 3}},
      {{"text", {1}}},
      {{"text", "x"}, {"meta_info", 3}},
      {{"response", 4}},
      {{"message", {{"content", 5}}}},
      {{"content", "x"}, {"completion_probabilities", {{{"top_logprobs", {{"a", 1}}}}}}},
      {{"content", "x"}, {"tokens", {{{"id", "x"}}}}, {"timings", 4}}};
  for (const auto& entry : server_kinds()) {
    for (const Json& body : bodies) {
      for (const bool streamed : {false, true}) {
        const auto reply = ask(streamed ? stream({event(body)}) : json_reply(body),
                               {.kind = entry.kind, .stream = streamed},
                               {.messages = {{"user", "x"}}, .top_logprobs = 2});
        EXPECT_TRUE(!reply.answered() || !reply.text.empty()) << entry.name << body.dump();
      }
    }
  }
}

TEST(ServerCases, AWrongAnswerIsNeverAskedAgain) {
  std::atomic<int> asked = 0;
  for (const Json& body : {message({{"content", "wrong"}}), message({{"content", ""}}),
                           message({{"content", nullptr}, {"reasoning", "x"}}, "length"),
                           message({{"content", "x"}}, "content_filter")}) {
    asked = 0;
    ask(
        [&](const Request&) {
          ++asked;
          return json_reply(body);
        },
        {.retry = {.attempts = 5}});
    EXPECT_EQ(asked, 1) << body.dump();
  }
}

TEST(ServerCases, AnAnswerCutByMaxTokensIsTruncatedOnlyWhereItsEndIsNeeded) {
  const SReply cut = json_reply(message({{"content", "3f2a-"}}, "length"));
  EXPECT_EQ(outcome(ask(cut)), "ok");
  CompletionRequest request = chat();
  request.needs_end = true;
  EXPECT_EQ(outcome(ask(cut, {}, request)), "truncated");
}

}  // namespace
}  // namespace kvphase::endpoint
