// compare.html: audited models side by side, one file that opens offline. Order: the sentence, the
// designs in one table, figures per padding (small multiples: a panel per design), paired tests,
// every run, how to read it, what ran.
#pragma once

#include <string>

#include "record/run_comparison.h"

namespace kvphase::report {

std::string run_comparison_html(const record::RunComparison& comparison);

}  // namespace kvphase::report
