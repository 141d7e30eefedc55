// Does the worst phase meet a requirement? Pass, fail, or not known yet.
//
// PASS: for every phase the one-sided lower bound is at least the requirement. By the
// intersection-union argument alpha per phase is enough: to pass wrongly, the one phase below the
// requirement must be bounded wrongly (Berger 1982). FAIL: some phase's upper bound is below the
// requirement, at alpha / phases, because any of them may fail. Neither: inconclusive.
// Observations of one phase must be independent: one per item (see one_per_item).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::stats {

enum class GateVerdict { kPass, kFail, kInconclusive };
std::string_view name_of(GateVerdict verdict);  // "pass" | "fail" | "inconclusive"

struct GateOptions {
  double requirement = 0.95;  // smallest acceptable share, 0 < requirement < 1
  double alpha = 0.05;        // chance of a wrong pass, and of a wrong fail
  // Also use alpha / phases for PASS, so that the lower bounds hold for all phases at once.
  bool simultaneous = false;
};

struct GatePhase {
  std::int64_t phase = 0;
  std::int64_t n = 0;        // planned: scored and missing
  std::int64_t correct = 0;  // of the scored
  std::int64_t missing = 0;
  std::optional<double> low;     // lower bound used for PASS, every missing reply counted wrong
  std::optional<double> high;    // upper bound used for FAIL, every missing reply counted right
  std::optional<double> e_pass;  // anytime gate: evidence against "share <= requirement"
  std::optional<double> e_fail;  // and against "share >= requirement"
};

struct GateResult {
  GateVerdict verdict = GateVerdict::kInconclusive;
  std::vector<GatePhase> phases;
  std::optional<std::int64_t> decisive;  // phase that failed, or the one with the lowest bound
  std::string method;
  std::string reason;
};

// Fixed sample size, exact bounds of Clopper and Pearson. Valid for one look at the data only.
// missing: per phase, or empty for none. A phase without replies makes PASS impossible.
GateResult fixed_gate(const ResidueCounts& phases, const GateOptions& options,
                      const std::vector<std::int64_t>& missing = {});

// One observation per item and phase, chosen at random, as counts per phase.
ResidueCounts one_per_item(const ScoreTable& table, std::int64_t phases, std::uint64_t seed = 1);

// The gate that may be looked at after every observation (Waudby-Smith and Ramdas 2024, betting).
// Wealth prod(1 + lam (Y - q)), 0 <= lam < 1/q, is evidence against "share <= q"; prod(1 + lam (q -
// Y)), 0 <= lam < 1/(1-q), against "share >= q". lam is not tuned: the mean over a fixed grid of
// lam is itself such a wealth. PASS when every phase reaches 1/alpha, FAIL when one reaches
// phases/alpha. An observation that would have had a missing reply must be given as wrong; failing
// on it is the pessimistic reading, which the caller states.
class AnytimeGate {
 public:
  AnytimeGate(std::int64_t phases, const GateOptions& options);
  void add(std::int64_t phase, double score);  // 0 <= score <= 1
  GateResult result() const;

 private:
  GateOptions options_;
  std::vector<GatePhase> phases_;
  std::vector<std::vector<double>> log_pass_;  // phases x grid
  std::vector<std::vector<double>> log_fail_;
  std::vector<double> peak_pass_;  // log of the largest wealth so far: crossing counts for good
  std::vector<double> peak_fail_;
};

}  // namespace kvphase::stats
