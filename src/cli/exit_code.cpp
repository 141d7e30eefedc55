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

ExitCode exit_code_of(const record::Result& result) {
  ExitCode code = kSuccess;
  for (const record::Requirement& requirement : result.requirements) {
    const ExitCode one = requirement.outcome == "pass"   ? kSuccess
                         : requirement.outcome == "fail" ? kRequirementNotMet
                                                         : kInconclusive;
    code = worse_of(code, one);
  }
  const bool inconclusive = result.verdict.kind == record::VerdictKind::kInconclusive;
  const bool not_learned = result.verdict.kind == record::VerdictKind::kNotLearned;
  if (not_learned || (inconclusive && result.requirements.empty())) {
    code = worse_of(code, kInconclusive);
  }
  return code;
}

ExitCode worse_of(ExitCode a, ExitCode b) {
  for (const ExitCode code : {kRequirementNotMet, kInconclusive}) {
    if (a == code || b == code) return code;
  }
  return kSuccess;
}

std::string exit_code_help() {
  return "Exit codes:\n"
         "  0    done; a requirement, where one was given, is met\n"
         "  1    a requirement is not met\n"
         "  2    bad arguments or bad input\n"
         "  3    inconclusive: too little data, or the model has not learned the task\n"
         "  4    endpoint, disk or library failed\n"
         "  5    the prompts' positions could not be guaranteed\n"
         "  130  interrupted; checkpoints and answers already on disk are kept (commands that "
         "look\n"
         "       into a model, theory, analyze, calibrate, plan and tokens begin anew)\n";
}

}  // namespace kvphase::cli
