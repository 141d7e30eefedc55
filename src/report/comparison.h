// A comparison of two models for a terminal: the sentence, a line per residue and per length, what
// the tests say, the next step.
#pragma once

#include <string>

#include "record/comparison.h"

namespace kvphase::report {

std::string comparison_text(const record::Comparison& comparison);

}  // namespace kvphase::report
