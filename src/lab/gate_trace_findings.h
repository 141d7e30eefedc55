// What a training logged about its gates, as findings.
#pragma once

#include "record/findings.h"
#include "train/gate_trace.h"

namespace kvphase::lab {

// Adds data.trace, a table from the first to the last step, the trajectories in the plane of the
// two measures and the profiles over steps of the gates that moved most.
void add_trace(record::Findings& findings, const train::GateTrace& trace);

}  // namespace kvphase::lab
