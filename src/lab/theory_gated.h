// Theorem 2 with log-linear gates, which may look at each chunk's content: gradient flow on a fixed
// sample of prompts, and plain SGD with fresh prompts every step beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/theory_gates.h"
#include "lab/theory_runs.h"

namespace kvphase::lab {

struct GatedOptions {
  GatedSetting setting;
  FlowSettings flow;          // init is that of every weight
  std::int64_t prompts = 16;  // of the flow's sample; more: closer to the population, slower
  std::int64_t seen = 200;    // fresh prompts on which the gates are summarised
  double rate = 5;            // of SGD, in the flow's time units per step
  std::int64_t batch = 2;     // prompts of an SGD step
};

struct GatedRun {
  std::vector<HeadState> heads;    // of E[alpha] over fresh prompts
  std::vector<double> per_window;  // E[exp(H(alpha))], [2][m]
  double loss = 0;                 // of fresh prompts
  Trajectory offsets;              // static effective offsets
  Trajectory window_offsets;       // per-window effective offsets
};

enum class Descent { kFlow, kSgd };

// Start and sample of run `index` depend on the seed and the index; both descents start alike.
GatedRun run_gated(const GatedOptions& options, Descent descent, std::int64_t index);

struct GatedStudy {
  GatedOptions options;
  Descent descent = Descent::kFlow;
  std::int64_t runs = 0;
  std::int64_t heads = 0;
  std::int64_t selected = 0;
  double worst_static = 0;      // largest static effective offsets of any gate
  double worst_per_window = 0;  // largest per-window effective offsets
  double mean_static = 0;       // over gates and runs
  double mean_per_window = 0;
  std::vector<std::int64_t> positions;  // heads by r_h, 0..S-2
  Fit positions_fit;
  std::vector<std::int64_t> distinct;
  Fit distinct_fit;
  std::vector<GatedRun> kept;
  std::vector<std::vector<HeadState>> ends;  // of every run
};

GatedStudy study_gated(const GatedOptions& options, Descent descent, std::int64_t runs,
                       std::int64_t keep);

}  // namespace kvphase::lab
