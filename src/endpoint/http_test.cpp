#include "endpoint/http.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/scripted_server/scripted_server.h"

namespace kvphase::endpoint {
namespace {

using scripted::Reply;
using scripted::Request;
using scripted::ScriptedServer;

Environment no_environment() {
  return [](const std::string&) { return std::nullopt; };
}

// Long enough for a busy machine; only what a test is about is made short.
HttpOptions patient() {
  return {.timeouts = {.connect = 30, .first_byte = 30, .idle = 30, .total = 90}};
}

HttpResponse ask(const std::string& url, HttpRequest request = {.path = "/v1/x", .body = "{}"},
                 HttpOptions options = patient()) {
  HttpClient client(parse_base_url(url).root, std::move(options), no_environment());
  return client.send(request);
}

HttpResponse ask(const Reply& reply, HttpOptions options = patient()) {
  ScriptedServer server([&](const Request&) { return reply; });
  return ask(server.url(), {.path = "/v1/x", .body = "{}"}, std::move(options));
}

TEST(Http, SendsTheBodyAndReadsStatusHeadersAndBody) {
  ScriptedServer server([](const Request& request) {
    return Reply{.status = 418, .headers = {{"Retry-After", "7"}}, .body = request.body + "!"};
  });
  const HttpResponse response =
      ask(server.url() + "/prefix/v1/",
          {.path = "/v1/x", .body = "hello", .headers = {{"Authorization", "Bearer k"}}});
  EXPECT_EQ(response.outcome, HttpOutcome::kOk) << response.detail;
  EXPECT_EQ(response.status, 418);
  EXPECT_EQ(response.body, "hello!");
  EXPECT_EQ(response.header("retry-after"), "7");
  const Request seen = server.requests().at(0);
  EXPECT_EQ(seen.path, "/prefix/v1/x");
  EXPECT_EQ(seen.header("authorization"), "Bearer k");
  EXPECT_EQ(seen.header("accept-encoding"), "identity");
}

TEST(Http, KeepsConnectionsAndReplacesOneThatTheServerClosed) {
  ScriptedServer server(
      [](const Request& request) { return Reply{.body = "ok", .close = request.index == 2}; });
  HttpClient client(parse_base_url(server.url()).root, patient(), no_environment());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(client.send({.path = "/", .body = "{}"}).outcome, HttpOutcome::kOk) << i;
  }
  EXPECT_EQ(server.connections(), 2) << "six requests, one close";
}

TEST(Http, NamesAConnectionThatIsRefused) {
  std::string url;
  {
    ScriptedServer server([](const Request&) { return Reply{}; });
    url = server.url();
  }
  const HttpResponse response = ask(url);
  EXPECT_EQ(response.outcome, HttpOutcome::kConnectFailed) << response.detail;
  EXPECT_EQ(response.status, 0);
}

TEST(Http, TellsASlowFirstByteFromASlowBodyAndBoundsTheWhole) {
  HttpOptions options = patient();
  options.timeouts.first_byte = 0.2;
  EXPECT_EQ(ask(Reply{.body = "x", .delay = 60}, options).outcome, HttpOutcome::kFirstByteTimeout);
  options = patient();
  options.timeouts.idle = 0.2;
  EXPECT_EQ(ask(Reply{.pieces = {"a", "b"}, .piece_delay = 60}, options).outcome,
            HttpOutcome::kIdleTimeout);
  // A byte now and then keeps the idle time short of its limit; only the total ends it.
  options = patient();
  options.timeouts.total = 0.6;
  const HttpResponse dribble =
      ask(Reply{.body = std::string(5000, 'x'), .seconds_per_byte = 0.05}, options);
  EXPECT_EQ(dribble.outcome, HttpOutcome::kTotalTimeout) << dribble.detail;
  EXPECT_LT(dribble.total_seconds, 30);
  EXPECT_NE(dribble.detail.find("bytes of the body"), std::string::npos) << dribble.detail;
}

TEST(Http, EndsARequestWhoseHeaderNeverEnds) {
  ScriptedServer server(
      [](const Request&) { return Reply{.body = "HTTP/1.1 200 OK\r\nX-A: b\r\n", .raw = true}; });
  EXPECT_EQ(ask(server.url()).outcome, HttpOutcome::kDisconnected);
}

TEST(Http, SeesAReplyCutInItsBodyWhateverTheFraming) {
  const std::string body(1000, 'x');
  for (const Reply& reply : {Reply{.body = body, .cut_after = 400},
                             Reply{.body = body, .claimed_length = 1001, .close = true},
                             Reply{.pieces = {body, body}, .cut_after = 1000}}) {
    const HttpResponse response = ask(reply);
    EXPECT_EQ(response.outcome, HttpOutcome::kDisconnected) << response.detail;
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.detail.find("before its end"), std::string::npos) << response.detail;
  }
  EXPECT_EQ(ask(Reply{.body = "not HTTP at all\r\n\r\n", .raw = true}).outcome,
            HttpOutcome::kDisconnected);
  EXPECT_EQ(ask(Reply{.body = "", .raw = true}).outcome, HttpOutcome::kDisconnected);
}

