// A few hundred short common English words, candidates for words that are one token after a blank.
// Which of them are is asked of the audited server.
#pragma once

#include <span>
#include <string>

namespace kvphase::task {

// Distinct, lower case, the likeliest first.
std::span<const std::string> candidate_words();

}  // namespace kvphase::task
