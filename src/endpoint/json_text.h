// JSON as servers really send it: bare NaN and Infinity, broken UTF-8, absurd nesting. Made safe
// before it is parsed, and what was changed is said.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kvphase::endpoint {

constexpr int kMaxJsonDepth = 64;  // replies of all known servers stay under 12

struct JsonText {
  std::optional<base::Json> value;  // empty: see problem
  std::string problem;              // e.g. "nested deeper than 64", "not JSON: <!DOCTYPE html..."
  bool had_non_finite = false;      // bare NaN, Infinity or -Infinity, read as null
  bool had_invalid_utf8 = false;    // bytes replaced by U+FFFD
};

JsonText read_json(std::string_view text);

// Bytes that are not UTF-8 replaced by U+FFFD, one for each; `changed` says whether any was.
std::string repair_utf8(std::string_view text, bool& changed);

// The first `limit` bytes on one line, cut at a character's end, "..." when cut.
std::string excerpt(std::string_view text, std::size_t limit = 160);

}  // namespace kvphase::endpoint
