// From scores to the complete record: residues and phases with intervals, the gap and what noise
// alone would show, the period test, continuous scores, missing replies, the verdict in one
// sentence and what to do next. The one analysis behind `kvphase audit`, `analyze` and `demo`.
// Must not know models, prompts or files. Same data, options and seed: the same result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/requirement.h"
#include "record/result.h"
#include "record/table.h"

namespace kvphase::audit {

struct AnalysisOptions {
  std::optional<std::int64_t>
      stride;  // S to fold by, as the user says; else the data's, else found
  std::optional<std::int64_t> window;  // W: with W = S, phase S-1 is marked as the boundary
  double level = 0.05;                 // largest p-value that names a period
  double coverage = 0.95;              // of every interval
  std::int64_t replicates = 2000;      // of the bootstrap; more: smoother interval ends
  std::int64_t permutations = 10000;   // the smallest p-value is 1 / (permutations + 1)
  std::uint64_t seed = 1;
  // A mean below it without a period is reported as "not learned": flatness means nothing then.
  std::optional<double> min_accuracy;
  std::vector<Requirement> requirements;
  std::string title;           // empty: made from the data set's name and task
  record::RunContext context;  // seed is filled in
  base::Json task_options;     // for design.options
};

record::Result analyse(const record::Dataset& data, const AnalysisOptions& options);

}  // namespace kvphase::audit
