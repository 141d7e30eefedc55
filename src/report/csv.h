// residues.csv: one row per residue. Shares are fractions 0..1, log-probabilities nats; an
// undefined number is an empty field.
#pragma once

#include <string>

#include "record/result.h"

namespace kvphase::report {

// Header: residue,n,correct,accuracy,low,high,phase,mean_logprob. `phase` is empty when the curve
// is not folded.
std::string residues_csv(const record::Result& result);

}  // namespace kvphase::report
