// A study of the idealised model as JSON: what shaped it, and its numbers.
#pragma once

#include "base/json.h"
#include "lab/theory_study.h"

namespace kvphase::lab {

base::Json options_json(const StudyOptions& options);
base::Json data_json(const TheoryStudy& study);

}  // namespace kvphase::lab
