// Where a task puts the filler that shifts its prompt, so that the phase of the target and the
// phase of the prompt's end can be told apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::task {

enum class PadAt {
  kSplit,         // around the target: it moves, the end of the prompt stays
  kStart,         // in front of everything: the whole text, target and end, moves together
  kBeforeNeedle,  // right before the target: it and the end move, what stands before it stays
  kAfterNeedle,   // behind the target: only the end moves, and the residue is the end's
  kTwoFactor,     // both move: each item has every residue of each exactly once
};

std::string_view name_of(PadAt at);             // as --pad-at says it: "before-needle"
std::vector<std::string> pad_at_names();        // all of them
PadAt pad_at_from_name(std::string_view name);  // throws a usage error with the nearest name

// An item's place with no filler added, and what it should have. Positions count tokens.
struct PadPlace {
  std::int64_t target = 0;   // position of the target's first token
  std::int64_t query = 0;    // of the prompt's last token
  std::int64_t extra = 0;    // the item's own end filler, 0 or more: spreads ends over residues
  std::int64_t between = 0;  // two-factor: end residue = residue + between (mod R)
};

// Filler tokens in front of the target (or of everything) and behind it.
struct PadAmounts {
  std::int64_t front = 0;
  std::int64_t back = 0;
};

// What brings the moved position to `residue` (0..R-1):
//   split          front = (residue - target) mod R, back = R-1 - front
//   start, before  the same front, no back
//   after          no front; (query + back) mod R = residue, back in extra .. extra+R-1
//   two-factor     the front of split; (query + front + back) mod R = (residue + between) mod R and
//                  front + back in R-1+extra .. 2R-2+extra, a function of the end's residue alone
PadAmounts pad_amounts(PadAt at, const PadPlace& place, std::int64_t residue, std::int64_t modulus);

// Largest front + back of any residue, for an `extra` of 0..2R-1 as item_end() gives it.
std::int64_t most_padding(PadAt at, std::int64_t modulus);

// True when the residue is that of the prompt's end.
inline bool moves_end_only(PadAt at) { return at == PadAt::kAfterNeedle; }

}  // namespace kvphase::task
