#include "guard/exchange.h"

namespace kvphase::guard {

using endpoint::HttpOutcome;
using endpoint::HttpRequest;
using endpoint::HttpResponse;

Exchange::Exchange(endpoint::HttpClient& client, HttpRequest request, std::string body)
    : body_(std::move(body)) {
  request.body = body_;
  request.on_head = [this](const HttpResponse& head) {
    const std::lock_guard lock(mutex_);
    response_.status = head.status;
    response_.headers = head.headers;
    has_head_ = head.status / 100 == 2;  // else its body comes with the end
    changed_.notify_all();
  };
  request.on_chunk = [this](std::string_view piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ < kMostWaiting || cancelled_; });
    if (cancelled_) return false;
    waiting_ += piece.size();
    pieces_.emplace_back(piece);
    changed_.notify_all();
    return true;
  };
  thread_ = std::thread([this, &client, request = std::move(request)] {
    HttpResponse response = client.send(request);
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    done_ = true;
    changed_.notify_all();
  });
}

Exchange::~Exchange() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

HttpResponse Exchange::head() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_head_ || done_; });
  return response_;
}

std::string Exchange::next(bool& ok) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !pieces_.empty() || done_; });
  if (pieces_.empty()) {
    ok = response_.outcome == HttpOutcome::kOk;
    return "";
  }
  std::string all;  // what has come meanwhile goes together
  for (const std::string& piece : pieces_) all += piece;
  pieces_.clear();
  waiting_ = 0;
  changed_.notify_all();
  ok = true;
  return all;
}

}  // namespace kvphase::guard
