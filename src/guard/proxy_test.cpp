// The proxy over real sockets, in front of a scripted server.
#include "guard/proxy.h"

#include <gmock/gmock.h>
#include <httplib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "tests/scripted_server/engines.h"

namespace kvphase::guard {
namespace {

using base::Json;
using scripted::Request;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kChat =
    R"({"model":"scripted","messages":[{"role":"user","content":"w7 What?"}]})";

// Answers by the position of "w7" modulo 4, as usage counts it; wrong at `weak`.
scripted::Handler server_with_weak_phase(std::int64_t weak) {
  scripted::EngineOptions options;
  options.model = [weak](const std::vector<std::int32_t>& prompt) {
    const auto at = std::ranges::find(prompt, 7) - prompt.begin();
    return std::vector<scripted::Alternative>{{at % 4 == weak ? 2 : 1, -0.1}};
  };
  options.say = [](std::int32_t token) { return token == 1 ? "K-7731" : "K-7781"; };
  return scripted::chat_api(options);
}

struct Running {
  explicit Running(scripted::Handler handler, ProxyOptions options = {})
      : server(std::move(handler)),
        proxy([&] {
          options.upstream = server.url();
          return options;
        }()),
        port(proxy.start("127.0.0.1", 0)),
        client("127.0.0.1", port) {
    client.set_read_timeout(20);
  }
  httplib::Result post(const std::string& body, const httplib::Headers& headers = {}) {
    return client.Post("/v1/chat/completions", headers, body, "application/json");
  }
  scripted::ScriptedServer server;
  Proxy proxy;
  int port;
  httplib::Client client;
};

TEST(Proxy, RequestsAndRepliesPassAsTheyAre) {
  Running run([](const Request& request) -> scripted::Reply {
    return {.status = request.path == "/teapot?x=%20y" ? 418 : 200,
            .content_type = "text/odd",
            .headers = {{"X-Own", "kept"}},
            .body = request.body + "!"};
  });
  const auto reply = run.client.Post("/v1/any?q=1", {{"Authorization", "Bearer sk-1"}},
                                     "{\"a\": [1]}", "application/json");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "{\"a\": [1]}!");
  EXPECT_EQ(reply->get_header_value("Content-Type"), "text/odd");
  EXPECT_EQ(reply->get_header_value("X-Own"), "kept");
  const Request seen = run.server.requests().back();
  EXPECT_EQ(seen.path, "/v1/any?q=1");
  EXPECT_EQ(seen.body, "{\"a\": [1]}");
  EXPECT_EQ(seen.header("authorization"), "Bearer sk-1");
  EXPECT_EQ(seen.header("content-type"), "application/json");
  const auto get = run.client.Get("/teapot?x=%20y");
  ASSERT_TRUE(get);
  EXPECT_EQ(get->status, 418);
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"passed\"} 2"));
  EXPECT_THAT(run.proxy.metrics(), Not(HasSubstr("sk-1")));
}

