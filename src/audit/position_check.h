// Proof, from the prompts themselves, that residues differ in phase and in nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "record/result.h"
#include "task/task.h"

namespace kvphase::audit {

struct PlanCheck {
  record::PositionCheck positions;
  std::string prompt_set_sha256;  // over item, residue, tokens and right answer of every prompt, in
                                  // plan order
};

// Goes through every prompt of the task once; ends early on base::stop_requested(). positions.ok
// requires: every target at its residue, one query position and one length for all, equal means of
// the target position over residues (within 1e-6 tokens) and variances within kVarianceTolerance of
// each other, relative to the largest.
PlanCheck check_plan(const task::Task& task);

inline constexpr double kVarianceTolerance = 0.25;

}  // namespace kvphase::audit
