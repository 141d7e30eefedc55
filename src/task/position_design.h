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
#include <string>
#include <vector>

namespace kvphase::task {

struct PositionDesign {
  std::int64_t modulus = 24;  // R
  std::int64_t room = 49;     // base positions 0..room-1 are allowed; at least 2R-1
  std::int64_t items = 576;   // a multiple of R
};

// What to tell where a task asks another number of items than was wanted; empty: it asks as many.
std::string rounded_items(std::int64_t wanted, std::int64_t asked, std::int64_t modulus);

// Smallest room that the design needs: 2R-1.
std::int64_t least_room(std::int64_t modulus);

// The base position of every item, 0..room-1, centred in the room.
std::vector<std::int64_t> base_positions(const PositionDesign& design);

// The same design item by item, for bases R*q + class_offset(): the class of an item and the h of
// its block of `modulus / step` items. Classes are steps of `step`; 1: every residue.
struct ClassDesign {
  std::int64_t modulus = 8;  // R
  std::int64_t step = 1;     // a divisor of R
  std::int64_t classes() const { return modulus / step; }
};

// c*step + R*h, h in {0, 1} with P(h=1 | c) = (C-1-c)/C over blocks: equal means over classes.
std::int64_t class_offset(const ClassDesign& design, std::int64_t block, std::int64_t c);

// Where an item's prompt ends, for designs that move the end (pad.h): `extra` takes class offsets,
// 0..2R-1; `between` every residue once per R items, nearly independent of both.
struct ItemEnd {
  std::int64_t extra = 0;
  std::int64_t between = 0;
};
ItemEnd item_end(const ClassDesign& design, std::int64_t item);

}  // namespace kvphase::task
