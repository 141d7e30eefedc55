// The report for a terminal: the verdict sentence, a table with bars, the residue curve, the key
// numbers, warnings and the next step. Plain text, at most `width` columns wide unless a
// single word is longer.
#pragma once

#include <string>

#include "record/result.h"

namespace kvphase::report {

struct TerminalOptions {
  bool color = false;    // ANSI colours; the caller decides by terminal and NO_COLOR
  int width = 80;        // columns; wider means longer bars. Less than 60 counts as 60.
  bool unicode = true;   // false: ASCII only
  bool details = false;  // also every group against the worst
};

std::string terminal_report(const record::Result& result, const TerminalOptions& options = {});

}  // namespace kvphase::report
