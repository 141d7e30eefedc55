#include "serve/model_line.h"

#include <algorithm>

namespace kvphase::serve {

ModelLine::Entry ModelLine::enter() {
  std::unique_lock lock(mutex_);
  if (closed_) return {.refusal = Refusal::kClosed};
  if (busy_ || !waiting_.empty()) {
    if (static_cast<std::int64_t>(waiting_.size()) >= max_waiting_) {
      return {.refusal = Refusal::kFull};
    }
    const std::uint64_t ticket = next_ticket_++;
    waiting_.push_back(ticket);
    changed_.wait(lock, [&] { return closed_ || (!busy_ && waiting_.front() == ticket); });
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
    if (closed_) return {.refusal = Refusal::kClosed};
  }
  busy_ = true;
  return {.turn = std::make_unique<Turn>(*this)};
}

void ModelLine::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void ModelLine::leave() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

}  // namespace kvphase::serve
