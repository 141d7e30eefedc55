// A made-up comparison at full size for tests of its page: the paper's designs and their staggered
// twins, three seeds, two paddings, published curves beside them. Drawn from a seed; nothing here
// was measured.
#pragma once

#include "record/run_comparison.h"

namespace kvphase::test {

record::RunComparison example_runs();

}  // namespace kvphase::test
