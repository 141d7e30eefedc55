#include "endpoint/limiter.h"

#include <algorithm>
#include <chrono>

namespace kvphase::endpoint {

AimdWindow::AimdWindow(int start, int most)
    : limit_(std::clamp(start, 1, std::max(1, most))), most_(std::max(1, most)) {}

std::int64_t AimdWindow::begin() { return next_ticket_++; }

void AimdWindow::succeed(std::int64_t) { limit_ = std::min(most_, limit_ + 1 / limit_); }

void AimdWindow::push_back(std::int64_t ticket) {
  if (ticket < cut_at_) return;
  limit_ = std::max(1.0, limit_ / 2);
  cut_at_ = next_ticket_;
}

Gate::Gate(int start, int most, std::function<bool()> stopped)
    : window_(start, most), stopped_(std::move(stopped)) {}

std::int64_t Gate::enter() {
  std::unique_lock lock(mutex_);
  while (inside_ >= window_.limit()) {
    if (stopped_()) return -1;
    freed_.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (stopped_()) return -1;
  ++inside_;
  return window_.begin();
}

void Gate::leave(std::int64_t ticket, AttemptEnd end) {
  {
    const std::lock_guard lock(mutex_);
    --inside_;
    if (end == AttemptEnd::kSuccess) window_.succeed(ticket);
    if (end == AttemptEnd::kPushedBack) window_.push_back(ticket);
  }
  freed_.notify_all();
}

int Gate::limit() const {
  const std::lock_guard lock(mutex_);
  return window_.limit();
}

}  // namespace kvphase::endpoint
