#include "stats/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kvphase::stats {

void for_each_part(std::size_t parts, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t part = next++; part < parts; part = next++) {
      try {
        work(part);
      } catch (...) {
        next = parts;
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  const std::size_t most = std::min<std::size_t>(parts, 8);
  const std::size_t threads = std::min<std::size_t>(most, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kvphase::stats
