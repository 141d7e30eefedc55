// What the proxy counts, as Prometheus reads it (text exposition format 0.0.4). Any number of
// threads may count.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kvphase::guard {

class Metrics {
 public:
  // What became of a request; kOutcomes below has their names.
  enum class Outcome {
    kPassed,         // not guarded, and the upstream's reply passed on whole, whatever its status
    kGuarded,        // guarded, and answered
    kRefused,        // guarded, and an error of our own in place of an answer
    kSkipped,        // it should have been guarded and could not be; passed on or refused
    kUpstreamError,  // guarded, no answer at all, and the upstream's error passed on
    kFailed,         // the upstream gave no whole reply
    kCut,            // a stream that the upstream did not end
    kLeft,           // a stream that the client left
    kTurnedAway,     // too many at once
    kRejected,       // no request we can read: header, size, or not whole
  };
  void count(Outcome outcome);
  // A guarded request: `differ` are the offsets with another answer; `added_seconds` what waiting
  // for the other versions added to the reply of the prompt as it came. The verdict counts where
  // there was an answer to judge or a refusal.
  struct Guard {
    Outcome outcome = Outcome::kGuarded;
    std::string verdict;
    std::int64_t versions = 0;
    std::vector<std::int64_t> differ;
    double added_seconds = 0;
    std::int64_t extra_prompt_tokens = 0;
    std::int64_t extra_completion_tokens = 0;
  };
  void guarded(const Guard& guard);

  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<Outcome, std::int64_t> requests_;
  std::map<std::string, std::int64_t> verdicts_;
  std::map<std::int64_t, std::int64_t> differ_;  // by offset
  std::int64_t retests_ = 0;                     // versions asked beside the first
  std::int64_t extra_prompt_tokens_ = 0;
  std::int64_t extra_completion_tokens_ = 0;
  double added_seconds_ = 0;
  std::int64_t guards_ = 0;
};

}  // namespace kvphase::guard
