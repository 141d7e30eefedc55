// The groups of a result's curve (its phases, else its residues) against each other, as the record
// holds it: stats/contrasts.h in the version that the data allow, with the words for what was used
// and what it cannot know. No verdict rests on it.
#pragma once

#include <cstdint>

#include "record/result.h"
#include "record/table.h"

namespace kvphase::audit {

// result: complete as far as its curves go (folded, worst, data_kind, confidence).
record::Contrasts compare_groups(const record::Result& result, const record::Dataset& data,
                                 std::int64_t permutations, std::uint64_t seed);

}  // namespace kvphase::audit
