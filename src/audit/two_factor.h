// Observations looked at by the phase of the prompt's end instead of the target's, for plans in
// which the end moves (task/pad.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "record/observation.h"

namespace kvphase::audit {

// The same observations with the query position in place of the target's, and its residue mod R in
// place of theirs: what dataset_from() and analyse() then say is about the end. Needed where only
// the end moves, and for the second factor where both do.
std::vector<record::Observation> by_end(std::span<const record::Observation> observations,
                                        std::int64_t modulus);

}  // namespace kvphase::audit
