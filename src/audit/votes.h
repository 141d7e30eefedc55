// Several prompts, one answer: the replies to one prompt at consecutive offsets, taken together
// (task/mitigate.h, majority). Must not know how the offsets were made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/observation.h"

namespace kvphase::audit {

// How answers are told apart: letter case (A-Z), white space around, and quotes, backticks,
// asterisks and final periods do not count; nor does what follows the first line: what the tasks'
// graders count alike. A retest has no grader and joins less (guard/normalise.h).
std::string vote_of(const std::string& answer);

// Observation n*votes+v is version v of prompt n, v tokens further on: so its residue is v more
// (mod modulus). One observation per prompt, at version 0's place, with the most frequent answer of
// the versions that have one; of equals the one that came first. It is right where that answer is.
// Without any it is missing, with version 0's cause. Log-probabilities belong to single replies and
// are left empty. Sorted by item and residue.
std::vector<record::Observation> majority(std::span<const record::Observation> observations,
                                          std::int64_t votes, std::int64_t modulus);

}  // namespace kvphase::audit
