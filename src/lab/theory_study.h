// The whole study behind `kvphase theory`: Theorem 1 as a search, Theorem 2 by gradient flow and
// SGD, coverage against balls in bins, and what fails when an assumption is broken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/theory_gated.h"
#include "lab/theory_rules.h"
#include "lab/theory_runs.h"

namespace kvphase::lab {

struct StudyOptions {
  TheorySetting setting;  // of the main flows
  FlowSettings flow;
  std::int64_t runs = 2000;       // flows with static gates; more: finer coverage
  std::int64_t other_runs = 500;  // of each other size
  std::int64_t gated_runs = 100;  // flows with log-linear gates
  std::int64_t sgd_runs = 20;
  double kappa = 1;               // of log-linear gates
  std::int64_t gated_chunks = 4;  // L and N of log-linear gates, for which every token has weights
  std::int64_t gated_vocabulary = 256;
  RuleSearchOptions rules;               // of each setting of Theorem 1's grid
  std::int64_t largest_rule_stride = 8;  // of the grid, which starts at 3
  bool broken = true;                    // also break the assumptions
  std::function<void(const std::string&)> progress;
};

// Throws a usage error when an option is outside its range.
void check(const StudyOptions& options, std::string_view scope);

// "holds", "fails", or "open" where there is too little data to say.
struct TheoryClaim {
  std::string name;
  std::string text;
  std::string outcome;
  std::string evidence;
};

// The network run vector by vector on sampled prompts, beside the closed form.
struct SampledCheck {
  std::string embeddings;
  std::int64_t prompts = 0;
  double loss = 0;
  double closed_loss = 0;
  std::vector<double> accuracy;  // by position
  std::vector<double> closed_accuracy;
};

// One-hot against other rules as beta grows.
struct BetaSweep {
  TheorySetting setting;               // beta unused
  std::optional<double> largest_beta;  // up to which one-hot is a local minimum
  std::vector<double> beta;
  std::vector<double> lowest;  // of local minima, minus the best one-hot, nats
};

struct BrokenCase {
  std::string name;
  std::string assumption;  // what is broken
  std::string finding;     // what then happens, with its numbers
  std::optional<CoverageStudy> flows;
  std::optional<GatedStudy> gated;
  std::optional<RuleSearch> rules;
};

struct TheoryStudy {
  StudyOptions options;
  std::vector<RuleSearch> rules;  // S 3.., m 1..S-1, N 256 and 4096 (those of at least L S)
  CoverageStudy main;
  std::vector<CoverageStudy> others;
  GatedStudy gated;
  GatedStudy sgd;
  std::vector<SampledCheck> sampled;
  std::vector<BetaSweep> sweeps;
  std::vector<BrokenCase> broken;
  std::vector<TheoryClaim> claims;
};

TheoryStudy run_study(const StudyOptions& options);

}  // namespace kvphase::lab
