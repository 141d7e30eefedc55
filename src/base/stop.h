// The one flag that Ctrl-C sets. Long loops ask it between steps and stop cleanly; cli installs the
// handler.
#pragma once

namespace kvphase::base {

void request_stop() noexcept;  // async-signal-safe
bool stop_requested() noexcept;

}  // namespace kvphase::base
