// The figures of a study of the idealised model.
#pragma once

#include <vector>

#include "lab/theory_study.h"
#include "record/findings.h"

namespace kvphase::lab {

std::vector<record::Figure> figures_of(const TheoryStudy& study);

}  // namespace kvphase::lab
