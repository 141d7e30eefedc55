// How many threads a computation takes. The networks here are small: work is split by sequences
// among threads that each run whole networks, instead of splitting every small matrix product.
#pragma once

#include <cstdint>
#include <functional>

namespace kvphase::model {

// Makes torch and, where it is loaded, OpenBLAS compute on the calling thread only. For the whole
// process; also keeps freed memory for the next step instead of returning it to the system.
void compute_on_calling_thread();

// The same with so many threads for every operation: for one long sequence, which cannot be shared
// out. Not for use beside run_shards.
void compute_on_threads(std::int64_t threads);

// Calls work(0) .. work(shards - 1), each on a thread of its own (work(0) on the caller's), and
// waits for all. The first shard's exception, in their order, is rethrown.
void run_shards(std::int64_t shards, const std::function<void(std::int64_t)>& work);

// First element of shard `shard` when `count` elements are shared out as evenly as possible.
std::int64_t shard_begin(std::int64_t count, std::int64_t shards, std::int64_t shard);

}  // namespace kvphase::model
