#include "guard/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvphase::guard {

namespace {

constexpr std::pair<Metrics::Outcome, const char*> kOutcomes[] = {
    {Metrics::Outcome::kPassed, "passed"},
    {Metrics::Outcome::kGuarded, "guarded"},
    {Metrics::Outcome::kRefused, "refused"},
    {Metrics::Outcome::kSkipped, "skipped"},
    {Metrics::Outcome::kUpstreamError, "upstream_error"},
    {Metrics::Outcome::kFailed, "failed"},
    {Metrics::Outcome::kCut, "cut"},
    {Metrics::Outcome::kLeft, "left"},
    {Metrics::Outcome::kTurnedAway, "turned_away"},
    {Metrics::Outcome::kRejected, "rejected"}};

}  // namespace

void Metrics::count(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  ++requests_[outcome];
}

void Metrics::guarded(const Guard& guard) {
  const std::lock_guard lock(mutex_);
  ++requests_[guard.outcome];
  if (guard.outcome == Outcome::kGuarded || guard.outcome == Outcome::kRefused) {
    ++verdicts_[guard.verdict];
  }
  for (const std::int64_t offset : guard.differ) ++differ_[offset];
  retests_ += std::max<std::int64_t>(0, guard.versions - 1);
  extra_prompt_tokens_ += guard.extra_prompt_tokens;
  extra_completion_tokens_ += guard.extra_completion_tokens;
  added_seconds_ += guard.added_seconds;
  ++guards_;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  };
  head("kvphase_guard_requests_total", "counter",
       "Requests: passed, guarded, refused, skipped (asked to be guarded, could not), "
       "upstream_error (guarded, no answer), failed (no whole reply), cut (a stream), left (by the "
       "client), turned_away, rejected (header or body).");
  for (const auto& [outcome, name] : kOutcomes) {
    const auto found = requests_.find(outcome);
    text += fmt::format("kvphase_guard_requests_total{{outcome=\"{}\"}} {}\n", name,
                        found == requests_.end() ? 0 : found->second);
  }
  head("kvphase_guard_retests_total", "counter", "Versions asked beside the prompt as it came.");
  text += fmt::format("kvphase_guard_retests_total {}\n", retests_);
  head("kvphase_guard_verdicts_total", "counter", "Guarded requests by verdict.");
  for (const char* verdict : {"agree", "disagree", "incomplete"}) {
    const auto found = verdicts_.find(verdict);
    text += fmt::format("kvphase_guard_verdicts_total{{verdict=\"{}\"}} {}\n", verdict,
                        found == verdicts_.end() ? 0 : found->second);
  }
  head("kvphase_guard_disagreements_total", "counter",
       "Answers other than the most frequent, by offset.");
  for (const auto& [offset, count] : differ_) {
    text += fmt::format("kvphase_guard_disagreements_total{{offset=\"{}\"}} {}\n", offset, count);
  }
  head("kvphase_guard_extra_tokens_total", "counter", "Tokens of the versions not answered with.");
  text +=
      fmt::format("kvphase_guard_extra_tokens_total{{kind=\"prompt\"}} {}\n", extra_prompt_tokens_);
  text += fmt::format("kvphase_guard_extra_tokens_total{{kind=\"completion\"}} {}\n",
                      extra_completion_tokens_);
  head("kvphase_guard_added_seconds", "summary",
       "What waiting for the other versions added to a guarded reply.");
  text += fmt::format("kvphase_guard_added_seconds_sum {}\n", added_seconds_);
  text += fmt::format("kvphase_guard_added_seconds_count {}\n", guards_);
  return text;
}

}  // namespace kvphase::guard
