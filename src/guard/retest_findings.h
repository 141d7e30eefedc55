// A retest as a record: the answers with their disputed characters in place, the offsets, and what
// the number of offsets and replies can and cannot show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guard/retest.h"
#include "guard/user_prompt.h"
#include "record/findings.h"

namespace kvphase::guard {

struct RetestSubject {
  std::string prompt_name;  // its file
  Moves moves = Moves::kEverything;
  std::string expected;                  // of a template; empty: not known
  std::string filler;                    // the word
  std::optional<std::int64_t> position;  // of the first moved token at offset 0; empty: unknown
  std::optional<std::int64_t> stride;    // S, where the model says it or a person does
  std::string positions;                 // how they are known, a sentence
  double temperature = 0;
  base::Json options;  // everything that shaped the requests
  std::vector<std::string> notes;
};

// kind "retest"; `data` holds verdict, groups, offsets and the test.
record::Findings retest_findings(const RetestRun& run, const RetestDesign& design,
                                 const RetestSubject& subject, record::RunContext context);

}  // namespace kvphase::guard
