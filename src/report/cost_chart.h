// Worst residue against the bytes that the cache holds per token: what a design costs and what it
// is worth at its weakest position, in one picture.
#pragma once

#include "record/run_comparison.h"
#include "report/run_charts.h"

namespace kvphase::report {

// A mark per group of our runs at the mean of its seeds' worst residues, with a line over the
// seeds; twins on aligned and staggered grids are joined. No panels where nothing is known of the
// cache.
RunFigure cost_figure(const record::RunComparison& comparison, const RunSet& set);

}  // namespace kvphase::report
