// Draws from discrete distributions with this project's generator, the same on every platform.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace kvphase::stats {

// Number of successes in n trials of chance p. Exact inversion from the mode while the standard
// deviation is below 1000; beyond, a rounded normal draw (relative error of the variance < 1e-6).
std::int64_t draw_binomial(std::int64_t n, double p, base::Random& random);

// Successes in `draws` draws without replacement from `total` of which `good` are successes.
std::int64_t draw_hypergeometric(std::int64_t total, std::int64_t good, std::int64_t draws,
                                 base::Random& random);

// A uniform index below `bound` <= 2^32 from 32 random bits; its bias is below bound / 2^32, which
// no permutation test can notice.
inline std::uint32_t small_index(std::uint32_t bits, std::uint32_t bound) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits) * bound) >> 32);
}

// Fisher-Yates with two indices from every 64 random bits.
inline void fast_shuffle(std::span<double> values, base::Random& random) {
  std::size_t i = values.size();
  while (i > 2) {
    const std::uint64_t bits = random.next();
    std::swap(values[i - 1],
              values[small_index(static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(i))]);
    --i;
    std::swap(
        values[i - 1],
        values[small_index(static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(i))]);
    --i;
  }
  if (i == 2 && (random.next() >> 63) != 0) std::swap(values[0], values[1]);
}

}  // namespace kvphase::stats
