// Made-up but realistic results for tests of the reports: a W4/S4 model whose boundary phase is
// weak, and its flat control. The counts are drawn from a seed; nothing here was measured.
#pragma once

#include <vector>

#include "record/result.h"

namespace kvphase::test {

// 50 items x 24 residues; expected accuracy 0.80, 1.00, 0.68, 0.20 by phase, phase 3 the boundary.
record::Result example_result();

// The same design, expected accuracy 0.97 everywhere, folded to the same stride.
record::Result example_control();

record::Sequential example_sequential();

// Phases of example_result() against the worst, phase 3; phase 1 has a pair without an interval.
record::Contrasts example_contrasts();

// One requirement of each outcome.
std::vector<record::Requirement> example_requirements();

}  // namespace kvphase::test
