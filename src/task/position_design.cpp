#include "task/position_design.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace kvphase::task {

std::string rounded_items(std::int64_t wanted, std::int64_t asked, std::int64_t modulus) {
  if (wanted == asked) return "";
  return fmt::format(
      "{} items are asked, not {}: {}, so that target positions are alike at all of them", asked,
      wanted,
      asked % modulus == 0 ? fmt::format("a multiple of the {} residues", modulus)
                           : fmt::format("full groups over the {} residues", modulus));
}

std::int64_t least_room(std::int64_t modulus) { return 2 * modulus - 1; }

std::vector<std::int64_t> base_positions(const PositionDesign& design) {
  const std::int64_t R = design.modulus;
  assert(R >= 1 && design.items % R == 0 && design.room >= least_room(R));
  // Bases reach R*(m-1) + (R-2) + R, and R-1 for c = R-1 with m = 1.
  const std::int64_t m = (design.room + 1) / R - 1;
  const std::int64_t start = (design.room - (R * (m + 1) - 1)) / 2;
  const std::int64_t per_class = design.items / R;

  // How many items of each class c take h = 1: rounded so that every tail sum over c is within 1/2
  // of its target, which is what bounds the variance's error.
  std::vector<std::int64_t> with_step(static_cast<std::size_t>(R));
  std::int64_t assigned = 0;
  std::int64_t wanted = 0;  // in units of 1/R
  for (std::int64_t c = R - 1; c >= 0; --c) {
    wanted += per_class * (R - 1 - c);
    const std::int64_t rounded = (2 * wanted + R) / (2 * R);
    with_step[static_cast<std::size_t>(c)] = rounded - assigned;
    assigned = rounded;
  }

  std::vector<std::int64_t> bases;
  bases.reserve(static_cast<std::size_t>(design.items));
  for (std::int64_t t = 0; t < per_class; ++t) {
    for (std::int64_t c = 0; c < R; ++c) {
      const std::int64_t steps = with_step[static_cast<std::size_t>(c)];
      // Spread the `steps` items evenly over t (Bresenham).
      const std::int64_t h = (t + 1) * steps / per_class - t * steps / per_class;
      const std::int64_t u = (2 * t + 1) * m / (2 * per_class);  // the same values for every c
      bases.push_back(start + c + R * (u + h));
    }
  }
  return bases;
}

std::int64_t class_offset(const ClassDesign& design, std::int64_t block, std::int64_t c) {
  const std::int64_t C = design.classes();
  const std::int64_t rest = C - 1 - c;
  const std::int64_t h = (block + 1) * rest / C - block * rest / C;
  return c * design.step + design.modulus * h;
}

ItemEnd item_end(const ClassDesign& design, std::int64_t item) {
  const std::int64_t C = design.classes();
  const std::int64_t R = design.modulus;
  // Reversed, so that within a block `between` minus the class of `extra` takes many values.
  return {.extra = class_offset(design, item / C, C - 1 - item % C),
          .between = (item / R + item) % R};
}

}  // namespace kvphase::task
