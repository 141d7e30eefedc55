// How fast the machine is at what our operations are made of: float32 matrix products, and reading
// memory. Floors are computed from these, measured in the same run on the same threads.
// What they are not: the processor's peak by its data sheet (the products are those of the
// libraries that we use), nor the bandwidth of its caches.
#pragma once

#include <cstdint>

#include "speed/cell.h"

namespace kvphase::speed {

// The best of several: one large product of torch::mm that the BLAS splits over its threads, every
// thread its own product, and the same by oneDNN where torch has it. Two floating point operations
// per multiplication and addition. `buffer` bytes (all threads together) are read, and used for
// the triad, several times; 0: chosen, far beyond the last-level cache. About `seconds` long.
Rates measure_rates(std::int64_t threads, double seconds, std::int64_t buffer = 0);

}  // namespace kvphase::speed