TEST(Http, NeverLetsExtraBytesOfAReplyReachTheNextRequest) {
  // What comes after the announced length looks like a reply, and comes when nobody waits.
  const std::string extra = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong";
  ScriptedServer server([&](const Request& request) {
    return request.index == 0
               ? Reply{.body = "0123" + extra, .seconds_per_byte = 0.001, .claimed_length = 4}
               : Reply{.body = "second"};
  });
  HttpClient client(parse_base_url(server.url()).root, patient(), no_environment());
  EXPECT_EQ(client.send({.path = "/", .body = "{}"}).body, "0123");
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  const HttpResponse second = client.send({.path = "/", .body = "{}"});
  EXPECT_EQ(second.body, "second") << second.detail;
}

TEST(Http, RefusesABodyOverTheLimitByItsHeaderAndByItsBytes) {
  HttpOptions options = patient();
  options.max_body = 1 << 20;
  const std::string big(10 << 20, 'x');
  for (const Reply& reply : {Reply{.body = big}, Reply{.pieces = {big}}}) {
    const HttpResponse response = ask(reply, options);
    EXPECT_EQ(response.outcome, HttpOutcome::kTooLarge) << response.detail;
    EXPECT_LE(response.body.size(), options.max_body);
    EXPECT_NE(response.detail.find("1048576"), std::string::npos) << response.detail;
  }
  options.max_body = 11 << 20;
  EXPECT_EQ(ask(Reply{.body = big}, options).body.size(), big.size());
}

TEST(Http, FollowsRedirectsAsPostAndStopsALoop) {
  ScriptedServer server([](const Request& request) {
    if (request.path == "/v1/x") return Reply{.status = 307, .headers = {{"Location", "/y?z=1"}}};
    if (request.path == "/y?z=1") return Reply{.body = request.method + " " + request.body};
    return Reply{.status = 302, .headers = {{"Location", request.path}}};
  });
  const HttpResponse response = ask(server.url(), {.path = "/v1/x", .body = "{}"});
  EXPECT_EQ(response.body, "POST {}") << response.detail;
  EXPECT_EQ(response.redirects, 1);
  const HttpResponse loop = ask(server.url(), {.path = "/loop", .body = "{}"});
  EXPECT_EQ(loop.outcome, HttpOutcome::kRedirectRefused);
  EXPECT_NE(loop.detail.find("more than 5"), std::string::npos) << loop.detail;
  EXPECT_EQ(server.requests().size(), 2U + 6U);
}

TEST(Http, NeverSendsTheKeyToAnotherOrigin) {
  ScriptedServer other([](const Request&) { return Reply{.body = "reached"}; });
  ScriptedServer server([&](const Request&) {
    return Reply{.status = 308, .headers = {{"Location", other.url() + "/steal"}}};
  });
  const HttpResponse response =
      ask(server.url(), {.path = "/", .body = "{}", .headers = {{"Authorization", "Bearer k"}}});
  EXPECT_EQ(response.body, "reached");
  EXPECT_EQ(server.requests().at(0).header("authorization"), "Bearer k");
  EXPECT_EQ(other.requests().at(0).header("authorization"), "");
}

TEST(Http, AsksAProxyFromTheEnvironmentWithItsCredentials) {
  ScriptedServer proxy([](const Request& request) { return Reply{.body = request.path}; });
  const std::map<std::string, std::string> variables = {
      {"HTTP_PROXY", "http://me:secret@127.0.0.1:" + std::to_string(proxy.port())}};
  HttpClient client(parse_base_url("http://model.test:81/v1").root, patient(),
                    [&](const std::string& name) -> std::optional<std::string> {
                      const auto found = variables.find(name);
                      if (found == variables.end()) return std::nullopt;
                      return found->second;
                    });
  const HttpResponse response = client.send({.path = "/v1/models", .body = "{}"});
  EXPECT_EQ(response.body, "http://model.test:81/v1/models") << response.detail;
  EXPECT_EQ(proxy.requests().at(0).header("proxy-authorization"), "Basic bWU6c2VjcmV0");
}

