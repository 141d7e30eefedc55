// Proof, from the prompts themselves, that residues differ in phase and in nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/result.h"
#include "task/task.h"

namespace kvphase::audit {

struct PlanCheck {
  record::PositionCheck positions;
  std::string prompt_set_sha256;  // over item, residue, tokens and right answer of every prompt, in
                                  // plan order
};

// The task's residues as its prompts are to be asked for, where `position_offset` tokens stand in
// front of the first that we send: each is (r - offset) mod R for an absolute residue r.
std::vector<std::int64_t> asked_residues(const task::Task& task, std::int64_t position_offset);

// Goes through every prompt of the plan once; ends early on base::stop_requested(). positions.ok
// requires, for every task: the moved position (the target's; the end's where only that moves) at
// its residue; as many tokens in the prompt as it says, counted again from its text; equal means of
// the moved position over residues (within 1e-6 tokens; within R/8 where only some residues are
// asked) and variances within kVarianceTolerance of each other, relative to the largest. And, by
// where the filler goes (task/pad.h), within each item:
//   split                 one query position and one length
//   start, before-needle  one distance from the target to the end
//   after-needle          one target position
//   two-factor            every residue of the end once; over items, differences between the two
//                         residues equally often (within one); equal means and variances of the end
//                         over its own residues, its mean within R tokens over the target's
PlanCheck check_plan(const task::Task& task, std::int64_t position_offset = 0);
// Throws kInterrupted when the user asked to stop.
void refuse_stopped();
// Throws a phase-control error that says what to do when the positions are not ok; kInterrupted
// when the user stopped the check.
void require_controlled(const PlanCheck& plan, const task::Task& task);

inline constexpr double kVarianceTolerance = 0.25;

}  // namespace kvphase::audit
