// The line before the model: one request at a time, first come first served, a bounded number
// waiting. Knows nothing of requests or models.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace kvphase::serve {

class ModelLine {
 public:
  explicit ModelLine(std::int64_t max_waiting) : max_waiting_(max_waiting) {}

  // While it lives, the model is its holder's.
  class Turn {
   public:
    explicit Turn(ModelLine& line) : line_(line) {}
    ~Turn() { line_.leave(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ModelLine& line_;
  };

  enum class Refusal { kFull, kClosed };
  struct Entry {
    std::unique_ptr<Turn> turn;        // empty: refused
    Refusal refusal = Refusal::kFull;  // why, when refused
  };

  // Waits for the turn; refuses at once when max_waiting requests wait already or the line is
  // closed, also while waiting.
  Entry enter();

  // Nobody waits or enters any more; the present holder keeps its turn.
  void close();

 private:
  void leave();

  const std::int64_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> waiting_;  // tickets, first come first
  std::uint64_t next_ticket_ = 0;
  bool busy_ = false;
  bool closed_ = false;
};

}  // namespace kvphase::serve
