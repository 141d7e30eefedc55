#include "base/error.h"
#include "cli/command.h"

namespace kvphase::cli {

Action add_analyze(CLI::App& options) {
  auto path = std::make_shared<std::string>();
  options.add_option("file", *path, "The results to analyse")->required();
  return [path](const Session&) -> ExitCode {
    throw base::environment_error("analyze", "expected an analysis of {}, got none yet", *path);
  };
}

}  // namespace kvphase::cli
