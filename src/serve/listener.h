// How every HTTP server of this project listens: threads, time-outs, a port that is not shared, and
// room for many clients that come at once. Knows nothing of what is served.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

namespace kvphase::serve {

struct ListenOptions {
  std::size_t requests = 1;   // handled at a time; some threads more stand by for refusals
  std::size_t most_body = 1;  // bytes of a request's body
  int write_seconds = 30;     // without the client taking a byte of the reply
};

class Listener {
 public:
  explicit Listener(const ListenOptions& options);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  httplib::Server& http() { return http_; }  // for the routes, before start()

  // Listens on its own thread; port 0: any free one. Returns the port. Throws an environment error
  // when the address cannot be had.
  int start(const std::string& host, int port, std::string_view scope);
  void stop();  // and wait; harmless when not started

 private:
  httplib::Server http_;
  int socket_ = -1;
  std::thread thread_;
};

}  // namespace kvphase::serve
