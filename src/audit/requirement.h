// What a user demands of a model, decided three ways: pass, fail, or not known with these data.
//
//  worst>=X   every group (phase of the reported stride, else residue) answers a share of at least
//  X
//             right: the fixed-sample gate of stats/gate.h on one planned prompt per item and
//             group, a missing reply wrong for PASS and right for FAIL. Counts are judged residue
//             by residue: the same item may stand behind several residues of a phase.
//  gap<=X     pass when the upper end of the gap's bootstrap interval is at most X, fail when its
//             lower end is above X and the gap's permutation p is small; missing replies widen the
//             interval by as much as they could move the gap, replies that are all alike get exact
//             bounds in place of a bootstrap without width, and fewer than kFewestForGap items
//             never pass.
//  no-period  fail when a period is named; pass when the test was done, found none, and would have
//             found (in four of five runs) one phase in four that is weaker by kFindableShare, or
//             by kFindableSd standard deviations of a continuous score.
//
// A model that has not learned the task passes neither gap nor no-period: its flatness means
// nothing. Valid for one look at a sample whose size was fixed beforehand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/result.h"
#include "record/table.h"
#include "stats/score_table.h"

namespace kvphase::audit {

enum class RequirementKind { kWorst, kGap, kNoPeriod };

struct Requirement {
  RequirementKind kind = RequirementKind::kWorst;
  double value = 0;  // X, a share: 0 < X < 1 for worst, 0 <= X <= 1 for gap
  std::string text;  // without spaces
};

inline constexpr std::int64_t kFewestForGap = 20;  // items; the calibration study starts there

// "worst>=0.95", "gap<=0.05" or "no-period". Throws a usage error naming the nearest valid form.
Requirement parse_requirement(std::string_view text);

// Independent observations per group, for the gate.
struct GateCounts {
  stats::ResidueCounts counts;        // of the scored
  std::vector<std::int64_t> missing;  // chosen prompts without a reply
};

// One planned prompt per item and group = position mod `groups`, chosen at random, answered or not.
// rows must be prepared and hold right/wrong replies.
GateCounts gate_counts(const record::ScoreRows& rows, std::int64_t groups, std::uint64_t seed);

// What the decision needs beyond the record itself.
struct RequirementInput {
  std::optional<GateCounts> gate;            // empty: the score is continuous
  std::string group;                         // what gate's groups are: "phase" | "residue"
  std::optional<double> dip;                 // see findable.h, one phase in four
  std::optional<std::int64_t> known_stride;  // given or the model's
  std::optional<double> variance;            // of a score around its item's mean
  std::string unseen_stride;                 // VerdictInput::unseen_stride
  bool left_out = false;                     // note_left_out() found rows to be uneven
  bool all_equal = false;                    // every scored reply is the same
  double alpha = 0.05;                       // of the gate, and largest p of the gap
  std::uint64_t seed = 1;
};

// result must be complete but for its requirements.
record::Requirement decide_requirement(const Requirement& requirement, const record::Result& result,
                                       const RequirementInput& input);

}  // namespace kvphase::audit
