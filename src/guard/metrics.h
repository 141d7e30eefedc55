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
  void passed();       // a request that was not guarded
  void failed();       // the upstream gave no reply to one
  void skipped();      // it should have been guarded and could not be
  void turned_away();  // too many at once
  // A guarded request: `differ` are the offsets with another answer; `added_seconds` what waiting
  // for the other versions added to the reply of the prompt as it came.
  struct Guard {
    std::string verdict;
    bool refused = false;
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
  std::map<std::string, std::int64_t> requests_;  // by what became of them
  std::map<std::string, std::int64_t> verdicts_;
  std::map<std::int64_t, std::int64_t> differ_;  // by offset
  std::int64_t retests_ = 0;                     // versions asked beside the first
  std::int64_t extra_prompt_tokens_ = 0;
  std::int64_t extra_completion_tokens_ = 0;
  double added_seconds_ = 0;
  std::int64_t guards_ = 0;
};

}  // namespace kvphase::guard
