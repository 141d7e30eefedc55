// The one reply that is made of the replies to a guarded request's versions, and what is said of
// them. Pure: JSON in, JSON out. Knows no transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guard/agreement.h"
#include "guard/versions.h"
#include "guard/wish.h"

namespace kvphase::guard {

enum class Outcome {
  kAnswered,       // a reply is passed on, with what was found
  kRefused,        // an error of our own in its place
  kUpstreamError,  // no answer at any offset, and an error status to the prompt as it came: passed
  kNoReply,        // no answer at any offset, and no reply to the prompt as it came
};

struct Guarded {
  std::string verdict;  // "agree" | "disagree" | "incomplete"
  Outcome outcome = Outcome::kAnswered;
  // The reply that is passed on, index of `replies`; empty: refused, or none came.
  std::optional<std::size_t> passed_on;
  std::optional<std::int64_t> answered_by;  // the offset of an answer that is passed on
  int status = 200;                         // 0: kNoReply
  std::string body;  // with `kvphase_guard` where it is our refusal or a 2xx reply's JSON object
  std::vector<std::pair<std::string, std::string>> headers;
  // One vote per offset: its first version's answer that came; with repeats the most frequent of
  // them, of equals the first. Groups stand by votes, of equals the one with the lowest offset.
  Agreement votes;
  // Every version's answer, the votes' groups first.
  std::vector<AnswerGroup> answers;
  // What the repeats say of the cause (retest.h): kUndecided where there are none.
  Agreement repeats;
  bool positions_verified = false;
  std::int64_t asked = 0;                // replies, missing ones included
  std::int64_t extra_prompt_tokens = 0;  // of the versions whose reply is not given
  std::int64_t extra_completion_tokens = 0;
};

// Of the replies to versions, each version's first before its repeats; one is to version 0, the
// prompt as it came, and it is first. Two answers anywhere are "disagree"; else an offset without
// an answer is "incomplete". The policy refuse refuses both, but passes on what an upstream that
// answers nothing says of the prompt as it came, if that is an error.
Guarded judge(std::span<const VersionReply> replies, std::int64_t offsets, Policy policy);

// A whole reply as the server-sent events of a stream; an error event where it is no completion.
std::string as_events(std::string_view body, bool chat);

// The body of an error of the proxy's own, as OpenAI's API has them; `message` may bring its scope.
std::string error_body(std::string_view message, std::string_view code);

}  // namespace kvphase::guard
