// One HTTP request and what became of it: every way in which it can fail is a value with its cause,
// never an exception or a crash. Must not know what a completion is. The only folder file that sees
// the HTTP library is http.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "endpoint/url.h"

namespace kvphase::endpoint {

// Seconds, each for one phase of a request. Too small loses slow replies (a 128K-token prefill
// sends nothing for minutes), too large waits for dead servers.
struct HttpTimeouts {
  double connect = 10;      // TCP, and again TLS
  double first_byte = 900;  // from the start of the request to the reply's header
  double idle = 120;        // between two pieces of the reply's body
  double total = 1800;      // the whole request with its redirects
};

struct HttpOptions {
  HttpTimeouts timeouts;
  std::string ca_bundle;  // PEM file of trusted authorities; empty: the system's
  std::size_t max_body = std::size_t{8} << 20;  // bytes of a reply's body; a longer one is refused
  int max_redirects = 5;
  std::string user_agent = "kvphase";
};

enum class HttpOutcome {
  kOk,             // a whole reply, whatever its status
  kConnectFailed,  // refused, no route, unknown host
  kConnectTimeout,
  kTlsFailed,  // detail says why, e.g. an expired certificate
  kFirstByteTimeout,
  kIdleTimeout,
  kTotalTimeout,
  kDisconnected,  // the reply ended early, or was no HTTP
  kTooLarge,
  kRedirectRefused,  // too many, to another scheme, or to nowhere
  kCancelled,        // on_chunk returned false
  kStopped,          // base::stop_requested()
};

std::string_view name_of(HttpOutcome outcome);

struct HttpResponse;

struct HttpRequest {
  std::string method = "POST";
  std::string path;       // begins with '/', relative to the server's root
  std::string_view body;  // outlives the sending
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // sent to the server's own origin only
  // Pieces of a 2xx body as they come, instead of collecting it; false ends the request.
  std::function<bool(std::string_view)> on_chunk;
  // Status and header before the body; not of a redirect that is followed. May be empty.
  std::function<void(const HttpResponse& head)> on_head;
};

struct HttpResponse {
  HttpOutcome outcome = HttpOutcome::kConnectFailed;
  std::string detail;  // cause of a failure, in words; no secret can be in it but what the server
                       // sent
  int status = 0;      // 0: none came
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  double first_byte_seconds = 0;  // request begun to header read
  double total_seconds = 0;       // request begun to body read
  int redirects = 0;

  std::optional<std::string> header(std::string_view lower_case_name) const;
};

// Keeps connections open between requests. Any number of threads may call send().
class HttpClient {
 public:
  HttpClient(Url root, HttpOptions options, Environment environment);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpResponse send(const HttpRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvphase::endpoint
