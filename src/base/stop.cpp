#include "base/stop.h"

#include <atomic>

namespace kvphase::base {
namespace {
std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);
}  // namespace

void request_stop() noexcept { stop_flag.store(true, std::memory_order_relaxed); }
bool stop_requested() noexcept { return stop_flag.load(std::memory_order_relaxed); }

}  // namespace kvphase::base
