// One request's versions at k offsets, what their replies say, and at which offset each stood.
// Pure: JSON in, JSON out. Knows no transport.
//
// Version 0 is the prompt as it came; version v >= 1 has v-1 words of filler and a line break in
// front of its first message. Where the line break is a token, version v stands at offset v, and 0
// to k-1 are asked. Where it is none, version v >= 1 stands at offset v-1, and 0, 2, ..., k are.
// Which of the two it is, the replies' counts of prompt tokens say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "guard/wish.h"

namespace kvphase::guard {

// The body holds a model name that ends in the suffix. A quick look at the text decides first, so
// that other bodies are not parsed.
bool takes_suffix(std::string_view body, const GuardOptions& options);
// With the model's name as the upstream knows it; a body without the suffix as it is.
std::string without_suffix(const std::string& body, const GuardOptions& options);

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
  std::int64_t version = 0;
  int status = 0;  // 0: none came
  std::string body;
  double seconds = 0;
};

// What a reply says, where it is a completion with a text.
struct Said {
  std::string text;
  bool cut = false;  // ended by the limit of tokens
  std::optional<std::int64_t> prompt_tokens;
  std::int64_t completion_tokens = 0;
};
std::optional<Said> read_reply(const VersionReply& reply);

struct Offsets {
  std::vector<std::int64_t>
      of;                 // of each reply, 0..k-1; -1: it stands outside, and counts for none
  bool verified = false;  // counts say so, and there is an answer with one at each of 0..k-1
  bool free_line_break = false;  // is no token: as counts say, else as the versions asked suppose
};

// Every version has an offset of its own, but for 0 and 1 where the line break is no token. A reply
// that is missing or has no count stands where its version does by the others' counts.
Offsets offsets_of(std::span<const VersionReply> replies, std::int64_t k);

// The version that must be asked besides because a line break was taken for a token that is none
// (k), or the other way round (1); empty: none, or counts that say neither.
std::optional<std::int64_t> missing_version(std::span<const VersionReply> replies, std::int64_t k);

}  // namespace kvphase::guard
