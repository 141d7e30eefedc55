// The null of tests over groups (phases or residues) with items as units: items share no phase, so
// that moving every item over the groups, as a whole and by its own random amount, changes nothing.
// Whatever an item's answers have to do with one another stays as it is: a pattern of its own,
// neighbours alike, drift. Internal to stats; period.h does the same along positions (fold.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"

namespace kvphase::stats {

// Two groups of n shifted items have 2^(n-1) arrangements: with fewer items than this that vary, a
// test could not reject (a period of 2, or 8 over 4), and scores are permuted inside items instead.
inline constexpr std::size_t kFewestItemsToShift = 9;

// What items add to the groups, beyond their means.
struct ItemShifts {
  std::size_t groups = 0;
  std::vector<double> sum;   // items x groups: of deviations
  std::vector<double> size;  // items x groups: of observations; empty where every item has as many
                             // in every group, so that a shift does not change them

  std::size_t items() const { return groups == 0 ? 0 : sum.size() / groups; }
};

// One draw, added up over items. Both are resized to `groups`; total_size stays empty with `size`.
void draw_shifts(const ItemShifts& items, base::Random& random, std::vector<double>& total_sum,
                 std::vector<double>& total_size);

}  // namespace kvphase::stats
