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
//   1. Latin letters and the combining marks behind them become one character (compose.h)
//   2. --extract, where given; no match is the answer kNoMatch
//   3. a code fence (three ` or ~) around the whole text goes, with the word behind its first marks
//   4. typographic quotes become ' and ", no-break spaces blanks
//   5. runs of white space become one blank; none at either end
//   6. pairs of ", ', `, **, *, __ or _ around the whole text go, then one period at its end;
//      repeated until nothing changes. Not _ around a name: _x_ and __init__ can be names
//      themselves
//   7. --ignore-case, where given
// Stricter than the votes of an audit (audit/votes.h), which join what the task's grader counts
// alike: here no grader says that letter case or a second line means nothing.
std::string normalised(std::string_view answer, const NormaliseOptions& options = {});

inline constexpr std::string_view kNoMatch = "[no match of --extract]";

}  // namespace kvphase::guard