TEST(Proxy, AStreamPassesPieceByPieceAndACutOneIsCut) {
  Running run([](const Request& request) -> scripted::Reply {
    scripted::Reply reply{.content_type = "text/event-stream", .piece_delay = 0.2};
    for (int i = 0; i < 3; ++i) reply.pieces.push_back(fmt::format("data: {}\n\n", i));
    if (request.path == "/v1/cut") {
      reply.raw = true;
      reply.body =
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
          "9\r\ndata: 0\n\n\r\n";
      reply.pieces.clear();
    }
    return reply;
  });
  const base::Stopwatch watch;
  std::vector<double> times;
  std::string all;
  const auto read = [&](const char* data, std::size_t size) {
    times.push_back(watch.seconds());
    all.append(data, size);
    return true;
  };
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = R"({"stream": true})";
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    return read(data, size);
  };
  const auto reply = run.client.send(request);
  ASSERT_TRUE(reply);
  EXPECT_EQ(all, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  ASSERT_GE(times.size(), 3U);
  EXPECT_GT(times.back() - times.front(), 0.2) << "the first piece must not wait for the last";
  request.path = "/v1/cut";
  EXPECT_FALSE(run.client.send(request)) << "a cut stream must not look whole";
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"passed\"} 1"));
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"cut\"} 1"));
  request.path = "/v1/chat/completions";
  request.content_receiver = [](const char*, std::size_t, std::uint64_t, std::uint64_t) {
    return false;
  };
  EXPECT_FALSE(run.client.send(request)) << "the client leaves";
  run.client.stop();
  const auto left = [&] {
    return run.proxy.metrics().find("outcome=\"left\"} 1") != std::string::npos;
  };
  for (int i = 0; i < 400 && !left(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(left()) << run.proxy.metrics();
}

TEST(Proxy, GuardedRequestsAreJudgedByEachPolicyAtEveryWeakPhase) {
  int right = 0, all = 0;
  for (std::int64_t weak = 0; weak < 4; ++weak) {
    Running run(server_with_weak_phase(weak));
    const auto report = run.post(kChat, {{"X-Kvphase-Guard", "4"}});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->get_header_value("X-Kvphase-Guard"), "disagree") << report->body;
    EXPECT_EQ(report->get_header_value("X-Kvphase-Guard-Positions"), "verified");
    EXPECT_EQ(Json::parse(report->body)["kvphase_guard"]["differing_offsets"].size(), 1U);
    const auto majority = run.post(kChat, {{"X-Kvphase-Guard", "4, majority"}});
    ASSERT_TRUE(majority);
    const Json body = Json::parse(majority->body);
    right += body["choices"][0]["message"]["content"] == "K-7731" ? 1 : 0;
    ++all;
    const auto refused = run.post(kChat, {{"X-Kvphase-Guard", "4, refuse"}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 422);
  }
  std::printf("majority gave the right answer in %d of %d\n", right, all);
  EXPECT_EQ(right, all);
}

TEST(Proxy, TheModelsSuffixGuardsAndIsTakenOff) {
  Running run(server_with_weak_phase(9), {.guard = {.offsets = 3}});
  const auto reply =
      run.post(R"({"model":"scripted:guard","messages":[{"role":"user","content":"w7 x"}]})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->get_header_value("X-Kvphase-Guard"), "agree");
  EXPECT_EQ(run.server.requests().size(), 4U) << "3 and one because a line break is no token here";
  EXPECT_TRUE(
      run.post(R"({"model":"scripted:guard","messages":[{"role":"user","content":"w7 x"}]})"));
  EXPECT_EQ(run.server.requests().size(), 7U) << "which is known by now";
  for (const Request& request : run.server.requests()) {
    EXPECT_EQ(request.json()["model"], "scripted");
  }
  EXPECT_FALSE(Json::parse(reply->body)["kvphase_guard"].is_null());
}

TEST(Proxy, AGuardedStreamComesAsEvents) {
  Running run(server_with_weak_phase(9));
  const auto reply =
      run.post(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"w7 x"}]})",
               {{"X-Kvphase-Guard", "on"}});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_THAT(reply->body, HasSubstr("K-7731"));
  EXPECT_TRUE(reply->body.ends_with("data: [DONE]\n\n"));
}

TEST(Proxy, SamplingGuardsItsShare) {
  Running run(server_with_weak_phase(9), {.sample = 0.25});
  int guarded = 0;
  for (int i = 0; i < 80; ++i) {
    const auto reply = run.post(kChat);
    ASSERT_TRUE(reply);
    guarded += reply->has_header("X-Kvphase-Guard") ? 1 : 0;
  }
  EXPECT_GT(guarded, 8);
  EXPECT_LT(guarded, 36);
  EXPECT_THAT(run.proxy.metrics(), HasSubstr(fmt::format("outcome=\"guarded\"}} {}", guarded)));
}

