// How many requests may be under way at once: more while all goes well, half as many when the
// server pushes back (additive increase, multiplicative decrease; Chiu and Jain 1989).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace kvphase::endpoint {

// The window alone: no threads, no clock.
class AimdWindow {
 public:
  AimdWindow(int start, int most);

  int limit() const { return static_cast<int>(limit_); }
  std::int64_t begin();  // a request begins; returns its ticket
  // A request ends well: the window grows by 1/limit, one more request per round.
  void succeed(std::int64_t ticket);
  // The server pushed back: the window halves, but once for all requests begun before the halving.
  void push_back(std::int64_t ticket);

 private:
  double limit_;
  double most_;
  std::int64_t next_ticket_ = 0;
  std::int64_t cut_at_ = 0;  // tickets below were begun before the last halving
};

enum class AttemptEnd { kSuccess, kPushedBack, kNeutral };

// The window as a gate for threads. `stopped` is asked while waiting.
class Gate {
 public:
  Gate(int start, int most, std::function<bool()> stopped);

  // Waits for a place; empty-handed (-1) when stopped.
  std::int64_t enter();
  void leave(std::int64_t ticket, AttemptEnd end);
  int limit() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  AimdWindow window_;
  int inside_ = 0;
  std::function<bool()> stopped_;
};

}  // namespace kvphase::endpoint
