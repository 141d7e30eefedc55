// Reads anybody's results: counts per residue, one row per prompt in CSV or JSON lines, our
// journal, lm-evaluation-harness samples and RULER predictions. docs/formats.md describes each. Bad
// input is a usage error that names file, line and what to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/table.h"

namespace kvphase::record {

inline constexpr std::int64_t kDefaultModulus = 24;

struct ImportOptions {
  std::optional<std::int64_t> modulus;  // R; empty: the file's, else kDefaultModulus
  std::string model;                    // a model's name or id in a file of several; empty: all
  // Names of columns (JSON: dotted paths such as doc.position); empty: guessed from usual names.
  std::string position;
  std::string residue;
  std::string item;
  std::string correct;
  std::string score;
  std::string logprob;
  std::string margin;
  std::string repeat;
  std::filesystem::path positions_file;  // RULER: the data set that holds token_position_answer
};

// One data set per model (and padding) in the file; a folder is read as a run folder with a
// journal.
std::vector<Dataset> import_results(const std::filesystem::path& path,
                                    const ImportOptions& options);

}  // namespace kvphase::record
