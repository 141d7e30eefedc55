// Products of a few rows with a matrix, as decoding has them: what costs is to read the matrix,
// which happens once for all rows. A row's result does not depend on the rows beside it. Vectorised
// with Highway.
#pragma once

#include <cstdint>

namespace kvphase::kernels {

// y[m, n] = x[m] . matrix[n] for all rows m and first <= n < end: x [rows, width], matrix
// [outputs, width], y [rows, outputs]. `first` is a multiple of 4.
void multiply_few_rows(const float* x, std::int64_t rows, std::int64_t width, const float* matrix,
                       std::int64_t outputs, std::int64_t first, std::int64_t end, float* y);

}  // namespace kvphase::kernels