TEST(Proxy, WhatCannotBeGuardedPassesAndSaysSoUnlessItWouldBeRefused) {
  Running run(server_with_weak_phase(9));
  const std::string tools =
      R"({"model":"m:guard","tools":[{}],"messages":[{"role":"user","content":"w7"}]})";
  const auto reply = run.post(tools);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->get_header_value("X-Kvphase-Guard"), "skipped");
  EXPECT_EQ(run.server.requests().back().json()["model"], "m");
  const auto refused = run.post(tools, {{"X-Kvphase-Guard", "refuse"}});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 422);
  const auto bad = run.post(kChat, {{"X-Kvphase-Guard", "majorty"}});
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->status, 400);
  EXPECT_THAT(bad->body, HasSubstr("\"[guard] expected on, off"));
  EXPECT_THAT(bad->body, HasSubstr("majority"));
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"rejected\"} 1"));
}

TEST(Proxy, AnUpstreamThatIsGoneOrSlowIsSaidWithoutACrash) {
  ProxyOptions options{.upstream = "http://127.0.0.1:1"};
  Proxy gone(options);
  httplib::Client client("127.0.0.1", gone.start("127.0.0.1", 0));
  for (const char* header : {"off", "on"}) {
    const auto reply = client.Post("/v1/chat/completions", {{"X-Kvphase-Guard", header}},
                                   std::string(kChat), "application/json");
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 502) << reply->body;
  }
  ProxyOptions slow;
  slow.http.timeouts.total = 0.3;
  Running run([](const Request&) -> scripted::Reply { return {.body = "{}", .delay = 3}; }, slow);
  const auto late = run.post(kChat);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, 504);
}

TEST(Proxy, TheVersionThatClosesTheRowMayFailAndNoFirstRequestAgreesWithoutIt) {
  // A line break is no token here, and three words of filler are answered with an error: all of
  // several first requests learn the one while they meet the other.
  scripted::EngineOptions options;
  options.model = [](const std::vector<std::int32_t>&) {
    return std::vector<scripted::Alternative>{{1, -0.1}};
  };
  options.fault = [](const Request& request) -> std::optional<scripted::Reply> {
    if (request.body.find("river river river") == std::string::npos) return std::nullopt;
    return scripted::Reply{.status = 500};
  };
  Running run(scripted::chat_api(options));
  struct Got {
    int status = 0;
    std::string verdict, body;
  };
  std::vector<Got> replies(6);
  std::vector<std::thread> threads;
  for (Got& got : replies) {
    threads.emplace_back([&] {
      httplib::Client client("127.0.0.1", run.port);
      const auto reply = client.Post("/v1/chat/completions", {{"X-Kvphase-Guard", "refuse"}},
                                     std::string(kChat), "application/json");
      if (!reply) return;
      got = {.status = reply->status,
             .verdict = reply->get_header_value("X-Kvphase-Guard"),
             .body = reply->body};
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Got& got : replies) {
    EXPECT_EQ(got.status, 422) << got.body;
    EXPECT_EQ(got.verdict, "incomplete");
    const Json said = Json::parse(got.body, nullptr, false)["kvphase_guard"];
    EXPECT_EQ(said["unanswered_offsets"], Json({3}));
    EXPECT_EQ(said["answers"][0]["offsets"], Json({0, 1, 2}));
  }
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"refused\"} 6"));
}

TEST(Proxy, TheSuffixIsTakenOffWhateverTheHeaderSaysAndWhereverItGoes) {
  Running run([](const Request& request) -> scripted::Reply {
    return {.status = request.json()["model"] == "m" ? 200 : 404, .body = "{}"};
  });
  const std::string body = R"({"model":"m:guard","input":"x","messages":[]})";
  for (const char* stream : {"", R"("stream":true,)"}) {
    const auto off = run.post(fmt::format(R"({{{}"model":"m:guard","messages":[]}})", stream),
                              {{"X-Kvphase-Guard", "Off"}});
    ASSERT_TRUE(off);
    EXPECT_EQ(off->status, 200);
    EXPECT_FALSE(off->has_header("X-Kvphase-Guard"));
  }
  const auto elsewhere = run.client.Post("/v1/embeddings", body, "application/json");
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->status, 200);
  EXPECT_EQ(elsewhere->get_header_value("X-Kvphase-Guard"), "skipped");
}

