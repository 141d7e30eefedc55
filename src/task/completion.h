// Which of a few continuations follows a text, as filler in it grows by one token at a time: the
// second test of the paper (arXiv 2609.36322), with our own code snippet in its spirit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "task/filled.h"

namespace kvphase::task {

struct CompletionOptions {
  std::string text;                     // with {filler}; empty: the FP8 snippet
  std::vector<std::string> candidates;  // the right one first; empty: the snippet's, "8" and "32"
};

// A cast to FP8 whose last line ends in "FP"; the filler decorates its docstring.
std::string_view fp8_snippet();

// Four families of filler, each of units that are one token after a blank: "=", "-", "#" and the
// given words.
std::vector<FillerFamily> filler_families(std::vector<std::string> words);

// Segments, entry, candidates, families' sizes and limits of a FilledTask. Only {filler} is a slot
// in the text: code has braces of its own. Throws a usage error when it does not stand there once,
// and for fewer than two candidates.
FilledOptions completion_options(const CompletionOptions& options);

}  // namespace kvphase::task
