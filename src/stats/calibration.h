// Does the method do what it says? A simulation study with committed seeds: how often a period is
// named where there is none, how often intervals cover the truth, how often a real period is found,
// how often the tests over groups reject.
//
// The study uses fewer permutations (399) than an analysis (10,000), so that it takes minutes on
// one core. That coarsens p-values to steps of 1/400 and costs a little power, never the level. Far
// fewer would cost power: p-values come in steps of 1 / (permutations + 1).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "stats/estimate.h"

namespace kvphase::stats {

struct CalibrationOptions {
  std::int64_t null_runs = 2000;      // per false-alarm setting
  std::int64_t coverage_runs = 1000;  // per interval setting
  std::int64_t power_runs = 400;      // per power setting
  std::int64_t permutations = 399;    // of every null
  std::int64_t replicates = 499;      // of every bootstrap
  double level = 0.05;
  std::uint64_t seed = 20260928;
  std::string only;  // only settings whose name contains this; empty: all
  // Told each row's text as soon as it is known; may be empty.
  std::function<void(const std::string&)> progress;
};

enum class CalibrationKind { kFalseAlarm, kCoverage, kPower, kGroups };

struct CalibrationRow {
  CalibrationKind kind = CalibrationKind::kFalseAlarm;
  std::string setting;            // the simulated audit, in words
  std::string question;           // what was counted
  Estimate rate;                  // share of runs, Clopper-Pearson 95 %
  std::optional<double> at_most;  // what the share should not exceed
  std::optional<double> at_least;
  std::optional<bool> met;  // the rate itself against the bound; empty: only reported
};

struct CalibrationResult {
  CalibrationOptions options;  // without progress
  std::vector<CalibrationRow> rows;
  double seconds = 0;  // wall time; not part of what is compared between machines
  bool all_met = true;
};

CalibrationResult run_calibration(const CalibrationOptions& options);

// Same options, same bytes, except for "seconds".
base::Json to_json(const CalibrationResult& result);
std::string to_markdown(const CalibrationResult& result);  // tables for docs/method.md

}  // namespace kvphase::stats