TEST(Proxy, AGuardedReplyKeepsTheHeadersOfTheReplyThatIsPassedOn) {
  Running run([](const Request& request) -> scripted::Reply {
    const bool plain = request.body.find("river") == std::string::npos &&
                       request.body.find("\\n") == std::string::npos;
    scripted::Reply reply = scripted::json_reply(
        {{"choices", {{{"message", {{"content", plain ? "odd" : "usual"}}}}}}});
    reply.headers = {{"X-Request-Id", plain ? "plain" : "moved"},
                     {"X-RateLimit-Remaining", "7"},
                     {"ETag", "of-other-bytes"}};
    return reply;
  });
  for (const char* policy : {"report", "majority"}) {
    const auto reply = run.post(kChat, {{"X-Kvphase-Guard", policy}});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->get_header_value("X-Request-Id"),
              std::string(policy) == "report" ? "plain" : "moved");
    EXPECT_EQ(reply->get_header_value("X-RateLimit-Remaining"), "7");
    EXPECT_FALSE(reply->has_header("ETag"));
    EXPECT_EQ(reply->get_header_value_count("Content-Type"), 1U);
  }
}

TEST(Proxy, AnUpstreamsErrorIsPassedOnWithItsHeadersAndCountedAsOne) {
  Running run([](const Request&) -> scripted::Reply {
    return {.status = 429, .headers = {{"Retry-After", "9"}}, .body = R"({"error":"slow down"})"};
  });
  for (const char* policy : {"report", "refuse"}) {
    const auto reply = run.post(kChat, {{"X-Kvphase-Guard", policy}});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 429);
    EXPECT_EQ(reply->get_header_value("Retry-After"), "9");
    EXPECT_EQ(reply->body, R"({"error":"slow down"})");
  }
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("outcome=\"upstream_error\"} 2"));
  EXPECT_THAT(run.proxy.metrics(), HasSubstr("verdict=\"incomplete\"} 0"));
}

TEST(Proxy, WithNothingToCompareAPolicyRefuseRefusesAndAStreamIsStillEvents) {
  for (const bool page : {false, true}) {
    Running run([page](const Request&) -> scripted::Reply {
      if (page) return {.content_type = "text/html", .body = "<html>busy</html>"};
      return scripted::json_reply({{"choices", {{{"message", {{"content", nullptr}}}}}}});
    });
    const auto refused = run.post(kChat, {{"X-Kvphase-Guard", "refuse"}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 422) << refused->body;
    EXPECT_EQ(Json::parse(refused->body)["kvphase_guard"]["verdict"], "incomplete");
    const auto stream =
        run.post(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]})",
                 {{"X-Kvphase-Guard", "report"}});
    ASSERT_TRUE(stream);
    EXPECT_EQ(stream->status, 200);
    EXPECT_EQ(stream->get_header_value("Content-Type"), "text/event-stream");
    EXPECT_TRUE(stream->body.starts_with("data: {")) << stream->body;
    EXPECT_TRUE(stream->body.ends_with("data: [DONE]\n\n")) << stream->body;
    const auto report = run.post(kChat, {{"X-Kvphase-Guard", "report"}});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->get_header_value("Content-Type"), page ? "text/html" : "application/json");
  }
}

TEST(Proxy, RepeatsAreAskedOnlyWhereAnswersDifferAndTellTheCause) {
  Running weak(server_with_weak_phase(2));
  const auto reply = weak.post(kChat, {{"X-Kvphase-Guard", "4, repeats=4"}});
  ASSERT_TRUE(reply);
  const Json said = Json::parse(reply->body)["kvphase_guard"];
  EXPECT_EQ(said["cause"], "depends_on_offset") << said.dump();
  EXPECT_EQ(weak.server.requests().size(), 17U) << "16, and one because a line break is no token";
  Running steady(server_with_weak_phase(9), {.guard = {.repeats = 4}});
  ASSERT_TRUE(steady.post(kChat, {{"X-Kvphase-Guard", "on"}}));
  EXPECT_EQ(steady.server.requests().size(), 5U);
}

