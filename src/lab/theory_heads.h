// What a head has become: where its gates stand and how concentrated they are, and which position
// the flow will give it, seen from its start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/theory_model.h"

namespace kvphase::lab {

// exp(H(p)), H the entropy in nats: 1 for one-hot, the length of p for uniform.
double effective_offsets(std::span<const double> p);

struct HeadState {
  std::int64_t key_position = 0;    // r_h: largest mean key gate
  std::int64_t value_position = 0;  // largest mean value gate
  double key_offsets = 0;           // static effective offsets of the key gate, 1..S
  double value_offsets = 0;
  bool selected(double tolerance) const {  // one static position, value one after key
    return key_offsets < tolerance && value_offsets < tolerance &&
           value_position == key_position + 1;
  }
};

// One per head, from gates averaged over windows, [2][m][S].
std::vector<HeadState> head_states(const TheorySetting& setting, std::span<const double> gates);

// Weights (key, value) such that, from a small start, one head's r_h is the r with the largest
//   key * u_K(r) + value * u_V(r+1).
// Of a large vocabulary, where heads do not disturb each other: the flow first follows the path on
// which all retrievable positions are alike, and leaves it along the mode that grows fastest; the
// weights are that mode's share of the start's differences. docs/theory.md derives the equations.
struct SelectionWeights {
  double key = 0;
  double value = 0;
};
SelectionWeights selection_weights(const TheorySetting& setting);

// r_h of each head as the weights say, from start logits [2][m][S].
std::vector<std::int64_t> predicted_positions(const TheorySetting& setting,
                                              std::span<const double> logits);

}  // namespace kvphase::lab
