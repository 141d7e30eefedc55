// The proxy in front of an OpenAI-compatible server: requests and replies pass as they are, streams
// piece by piece; guarded ones are asked at k offsets at once and judged (guarding.h). Keys pass
// through and are neither kept nor printed; nothing of a prompt or an answer is.
//
// Its own paths: GET /kvphase/metrics and /kvphase/health. Not passed on: hop-by-hop headers,
// Accept and Accept-Encoding (replies come uncompressed).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "endpoint/http.h"
#include "guard/guarding.h"

namespace kvphase::guard {

struct ProxyOptions {
  std::string upstream;  // http(s)://HOST:PORT[/v1]
  GuardOptions guard;
  double sample = 0;        // share of guardable requests without a stream that are guarded unasked
  std::uint64_t seed = 1;   // of the sampling
  int most_requests = 256;  // at once; beyond: 503
  int most_guarded = 8;     // guarded ones at once, k upstream requests each; beyond: passed on
  std::size_t max_body = std::size_t{32} << 20;  // bytes of a request; beyond: 413
  endpoint::HttpOptions http;                    // of the upstream
};

class Proxy {
 public:
  // Throws a usage error for an address that is none or options that cannot be.
  explicit Proxy(const ProxyOptions& options);
  ~Proxy();  // stops
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Listens in the background and returns the port; 0 takes a free one. Throws an environment
  // error.
  int start(const std::string& host, int port);
  void stop();  // waits for replies under way
  std::string metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvphase::guard
