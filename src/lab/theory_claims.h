// What a study says about the theorems, claim by claim.
#pragma once

#include <string>
#include <vector>

#include "lab/theory_study.h"

namespace kvphase::lab {

std::vector<TheoryClaim> judge(const TheoryStudy& study);

// The claims in one sentence.
std::string sentence_of(const std::vector<TheoryClaim>& claims);

}  // namespace kvphase::lab
