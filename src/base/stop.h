// The one flag that Ctrl-C sets. Long loops ask it between steps and stop cleanly; cli installs the
// handler.
#pragma once

#include <string_view>

namespace kvphase::base {

void request_stop() noexcept;  // async-signal-safe
bool stop_requested() noexcept;

// For work that keeps nothing when it is stopped: throws kInterrupted, saying so, once a stop was
// requested.
void stop_if_requested(std::string_view scope);

}  // namespace kvphase::base
