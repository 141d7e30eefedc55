// What the program's exit status says, in one place. `kvphase --help` prints this list.
#pragma once

#include <string>

#include "base/error.h"
#include "record/result.h"

namespace kvphase::cli {

enum ExitCode : int {
  kSuccess = 0,            // the command did its work; a gate, where asked for, is met
  kRequirementNotMet = 1,  // a requirement the user stated is not met
  kUsage = 2,              // bad arguments, bad input file or bad configuration
  kInconclusive = 3,       // the data cannot answer the question
  kEnvironment = 4,        // endpoint, disk or library failed
  kPhaseControl = 5,       // the prompts' positions could not be guaranteed
  kInterrupted = 130,      // stopped by Ctrl-C; checkpoints and answers on disk stay
};

ExitCode exit_code_of(base::ErrorKind kind);

// By the requirements where there are any (a failed one wins over an undecided one), else by the
// verdict. A model that has not learned the task is inconclusive unless a requirement failed.
ExitCode exit_code_of(const record::Result& result);

// The code of several results together: not met wins over inconclusive, that over success.
ExitCode worse_of(ExitCode a, ExitCode b);

std::string exit_code_help();  // the list as text, a line each

}  // namespace kvphase::cli
