// The part of the calibration study that asks the tests over groups (phases or residues): the gap's
// p, Cochran's Q and the pairs. They know no position, so that a drift which all items share is a
// difference of groups; whatever differs between items must not be. Internal to stats.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stats/score_table.h"
#include "stats/simulate.h"

namespace kvphase::stats {

struct GroupSetting {
  std::string name;
  std::int64_t modulus = 0;  // groups = position mod modulus
  SimulatedAudit audit;      // with a period: power is asked, else the level
  bool exact = true;         // the tests by shifts should keep their level
};
std::vector<GroupSetting> group_settings();

// What rejects at `level`, and in which words a study says so.
struct GroupQuestion {
  const char* text;
  bool by_shifts;
};
inline constexpr std::array<GroupQuestion, 4> kGroupQuestions = {{
    {"the gap's p rejects", true},
    {"Cochran's Q rejects", true},
    {"its chi-squared p rejects", false},
    {"a pair with the worst is significant (Holm)", false},
}};
std::array<bool, kGroupQuestions.size()> group_rejections(const ScoreTable& table,
                                                          std::int64_t modulus, std::int64_t draws,
                                                          double level, std::uint64_t seed);

}  // namespace kvphase::stats
