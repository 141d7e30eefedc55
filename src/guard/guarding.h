// What the proxy does with one request that asks to be guarded: whether it can be, its versions at
// k offsets, and the one reply that is made of theirs. Pure: JSON in, JSON out. Knows no transport.
//
// Offset 0 is the prompt as it came; offset o >= 1 has o-1 words of filler and a line break in
// front of its first message. Whether that moves it by o tokens is read off the replies' own
// counts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "guard/agreement.h"

namespace kvphase::guard {

enum class Policy {
  kReport,    // the reply to the prompt as it came, with what was found
  kMajority,  // the most frequent answer's; of equals the prompt's as it came
  kRefuse,    // an error unless all offsets gave one answer
};
std::string_view name_of(Policy policy);
Policy policy_of(std::string_view name);  // throws a usage error with the nearest name

struct GuardOptions {
  std::int64_t offsets = 4;
  std::int64_t most_offsets = 16;  // that a request may ask for
  Policy policy = Policy::kReport;
  std::string filler = "river";
  std::string suffix = ":guard";  // of a model's name: guard this request
};

// What a request asks for.
struct Wish {
  bool guarded = false;
  std::int64_t offsets = 0;
  Policy policy = Policy::kReport;
};

// The value of X-Kvphase-Guard: "on", "off", a number of offsets, a policy, or both with a comma
// ("8, majority"). Throws a usage error for anything else.
Wish read_wish(std::string_view header, const GuardOptions& options);

// The body holds a model name that ends in the suffix; it is taken off. A quick look at the text
// decides first, so that other bodies are not parsed.
bool takes_suffix(std::string_view body, const GuardOptions& options);

struct Versions {
  std::vector<std::string> bodies;  // offsets + 1 of them
  bool stream = false;              // the client wants server-sent events
  bool chat = false;
  std::string skipped;  // why it cannot be guarded; then there are no bodies
};

// Of a request to /chat/completions (texts only, no tools, n = 1) or /completions (a text, n = 1).
// Every version asks for no stream, and for temperature 0 where the request does not say its own.
Versions make_versions(std::string_view path, std::string_view body, std::int64_t offsets,
                       const GuardOptions& options);

// What came back for one version.
struct VersionReply {
  int status = 0;  // 0: none came
  std::string body;
  double seconds = 0;
};

struct Guarded {
  std::string verdict;  // "agree" | "disagree" | "incomplete"
  bool refused = false;
  std::int64_t answered_by = 0;  // the offset whose reply is given
  int status = 200;
  std::string body;  // JSON; with `kvphase_guard` where it is an answer
  std::vector<std::pair<std::string, std::string>> headers;
  Agreement agreement;
  bool positions_verified = false;
  std::int64_t extra_prompt_tokens = 0;  // of the versions whose reply is not given
  std::int64_t extra_completion_tokens = 0;
};

// Of replies[0..], the first to the prompt as it came: their offsets by their counts where all have
// one, else by their order. An offset without an answer makes the verdict "incomplete", unless two
// others differ.
Guarded judge(std::span<const VersionReply> replies, std::int64_t offsets, Policy policy);

// Versions 0 to k-1 stand at offsets 0, 0, 1, .., k-2: the line break is no token, and version k is
// the one that is missing.
bool line_break_is_free(std::span<const VersionReply> replies);

// A whole reply as the server-sent events of a stream.
std::string as_events(std::string_view body, bool chat);

}  // namespace kvphase::guard
