// The assumptions of the theorems broken one at a time, to see what each is for.
#pragma once

#include <vector>

#include "lab/theory_study.h"

namespace kvphase::lab {

// The log-linear part of a study.
GatedOptions gated_options(const StudyOptions& options);

std::vector<BetaSweep> sweep_beta(const StudyOptions& options);

std::vector<BrokenCase> break_assumptions(const StudyOptions& options);

}  // namespace kvphase::lab
