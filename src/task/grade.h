// Grades an answer in words against the right one and the answers to other questions. Models wrap
// answers in sentences, quotes, markdown or other letter case: that is forgiven. A part of a longer
// word, number or identifier is no answer, and neither is another record's value.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "task/task.h"

namespace kvphase::task {

enum class Grading {
  kContains,  // the right answer stands in the text before any other record's
  kExact,     // it is the whole text, up to blanks, quotes, markdown and a final period
};
std::string_view name_of(Grading grading);

struct GradeOptions {
  Grading grading = Grading::kContains;
  bool cut = false;  // the text was cut off at max_tokens
};

// Classes, the first that holds:
//   "exact"         right
//   "other_record"  another record's value
//   "near_miss"     one character wrong, missing, too many, or two neighbours swapped
//   "empty"         nothing but blanks
//   "truncated"     cut off before a whole answer: `correct` is empty
//   "wrong"
// An answer is whole when it was not cut, or when its first line ends.
Grade grade_text(std::string_view text, std::string_view expected,
                 std::span<const std::string> others, const GradeOptions& options = {});

// Where an answer is one character off.
struct NearMiss {
  std::size_t position = 0;  // of the first differing character in the expected text
  std::string kind;          // "replaced" | "missing" | "extra" | "swapped"
  std::string said;          // the part of the text that was compared
};

// Of answers of at least 3 characters that are not exact; empty: further off.
std::optional<NearMiss> find_near_miss(std::string_view text, std::string_view expected);

// Of continuations: correct when the first candidate is likelier than every other one. Candidates
// that the server does not list are less likely than those that it lists; where it lists none, the
// text decides: the candidate that it starts with.
Grade grade_candidates(std::span<const std::string> candidates, const lm::AnswerReply& reply);

}  // namespace kvphase::task
