// Where an item's target sits when it is moved over all residues, so that groups differ in phase
// and in nothing else: the mean and the variance of the target's position are equal over residues.
//
// Item i has a base position b; its R prompts put the target at b, b+1, .., b+R-1 (one prompt per
// residue). With b = c + R*q, c uniform over 0..R-1, residue r sits at r + R*(q + [c > r]). The
// mean over items is then the same for every r; the variance is the same if the mean of b does not
// depend on c, i.e. E[q | c] = const - c/R. Here q = u + h: u is spread evenly over 0..m-1, the
// same for every c, and h is 0 or 1 with P(h=1 | c) = (R-1-c)/R. With a multiple of R*R items the
// equality is exact; with any multiple of R the mean's is exact and each variance is within
// R*R/items tokens^2 of the common value.
#pragma once

#include <cstdint>
#include <vector>

namespace kvphase::task {

struct PositionDesign {
  std::int64_t modulus = 24;  // R
  std::int64_t room = 49;     // base positions 0..room-1 are allowed; at least 2R-1
  std::int64_t items = 576;   // a multiple of R
};

// Smallest room that the design needs: 2R-1.
std::int64_t least_room(std::int64_t modulus);

// The base position of every item, 0..room-1, centred in the room.
std::vector<std::int64_t> base_positions(const PositionDesign& design);

}  // namespace kvphase::task
