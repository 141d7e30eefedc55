// Theorem 2 with static gates: gradient flow on the exact loss from many starts, and how the
// positions that heads take cover the phases. Static gates (one logit per offset) are what
// log-linear gates become for a large vocabulary: what all tokens share then learns about N times
// faster than what one token has by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/theory_heads.h"
#include "lab/theory_model.h"
#include "lab/theory_occupancy.h"
#include "stats/estimate.h"

namespace kvphase::lab {

struct FlowSettings {
  double init = 0.01;       // standard deviation of the start's logits; larger: less alike
  double time = 20'000;     // of the flow; later: more concentrated
  double tolerance = 1.05;  // static effective offsets below this count as one position
  std::uint64_t seed = 1;
};

// Effective offsets on the way: values[time][2 m], keys then values of the heads.
struct Trajectory {
  std::vector<double> times;
  std::vector<std::vector<double>> values;
};

struct FlowRun {
  std::vector<HeadState> heads;
  std::vector<std::int64_t> predicted;      // r_h by selection_weights
  std::vector<std::optional<double>> time;  // from when on each head was selected, on a grid of 60
  std::vector<PhaseOutcome> outcomes;       // positions 0..S-2
  double loss = 0;
  Trajectory offsets;
};

// The start of run `index` depends on the seed, the index and the setting's sizes only.
FlowRun run_flow(const TheorySetting& setting, const FlowSettings& flow, std::int64_t index);

// A share of counts with an exact interval beside what was predicted.
struct ShareAgainst {
  stats::Estimate share;
  double predicted = 0;
};

struct CoverageStudy {
  TheorySetting setting;
  std::int64_t runs = 0;
  std::int64_t heads = 0;             // runs x m
  std::int64_t selected = 0;          // heads with one position, value one after key
  std::int64_t as_predicted = 0;      // of the selected, those whose r_h was seen in the start
  double worst_offsets = 0;           // largest static effective offsets of any gate at the end
  std::optional<double> median_time;  // of the selected heads
  std::optional<double> longest_time;
  std::vector<std::int64_t> positions;    // heads by r_h, 0..S-2; a head at S-1 counts nowhere
  Fit positions_fit;                      // against equally likely
  std::vector<std::int64_t> distinct;     // runs by number of covered positions, 0..m
  std::vector<double> distinct_expected;  // probabilities of balls in bins
  Fit distinct_fit;
  ShareAgainst pairs;                        // pairs of heads with one position; empty for one head
  std::vector<ShareAgainst> covered;         // runs that cover each position
  std::vector<double> accuracy;              // mean over runs by position
  std::optional<double> covered_accuracy;    // lowest of any covered position of any run
  std::optional<double> uncovered_accuracy;  // highest of any other
  std::optional<double> uncovered_probability;  // highest of the right token, times N
  double lowest_excess = 0;   // lowest final loss minus the best one-hot assignment's
  std::vector<FlowRun> kept;  // the first runs, `keep` of them
};

CoverageStudy study_coverage(const TheorySetting& setting, const FlowSettings& flow,
                             std::int64_t runs, std::int64_t keep);

}  // namespace kvphase::lab
