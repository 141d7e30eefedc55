// Worst residue against the bytes that the cache holds per token: what a design costs and what it
// is worth at its weakest position. A panel per family of options, so that each can be found.
#pragma once

#include "record/run_comparison.h"
#include "report/run_charts.h"

namespace kvphase::report {

// A numbered mark per group of our runs, named in its panel's key, at the mean of its seeds' worst
// residues, with the range of the seeds and the ends of their intervals; hollow: one seed. Twins on
// aligned and staggered grids share a panel per stride and are joined; what a study changed in a
// design stands beside it. No panels where nothing is known of the cache.
RunFigure cost_figure(const record::RunComparison& comparison, const RunSet& set);

}  // namespace kvphase::report
