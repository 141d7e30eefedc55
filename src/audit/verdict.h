// The verdict in one sentence with its numbers, and what the reader should do now. Internal to
// audit/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/result.h"

namespace kvphase::audit {

// Where the data have scored prompts: at positions first, first + 1, ..., where they span fewer
// than R of them, else at residues 0 .. R-1.
struct Coverage {
  bool residues = true;
  std::int64_t first = 0;
  std::vector<bool> seen;
};

struct VerdictInput {
  std::optional<double> min_accuracy;
  // How far one phase in four must lie below the others for this much data to find it in four of
  // five runs; empty: unknown. Where nothing varies it is a share of prompts with another score.
  std::optional<double> findable;
  // The same for naming its period, which few positions make harder than seeing a difference;
  // empty: as above. A difference without a name is inconclusive, never "no period".
  std::optional<double> nameable;
  // Where the period of a phase in four could not be named at all: "residues modulo 4"; empty: it
  // could.
  std::string unnameable_from;
  double wanted = 0.2;                       // "no period" needs findable <= wanted
  std::optional<std::int64_t> known_stride;  // given or the model's
  std::string known_source;                  // "given" | "model"
  // The known stride's phases cannot be seen: why, and what to do. Empty: they can.
  std::string unseen_stride;
  std::string unseen_stride_step;
  // The known stride can be folded by but was too long to be searched for, and how far one of its
  // phases must lie below the others to be found all the same; empty: by no dip.
  bool unsearched_stride = false;
  std::optional<double> findable_at_stride;
  // The search rejects, but not against the second null, which must reject, too (few items).
  bool like_drift = false;
  // No item-level period, yet permutations inside items reject: their p. Items repeat, but not
  // together.
  std::optional<double> p_own_phases;
  std::string uneven;  // Uneven::sentence; empty: nothing is
  std::string uneven_step;
  bool all_equal = false;     // every scored reply is the same ...
  bool equal_inside = false;  // ... or at least those of the same item
  Coverage coverage;
  bool enough_positions = true;  // replies that are all alike: could a period be seen at all?
};

// The period test's share of the level at which positions count as differing beyond the period.
inline constexpr double kMisfitLevel = 0.2;

// "one phase in four weaker by 12.0 points"; of continuous scores without any variance "one phase
// in four with another score in 12.0% of its prompts".
std::string dip_text(const record::Result& result, double dip, bool nothing_varies);

// Positions differ for certain, but no period is named for it.
bool positions_differ(const record::Result& result);

// " The margin does follow a period of 4 (p = 0.0001)."; empty: none does, or the verdict has one.
// Several continuous scores are looked at beside right/wrong, so each must show it at its share of
// the level (Bonferroni).
std::string score_hint(const record::Result& result);

record::Verdict decide(const record::Result& result, const VerdictInput& input);

}  // namespace kvphase::audit
