#include "model/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include <exception>
#include <thread>
#include <vector>

namespace kvphase::model {

void compute_on_calling_thread() { compute_on_threads(1); }

void compute_on_threads(std::int64_t threads) {
  const auto count = static_cast<int>(threads);
  at::set_num_threads(count);
  // torch does not tell OpenBLAS, whose own pool would otherwise take every core.
  using SetThreads = void (*)(int);
  if (void* symbol = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); symbol != nullptr) {
    reinterpret_cast<SetThreads>(symbol)(count);
  }
#ifdef __GLIBC__
  // Activations of a megabyte would otherwise be mapped and unmapped anew at every operation, and
  // the page faults cost more than the arithmetic. 32 MiB is the most that glibc accepts.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void run_shards(std::int64_t shards, const std::function<void(std::int64_t)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(shards));
  const auto guarded = [&](std::int64_t shard) {
    try {
      work(shard);
    } catch (...) {
      errors[static_cast<std::size_t>(shard)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::int64_t shard = 1; shard < shards; ++shard) threads.emplace_back(guarded, shard);
    guarded(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::int64_t shard_begin(std::int64_t count, std::int64_t shards, std::int64_t shard) {
  return count * shard / shards;
}

}  // namespace kvphase::model
