#include "serve/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "serve/scripted_model.h"

namespace kvphase::serve {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A plain TCP connection, so that requests can be as wrong as they like.
class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const timeval patience = {.tv_sec = 20};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // What has come by the time `until` is in it, or everything up to the end.
  std::string receive(std::string_view until = "") {
    char buffer[4096];
    while (until.empty() || received_.find(until) == std::string::npos) {
      const ssize_t got = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      received_.append(buffer, static_cast<std::size_t>(got));
    }
    return received_;
  }
  void forget() { received_.clear(); }

 private:
  int socket_;
  std::string received_;
};

class ServerTest : public ::testing::Test {
 protected:
  int start() {
    server_ = std::make_unique<Server>(model, options);
    return port_ = server_->start("127.0.0.1", 0);
  }
  std::string request(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& headers = "") {
    return fmt::format(
        "{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{}", method,
        path, body.size(), headers, body);
  }
  std::string ask(const std::string& bytes) {
    Connection connection(port_);
    connection.send(bytes);
    return connection.receive();
  }
  static Json body_of(const std::string& reply) {
    return Json::parse(reply.substr(reply.find("\r\n\r\n") + 4), nullptr, false);
  }

  ScriptedModel model;
  ServeOptions options;
  std::unique_ptr<Server> server_;
  int port_ = 0;
};

