// What all Vega-Lite specifications here begin with. Colours are CSS variables (var(--...)), so
// that one drawing follows light, dark and print.
#pragma once

#include <string>

#include "base/json.h"

namespace kvphase::report {

// A transparent chart as wide as its container and `height` pixels high.
base::Json base_spec(const std::string& description, int height);

// `base` with the keys of `more` added or replaced.
base::Json with(base::Json base, const base::Json& more);

}  // namespace kvphase::report
