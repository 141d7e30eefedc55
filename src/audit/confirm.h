// The gap that one data set suggests, measured on another. Worst and best group are chosen on the
// first, where the choice biases their gap upwards; on fresh items nothing is chosen any more, so
// their difference and its interval are unbiased. Must not know files.
#pragma once

#include "record/result.h"
#include "record/table.h"

namespace kvphase::audit {

// explored: the analysis of `first`; groups are its folded phases, else its residues. fresh must
// hold other items of the same kind of score. Paired where items were asked at both groups
// (Student's t over items), else two independent groups (Newcombe; Welch for continuous scores).
// coverage: of the interval. Throws a usage error when there is nothing to compare, or when fresh
// is the first data set again or repeats the answers of so many of its items (overlap.h) that
// chance cannot have done it; where it may have, the sentence warns.
record::Confirmation confirm(const record::Result& explored, const record::Dataset& first,
                             const record::Dataset& fresh, double coverage = 0.95);

}  // namespace kvphase::audit