TEST_F(ServerTest, AnswersOverASocket) {
  start();
  const std::string reply =
      ask(request("POST", "/v1/completions", R"({"prompt": [1, 2], "max_tokens": 1})"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(reply, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(body_of(reply)["choices"][0]["text"], "w3");
  EXPECT_THAT(ask(request("GET", "/health", "")), HasSubstr("{\"status\":\"ok\"}"));
  EXPECT_EQ(body_of(ask(request("GET", "/v1/models/scripted", "")))["id"], "scripted");
  EXPECT_EQ(body_of(ask(request("GET", "/v1/models?x=1", "")))["object"], "list");
}

TEST_F(ServerTest, StreamsChunksAsTheyCome) {
  start();
  const std::string reply = ask(
      request("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 2, "stream": true})"));
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(reply, HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(reply, HasSubstr("data: [DONE]\n\n"));
  EXPECT_THAT(reply, ::testing::EndsWith("0\r\n\r\n"));
}

TEST_F(ServerTest, AConnectionServesManyRequests) {
  start();
  Connection connection(port_);
  const std::string body = R"({"prompt": [1], "max_tokens": 1})";
  for (int i = 0; i < 50; ++i) {
    connection.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body));
    EXPECT_THAT(connection.receive("cached_tokens\":0}}}"), StartsWith("HTTP/1.1 200 ")) << i;
    connection.forget();
  }
}

TEST_F(ServerTest, RefusalsOfTheHttpLayerHaveTheEnvelopeToo) {
  options.max_body_bytes = 1000;
  start();
  struct Case {
    std::string bytes;
    int status;
  };
  const std::string chunk(500, 'x');
  const Case cases[] = {
      {request("GET", "/nowhere", ""), 404},
      {request("POST", "/v1/embeddings", "{}"), 404},
      {request("GET", "/v1/completions", ""), 405},
      {request("PUT", "/v1/completions", "{}"), 405},
      {request("DELETE", "/v1/models/scripted", ""), 405},
      {request("POST", "/v1/completions", "{"), 400},
      {request("POST", "/v1/completions", std::string(1001, ' ')), 413},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: "
       "chunked\r\n\r\n1f4\r\n" +
           chunk + "\r\n1f4\r\n" + chunk + "\r\n1f4\r\n" + chunk + "\r\n0\r\n\r\n",
       413},
      {request("POST", "/v1/completions", "--b\r\n\r\n",
               "Content-Type: multipart/form-data; "
               "boundary=b\r\n"),
       400},
      {request("POST", "/v1/completions", "a=b",
               "Content-Type: application/x-www-form-urlencoded\r\n"),
       400},
      {request("GET", "/" + std::string(9000, 'a'), ""), 414},
      {request("GET", "/" + std::string(8000, 'a'), ""), 404},
      {"nonsense\r\n\r\n", 400},
  };
  for (const Case& one : cases) {
    const std::string reply = ask(one.bytes);
    EXPECT_THAT(reply, StartsWith(fmt::format("HTTP/1.1 {} ", one.status)))
        << one.bytes.substr(0, 80);
    const Json body = body_of(reply);
    EXPECT_TRUE(body.is_object() && body.contains("error")) << reply;
  }
}

// 16 MiB of zeros in a gzip member, by zlib.
std::string gzip_bomb() {
  const std::string zeros(std::size_t{16} << 20, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(std::size_t{1} << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_F(ServerTest, ACompressedBombIsNotUnpackedBeyondTheLimit) {
  options.max_body_bytes = 100'000;
  start();
  const std::string bomb = gzip_bomb();
  ASSERT_LT(bomb.size(), options.max_body_bytes) << "it must pass by its announced length";
  const std::string reply = ask(request("POST", "/tokenize", bomb, "Content-Encoding: gzip\r\n"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 413 ")) << reply.substr(0, 300);
  EXPECT_THAT(ask(request("POST", "/tokenize", "\x1f\x8b garbage", "Content-Encoding: gzip\r\n")),
              StartsWith("HTTP/1.1 400 "));
}

TEST_F(ServerTest, TornAndSlowClientsDoNoHarm) {
  start();
  {
    Connection torn(port_);
    torn.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"prompt");
  }
  { Connection silent(port_); }
  model.endless = true;
  {
    Connection leaver(port_);
    leaver.send(request("POST", "/v1/completions",
                        R"({"prompt": [1], "stream": true, "max_tokens": 1000000000000})"));
    leaver.receive("data: ");
  }
  EXPECT_THAT(ask(request("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 1})")),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, NestingWithoutEndIsRefusedNotRecursedInto) {
  start();
  const std::string reply =
      ask(request("POST", "/v1/completions", "{\"prompt\": " + std::string(2'000'000, '[')));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 400 "));
  const auto nested = [&](std::size_t levels) {
    return ask(request("POST", "/v1/completions",
                       "{\"x\": " + std::string(levels, '[') + "\"]]\\\"[\"" +
                           std::string(levels, ']') + ", \"prompt\": [1]}"));
  };
  EXPECT_THAT(nested(1'000'000), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(nested(63), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(nested(64), StartsWith("HTTP/1.1 400 "));
}

TEST_F(ServerTest, TheKeyIsAskedForAndNeverSaid) {
  options.api_key = "s3cret-key";
  start();
  const std::string refused = ask(request("GET", "/v1/models", "", "Authorization: Bearer no\r\n"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(refused, Not(HasSubstr("s3cret")));
  const std::string served =
      ask(request("GET", "/v1/models", "", "Authorization: Bearer s3cret-key\r\n"));
  EXPECT_THAT(served, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(served, Not(HasSubstr("s3cret")));
}

TEST_F(ServerTest, ManyClientsAreServedOneAtATime) {
  start();
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      for (int j = 0; j < 10; ++j) {
        const std::string reply =
            ask(request("POST", "/v1/completions",
                        fmt::format(R"({{"prompt": [{}, {}], "max_tokens": 1}})", i % 10, j)));
        const Json body = body_of(reply);
        if (body["choices"][0]["text"] == fmt::format("w{}", (i + j) % 10)) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 160);
  EXPECT_FALSE(model.overlapped);
}

TEST_F(ServerTest, StopsWithAStreamAndAnIdleConnectionOpen) {
  model.endless = true;
  start();
  Connection idle(port_);
  Connection streaming(port_);
  streaming.send(request("POST", "/v1/completions",
                         R"({"prompt": [1], "stream": true, "max_tokens": 1000000000000})"));
  streaming.receive("data: ");
  std::string rest;
  std::thread reader([&] { rest = streaming.receive(); });
  const base::Stopwatch watch;
  server_->stop();
  reader.join();
  EXPECT_LT(watch.seconds(), 8);
  EXPECT_THAT(rest, HasSubstr("server_stopping"));
  EXPECT_THAT(rest, HasSubstr("data: [DONE]"));
}

TEST_F(ServerTest, ATakenPortIsAnEnvironmentErrorThatNamesIt) {
  start();
  ScriptedModel other_model;
  Server other(other_model, {});
  try {
    other.start("127.0.0.1", port_);
    FAIL() << "two servers on one port";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kEnvironment);
    EXPECT_THAT(error.what(), HasSubstr("port"));
  }
}

TEST(ServerUrl, BracketsIpv6) {
  EXPECT_EQ(server_url("127.0.0.1", 80), "http://127.0.0.1:80");
  EXPECT_EQ(server_url("::1", 80), "http://[::1]:80");
  EXPECT_TRUE(is_loopback("127.0.0.53"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
}

}  // namespace
}  // namespace kvphase::serve
