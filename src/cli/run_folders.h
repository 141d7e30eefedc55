// Finding the audits in folders that a person names: run folders of `kvphase audit`, studies of
// `kvphase family` and single cells of them; and what is known about the audited model from its
// checkpoint, where that is still there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/run_comparison.h"

namespace kvphase::cli {

struct FoundRuns {
  // Name, folder, design, seed, sizes, costs and result of each; in the order given, studies by
  // seed and design. A folder given twice counts once.
  std::vector<record::ComparedRun> runs;
  std::vector<std::string> notes;  // unfinished cells, folders given twice
};

// Throws a usage error for a folder that is none of these, an unfinished audit given by itself, and
// a result of another schema.
FoundRuns find_runs(const std::vector<std::string>& folders);

// Tokens in front of the plan's first that the run's journal includes.
std::int64_t position_offset_of(const std::filesystem::path& run_folder);

}  // namespace kvphase::cli
