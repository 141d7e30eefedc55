// Audited models side by side: comparison.json of `kvphase compare RUN...`. Shares are fractions
// 0..1; undefined is empty with a reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/claim.h"
#include "record/context.h"
#include "record/result.h"

namespace kvphase::record {

inline constexpr const char* kRunComparisonSchema = "kvphase.run_comparison/1";

// What the cache of one sequence holds, all layers together, divided by the tokens in it.
struct CacheCost {
  std::optional<double> bytes_per_token;  // at `tokens` tokens
  std::int64_t element_bytes = 0;         // of one cached number
  std::int64_t tokens = 0;                // the model's context length
  std::string reason;                     // why there is none
};

struct TrainingCost {
  std::string recipe;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> tokens;
  std::optional<double> seconds;
  std::optional<double> loss;  // final, nats per answer
  std::string reason;          // why nothing is known
};

struct ComparedRun {
  std::string name;    // one of its own on the page
  std::string folder;  // empty: published
  std::string design;  // of model/presets.h; empty: unknown
  // What its study changed beyond the length of the training: "local_window=16", "after family";
  // empty: nothing. Runs of one design and variant are seeds of one model.
  std::string variant;
  std::string label;  // of those runs together: "w8s8-1kv, local_window=16, 2100 steps"
  std::optional<std::uint64_t> seed;  // of the training
  bool published = false;             // not ours: counts of others (record/published.h)
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> stride;
  bool control = false;  // full attention
  std::optional<std::int64_t> parameters;
  CacheCost cache;
  TrainingCost training;
  Result result;
};

// A difference, run - reference.
struct TestedDifference {
  Estimate estimate;
  std::optional<double> p;
  std::optional<double> p_holm;  // over all p-values of the page
};

// What the names of designs on staggered grids end with; before it stands the aligned twin's.
inline constexpr std::string_view kStaggeredSuffix = "-staggered";

// One run against its reference on the same prompts, or, where they went through different
// mitigations, on the same items at the same residues.
struct PairedRuns {
  std::size_t run = 0;  // index into RunComparison::runs
  std::size_t reference = 0;
  std::string rule;  // why this reference: "plain prompts" | "control" | "aligned twin" | ...
  std::int64_t items = 0;
  std::int64_t prompts = 0;  // with a usable reply of both
  std::int64_t modulus = 0;  // worst and gap are over positions modulo this
  TestedDifference mean;
  TestedDifference worst;
  TestedDifference gap;
  std::optional<double> tokens;  // prompt tokens per answer, run - reference; empty: unknown
  std::int64_t only_run = 0;     // prompts that only the run has right
  std::int64_t only_reference = 0;
  std::int64_t items_for_run = 0;  // items with more right answers of the run
  std::int64_t items_for_reference = 0;
  std::optional<double> p_items;  // McNemar's mid-p of these
  std::optional<double> p_items_holm;
};

struct RunComparison {
  RunContext context;
  std::string sentence;  // what the runs show together
  double level = 0.05;
  std::vector<ComparedRun> runs;  // by design, padding, modulus, published last, seed
  std::vector<PairedRuns> pairs;
  std::vector<Claim> claims;       // published ones, where runs of the paper's designs bear on them
  std::int64_t tests = 0;          // p-values that Holm's correction counts
  std::vector<std::string> notes;  // what was left out and why
};

// Fills the labels: design and variant, and the steps where these differ between runs of both; the
// name of a run whose design is not known.
void label_runs(std::vector<ComparedRun>& runs);

base::Json to_json(const RunComparison& comparison);

}  // namespace kvphase::record
