// The analysis of an audit that asked only some residues of a long stride (task/residue_set.h). It
// can say whether these residues differ from one another, and which is the worst of these. It
// cannot search for a period, nor say anything about residues that were not asked.
#pragma once

#include <cstdint>
#include <span>

#include "audit/analysis.h"
#include "record/result.h"
#include "record/table.h"

namespace kvphase::audit {

// As analyse(), over the asked residues only (0..R-1, increasing, at least 2): groups, worst, best
// and gap are theirs, the difference test is the gap's (items shifted over the asked residues), and
// period.value is empty with the reason. `no-period` is never decided; worst and gap are, for the
// asked residues. Throws a usage error for counts and for a position at another residue.
record::Result analyse_some(const record::Dataset& data, std::span<const std::int64_t> residues,
                            const AnalysisOptions& options);

}  // namespace kvphase::audit
