// Parts of one computation on the cores there are. Internal to stats. What a part computes must
// not depend on the others or on the number of threads, so that results are the same everywhere.
#pragma once

#include <cstddef>
#include <functional>

namespace kvphase::stats {

// Calls work(0) .. work(parts - 1), each once, on at most 8 threads; the caller's is one of them.
// Rethrows what the first part to fail threw, after the others have stopped.
void for_each_part(std::size_t parts, const std::function<void(std::size_t)>& work);

}  // namespace kvphase::stats
