// An HTTP(S) server for tests that says exactly what a script tells it, byte for byte, faults
// included: early ends, wrong lengths, slow bytes, expired certificates. Only on 127.0.0.1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace kvphase::scripted {

struct Request {
  std::string method;
  std::string path;  // as sent: absolute when a proxy is asked
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::int64_t index = 0;  // 0 for the server's first request, and so on

  std::string header(std::string_view lower_case_name) const;  // empty: not sent
  base::Json json() const;                                     // null: not JSON
};

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<std::string> pieces;            // sent one by one as chunks, in place of body
  double delay = 0;                           // seconds before the first byte
  double piece_delay = 0;                     // seconds before each further piece
  double seconds_per_byte = 0;                // of the body, one byte at a time
  std::optional<std::size_t> claimed_length;  // Content-Length as claimed
  std::optional<std::size_t> cut_after;       // bytes of the body after which the connection closes
  bool raw = false;                           // body is everything, header included; then close
  bool close = false;                         // close after this reply
};

Reply json_reply(const base::Json& body, int status = 200);

// A self-signed certificate for 127.0.0.1 and `host` with its key, both PEM.
struct Certificate {
  std::string certificate;
  std::string key;
};
Certificate make_certificate(const std::string& host, std::int64_t seconds_valid_from_now);

using Handler = std::function<Reply(const Request&)>;

class ScriptedServer {
 public:
  // Calls the handler for one request at a time.
  explicit ScriptedServer(Handler handler, std::optional<Certificate> tls = std::nullopt,
                          int port = 0);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:PORT"
  std::vector<Request> requests() const;
  std::int64_t connections() const;  // accepted so far
  void keep_requests(bool keep);     // off for long runs

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvphase::scripted
