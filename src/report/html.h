// report.html: one file that opens offline in any current browser. Order: the verdict sentence, key
// numbers, figures (each with a text alternative), checks of the design, how to read it, what ran.
// Charts are Vega-Lite specifications drawn by the libraries inside the file; a content security
// policy forbids every network request.
#pragma once

#include <optional>
#include <string>

#include "record/result.h"

namespace kvphase::report {

// `control` is the same audit of a model that should be flat; it is drawn beside the result.
std::string html_report(const record::Result& result,
                        const std::optional<record::Result>& control = std::nullopt);

}  // namespace kvphase::report