TEST(Http, StreamsPiecesAsTheyComeAndCanBeCancelled) {
  ScriptedServer server([](const Request&) {
    return Reply{.pieces = {"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"}, .piece_delay = 0.01};
  });
  std::string seen;
  HttpRequest request{.path = "/", .body = "{}"};
  request.on_chunk = [&](std::string_view piece) {
    seen += piece;
    return true;
  };
  const HttpResponse whole = ask(server.url(), request);
  EXPECT_EQ(whole.outcome, HttpOutcome::kOk);
  EXPECT_EQ(seen, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
  EXPECT_EQ(whole.body, "");
  request.on_chunk = [](std::string_view) { return false; };
  EXPECT_EQ(ask(server.url(), request).outcome, HttpOutcome::kCancelled);
}

class Tls : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvphase-ca-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  HttpResponse ask_with(const scripted::Certificate& certificate, bool trusted,
                        const std::string& host = "127.0.0.1") {
    const auto path = folder_ / "ca.pem";
    std::ofstream(path) << certificate.certificate;
    ScriptedServer server([](const Request&) { return Reply{.body = "secure"}; }, certificate);
    HttpOptions options = patient();
    if (trusted) options.ca_bundle = path;
    return ask("https://" + host + ":" + std::to_string(server.port()), {.path = "/", .body = "{}"},
               options);
  }

  std::filesystem::path folder_;
};

TEST_F(Tls, AcceptsAServerThatTheCaBundleVouchesFor) {
  const HttpResponse response = ask_with(scripted::make_certificate("model.test", 3600), true);
  EXPECT_EQ(response.outcome, HttpOutcome::kOk) << response.detail;
  EXPECT_EQ(response.body, "secure");
}

TEST_F(Tls, SaysThatACertificateHasExpired) {
  const HttpResponse response = ask_with(scripted::make_certificate("model.test", -60), true);
  EXPECT_EQ(response.outcome, HttpOutcome::kTlsFailed);
  EXPECT_NE(response.detail.find("expired"), std::string::npos) << response.detail;
}

TEST_F(Tls, RefusesAnUnknownAuthorityAndAnotherHostsCertificate) {
  const HttpResponse unknown = ask_with(scripted::make_certificate("model.test", 3600), false);
  EXPECT_EQ(unknown.outcome, HttpOutcome::kTlsFailed);
  EXPECT_NE(unknown.detail.find("self-signed"), std::string::npos) << unknown.detail;
  const HttpResponse other =
      ask_with(scripted::make_certificate("model.test", 3600), true, "localhost");
  EXPECT_EQ(other.outcome, HttpOutcome::kTlsFailed);
  EXPECT_NE(other.detail.find("another host"), std::string::npos) << other.detail;
}

TEST_F(Tls, SaysWhenTheOtherSideSpeaksNoTlsOrTheBundleIsMissing) {
  ScriptedServer plain([](const Request&) { return Reply{}; });
  const std::string url = "https://127.0.0.1:" + std::to_string(plain.port());
  HttpOptions options = patient();
  options.timeouts.connect = 0.2;
  const HttpResponse silent = ask(url, {.path = "/", .body = "{}"}, options);
  EXPECT_EQ(silent.outcome, HttpOutcome::kTlsFailed) << silent.detail;
  options = patient();
  options.ca_bundle = folder_ / "missing.pem";
  ScriptedServer server([](const Request&) { return Reply{}; },
                        scripted::make_certificate("model.test", 3600));
  const HttpResponse missing = ask(server.url(), {.path = "/", .body = "{}"}, options);
  EXPECT_EQ(missing.outcome, HttpOutcome::kTlsFailed);
  EXPECT_NE(missing.detail.find("missing.pem"), std::string::npos) << missing.detail;
}

TEST(Http, ServesManyThreadsAtOnce) {
  ScriptedServer server([](const Request& request) { return Reply{.body = request.body}; });
  HttpClient client(parse_base_url(server.url()).root, {}, no_environment());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string body = std::to_string(t) + ":" + std::to_string(i);
        if (client.send({.path = "/", .body = body}).body != body) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(server.connections(), 16);
}

}  // namespace
}  // namespace kvphase::endpoint
