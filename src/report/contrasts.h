// The comparison of a result's phases (or residues) with each other: a section of the page, and
// lines for a terminal that asks for details.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "record/result.h"

namespace kvphase::report {

// Empty when the record holds none.
std::string contrasts_html(const record::Result& result);

// Name and text of each line; printable, with a plain ASCII "+-". Empty when there is none.
std::vector<std::pair<std::string, std::string>> contrast_lines(const record::Result& result);

}  // namespace kvphase::report
