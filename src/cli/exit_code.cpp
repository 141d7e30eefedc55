#include "cli/exit_code.h"

namespace kvphase::cli {

ExitCode exit_code_of(base::ErrorKind kind) {
  switch (kind) {
    case base::ErrorKind::kUsage:
      return kUsage;
    case base::ErrorKind::kEnvironment:
      return kEnvironment;
    case base::ErrorKind::kPhaseControl:
      return kPhaseControl;
    case base::ErrorKind::kInterrupted:
      return kInterrupted;
  }
  return kEnvironment;
}

std::string exit_code_help() {
  return "Exit codes:\n"
         "  0    done; a requirement, where one was given, is met\n"
         "  1    a requirement is not met\n"
         "  2    bad arguments or bad input\n"
         "  3    inconclusive: too little data, or the model has not learned the task\n"
         "  4    endpoint, disk or library failed\n"
         "  5    the prompts' positions could not be guaranteed\n"
         "  130  interrupted; what was done is kept\n";
}

}  // namespace kvphase::cli
