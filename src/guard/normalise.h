// What makes two answers the same: rules for texts, none for meaning. Knows no model and no prompt.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvphase::guard {

struct NormaliseOptions {
  bool ignore_case = false;  // letters A-Z as a-z; other alphabets keep their case
  // ECMAScript regular expression: only its first match counts, or the match's first group where it
  // has one. Empty: the whole answer.
  std::string extract;
};

// Throws a usage error for an expression that is none, in the words of `scope`.
void check_extract(const NormaliseOptions& options, std::string_view scope);

// Longer answers are searched in their first so many bytes: the standard library's matcher recurses
// once per character.
inline constexpr std::size_t kMostSearched = 4096;

// In this order:
//   1. --extract, where given; no match is the answer kNoMatch
//   2. typographic quotes become ' and ", no-break spaces blanks
//   3. runs of white space become one blank; none at either end
//   4. pairs of ", ', `, ** or * around the whole text go, then one period at its end; repeated
//      until nothing changes
//   5. --ignore-case, where given
std::string normalised(std::string_view answer, const NormaliseOptions& options = {});

inline constexpr std::string_view kNoMatch = "[no match of --extract]";

}  // namespace kvphase::guard
