// One upstream reply on its way to a client: a thread reads it, another passes it on. Internal to
// the proxy.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "endpoint/http.h"

namespace kvphase::guard {

class Exchange {
 public:
  // Begins to send; `request` and its body are kept until the end.
  Exchange(endpoint::HttpClient& client, endpoint::HttpRequest request, std::string body);
  ~Exchange();  // tells the upstream to stop, and waits
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Waits for status and header, or for the end where none came; body only where it did not come in
  // pieces (not a 2xx).
  endpoint::HttpResponse head();
  // The next piece of the body; empty: it has ended, well where `ok` is true.
  std::string next(bool& ok);

 private:
  // The reader waits while so much is not passed on: a slow client slows the upstream.
  static constexpr std::size_t kMostWaiting = std::size_t{4} << 20;

  std::string body_;
  std::mutex mutex_;
  std::condition_variable changed_;
  endpoint::HttpResponse response_;
  std::deque<std::string> pieces_;
  std::size_t waiting_ = 0;  // bytes of pieces_
  bool has_head_ = false;
  bool done_ = false;
  bool cancelled_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace kvphase::guard
