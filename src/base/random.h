// Seeded random numbers whose stream is the same on every platform (no std::*_distribution).
// Generator: xoshiro256** seeded through SplitMix64 (Blackman and Vigna, public domain).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvphase::base {

// One step of SplitMix64: a good 64-bit mixing function.
std::uint64_t mix64(std::uint64_t x);

// A seed for a named part of a run: derive_seed(seed, "audit", {item, residue}). Different names or
// indices give unrelated streams, so adding items or phases never changes earlier ones.
std::uint64_t derive_seed(std::uint64_t seed, std::string_view name,
                          std::initializer_list<std::uint64_t> indices = {});

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next();                              // 64 uniform bits
  std::uint64_t uniform_index(std::uint64_t bound);  // 0..bound-1 without bias; bound > 0
  double uniform();                                  // [0, 1), 53 bits
  double normal();                                   // standard normal (Marsaglia's polar method)

  template <typename T>
  void shuffle(std::span<T> values) {  // Fisher-Yates
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[uniform_index(i)]);
    }
  }

  // `count` distinct indices of 0..size-1 in random order; count <= size.
  std::vector<std::size_t> sample_without_replacement(std::size_t size, std::size_t count);

  // The whole state, so that a run can be resumed bit-exactly.
  std::array<std::uint64_t, 4> state() const { return state_; }
  void set_state(const std::array<std::uint64_t, 4>& state);

 private:
  std::array<std::uint64_t, 4> state_;
  bool has_spare_ = false;
  double spare_ = 0;
};

}  // namespace kvphase::base
