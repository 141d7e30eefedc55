#include "base/stop.h"

#include <atomic>

#include "base/error.h"

namespace kvphase::base {
namespace {
std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);
}  // namespace

void request_stop() noexcept { stop_flag.store(true, std::memory_order_relaxed); }
bool stop_requested() noexcept { return stop_flag.load(std::memory_order_relaxed); }

void stop_if_requested(std::string_view scope) {
  if (!stop_requested()) return;
  throw Error(ErrorKind::kInterrupted, scope,
              "interrupted: nothing is kept, and no folder is left; the same command begins anew");
}

}  // namespace kvphase::base
