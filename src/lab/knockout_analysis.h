// The numbers behind knockout_findings: estimates and tests of every site (knockout.h says which).
// Knows no tensors, prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/knockout.h"
#include "stats/estimate.h"

namespace kvphase::lab {

inline constexpr double kKnockoutLevel = 0.05;  // of each test, over all sites

// A test of one site; no p: the reason.
struct PhaseTest {
  std::optional<double> p;
  std::optional<double> p_holm;
  std::string reason;

  bool found() const { return p_holm && *p_holm <= kKnockoutLevel; }
};

struct SiteResult {
  std::vector<std::optional<double>> by_residue;  // R, percent
  std::vector<stats::Estimate> phases;            // S
  stats::Estimate mean;
  stats::Estimate points;        // net change of accuracy, percentage points of all prompts
  stats::Estimate concentrated;  // largest loss minus mean loss
  stats::Estimate crossed;       // the same, unbiased
  std::optional<std::int64_t> worst_phase;
  PhaseTest net;   // does its net change depend on phase?
  PhaseTest lost;  // does the share of right answers that it loses?
};

// Is it counted and named as one that depends on phase? The corrected p of its net change is at
// most the level, and the interval of its crossed concentration lies above 0: a small p alone says
// that phases differ, not that they differ by much, and with many items a single answer has one.
bool depends_on_phase(const SiteResult& result);

// How many heads, or layers, depend on phase (of the net test: as above), of those that could be
// tested, of all.
struct Tally {
  std::int64_t found = 0, tested = 0, all = 0;
};
Tally tally(const KnockoutAnswers& answers, const std::vector<SiteResult>& results, bool layers,
            PhaseTest SiteResult::*test);

// A result per site, in their order. Throws kInterrupted when the user asked to stop.
std::vector<SiteResult> analyse(const KnockoutAnswers& answers, const KnockoutOptions& options);

}  // namespace kvphase::lab