TEST(Proxy, AConnectionIsGoodForAStatedNumberOfRequests) {
  Running run(server_with_weak_phase(9));
  run.client.set_keep_alive(true);
  const auto reply = run.post(kChat);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->get_header_value("Keep-Alive"), "timeout=2, max=1000");
}

TEST(Proxy, LimitsAreKept) {
  Running run([](const Request&) -> scripted::Reply { return {.body = "{}", .delay = 1}; },
              {.most_requests = 1, .max_body = 1000});
  const auto large = run.post(std::string(2000, 'x'));
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 413);
  std::thread first([&] {
    httplib::Client client("127.0.0.1", run.port);
    const auto reply = client.Post("/v1/chat/completions", "{}", "application/json");
    EXPECT_EQ(reply->status, 200);
  });
  while (run.server.requests().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto second = run.post("{}");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->status, 503);
  EXPECT_TRUE(second->has_header("Retry-After"));
  first.join();
}

// 50 at once; KVPHASE_GUARD_SECONDS=60 for the long run.
TEST(Proxy, ManyStreamsAtOnceLoseAndMixNothing) {
  const char* wanted = std::getenv("KVPHASE_GUARD_SECONDS");
  const double seconds = wanted != nullptr ? std::atof(wanted) : 1.5;
  Running run([](const Request& request) -> scripted::Reply {
    scripted::Reply reply{.content_type = "text/event-stream", .piece_delay = 0.01};
    const std::string name = request.json().value("user", "");
    for (int i = 0; i < 5; ++i) reply.pieces.push_back(fmt::format("data: {} {}\n\n", name, i));
    return reply;
  });
  run.server.keep_requests(false);
  std::atomic<std::int64_t> good{0}, bad{0};
  std::vector<std::thread> threads;
  const base::Stopwatch watch;
  for (int t = 0; t < 50; ++t) {
    threads.emplace_back([&, t] {
      httplib::Client client("127.0.0.1", run.port);
      client.set_keep_alive(true);
      client.set_read_timeout(20);
      for (int i = 0; watch.seconds() < seconds; ++i) {
        const std::string name = fmt::format("t{}-{}", t, i);
        std::string expected;
        for (int k = 0; k < 5; ++k) expected += fmt::format("data: {} {}\n\n", name, k);
        const auto reply = client.Post("/v1/chat/completions",
                                       fmt::format(R"({{"stream": true, "user": "{}"}})", name),
                                       "application/json");
        const bool ok = reply && reply->status == 200 && reply->body == expected;
        ++(ok ? good : bad);
        if (!ok && bad < 5) {
          std::printf("%s: %s, status %d, body %s\n", name.c_str(),
                      httplib::to_string(reply.error()).c_str(), reply ? reply->status : 0,
                      reply ? reply->body.c_str() : "");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("50 clients for %.1f s: %ld streams whole and their own, %ld not\n", watch.seconds(),
              static_cast<long>(good), static_cast<long>(bad));
  EXPECT_EQ(bad, 0);
  EXPECT_GT(good, 50);
}

TEST(Proxy, UnguardedRequestsTakeLittleLonger) {
  Running run(server_with_weak_phase(9));
  httplib::Client direct("127.0.0.1", run.server.port());
  for (httplib::Client* client : {&direct, &run.client}) {
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
  }
  std::vector<double> through, straight;
  for (int i = 0; i < 200; ++i) {  // by turns: the machine may be busy
    for (const bool proxied : {false, true}) {
      const base::Stopwatch watch;
      const auto reply = (proxied ? run.client : direct)
                             .Post("/v1/chat/completions", std::string(kChat), "application/json");
      (proxied ? through : straight).push_back(watch.seconds());
      ASSERT_TRUE(reply);
    }
  }
  const auto median = [](std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
    return 1e3 * values[values.size() / 2];
  };
  std::printf("median of 200: direct %.3f ms, through the proxy %.3f ms, ratio %.2f\n",
              median(straight), median(through), median(through) / median(straight));
  EXPECT_LT(median(through) - median(straight), 20) << "a busy machine's limit; the aim is 2 ms";
}

}  // namespace
}  // namespace kvphase::guard
