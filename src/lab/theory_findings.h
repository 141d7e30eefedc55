// A study of the idealised model as findings (record/findings.h): sentence, tables, figures and the
// numbers behind them; and its heads as CSV.
#pragma once

#include <string>

#include "lab/theory_study.h"
#include "record/findings.h"

namespace kvphase::lab {

// Schema "kvphase.theory/1". Losses are nats, offsets effective offsets, times those of the flow.
record::Findings findings_of(const TheoryStudy& study, const record::RunContext& context);

// One row per head of every flow with log-linear gates and of the first flows with static ones:
// gates,run,head,key_position,value_position,key_offsets,value_offsets,predicted.
std::string heads_csv(const TheoryStudy& study);

}  // namespace kvphase::lab
