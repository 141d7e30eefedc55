// kvphase compare RUN...: finished audits side by side, published curves beside ours, each run
// against its reference on the same prompts. Nothing is run and no model is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"

namespace kvphase::cli {

struct RunsToCompare {
  std::vector<std::string> folders;  // runs, studies, cells of studies
  std::filesystem::path out;         // new folder for comparison.json, table.csv, compare.html
  std::string reference;             // a run's name or folder, or a design; empty: by design
  bool json = false;                 // comparison.json on stdout
  std::uint64_t seed = 1;            // of the resampling of published counts
};

ExitCode compare_runs(const RunsToCompare& wanted, const Session& session);

}  // namespace kvphase::cli
