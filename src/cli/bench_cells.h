// Measuring a benchmark's cells, each in a process of its own.
#pragma once

#include <functional>
#include <string>

#include "cli/console.h"
#include "cli/exit_code.h"
#include "speed/bench.h"

namespace kvphase::cli {

struct CellsOutcome {
  speed::Bench bench;
  bool interrupted = false;  // the cells that were not measured are among those left out
  bool failed = false;       // a cell's process failed; so are they
};

CellsOutcome measure_cells(const speed::BenchOptions& options, const Console& console);

// The process of one cell: measures it, says the result in one line on stderr, ends.
ExitCode measure_one_cell(const std::string& cell, const Console& console);

}  // namespace kvphase::cli
