// A subcommand: its own file declares its options on a CLI::App and returns what runs them.
// To add one: write x.cpp with `Action add_x(CLI::App&)`, name it below and in kCommands of
// command.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/exit_code.h"

namespace kvphase::cli {

// What every subcommand may ask for.
struct Session {
  const Console& console;
  std::string command_line;  // quoted for a shell, so that a record can say how to repeat the run
};

using Action = std::function<ExitCode(const Session&)>;

struct Command {
  const char* name;
  const char* summary;               // one line of the program's help
  Action (*add)(CLI::App& options);  // declares options; the action runs after parsing
  // Ctrl-C must let it finish a step, or clean up and say so; false: it may end at once.
  bool keeps_work = true;
};

std::span<const Command> commands();

Action add_analyze(CLI::App& options);
Action add_audit(CLI::App& options);
Action add_bench(CLI::App& options);
Action add_calibrate(CLI::App& options);
Action add_compare(CLI::App& options);
Action add_cycle(CLI::App& options);
Action add_demo(CLI::App& options);
Action add_family(CLI::App& options);
Action add_gates(CLI::App& options);
Action add_guard(CLI::App& options);
Action add_knockout(CLI::App& options);
Action add_plan(CLI::App& options);
Action add_presets(CLI::App& options);
Action add_export(CLI::App& options);
Action add_readout(CLI::App& options);
Action add_retest(CLI::App& options);
Action add_serve(CLI::App& options);
Action add_theory(CLI::App& options);
Action add_tokens(CLI::App& options);
Action add_train(CLI::App& options);

// --require of `analyze` and `audit`.
inline constexpr const char* kRequireHelp =
    "'worst>=0.95', 'gap<=0.05' or 'no-period' (repeatable): exit code 0 met, 1 not met, 3 "
    "undecided";

inline constexpr const char* kJunitHelp =
    "JUnit XML for CI: a case per requirement and per phase; undecided is skipped";

}  // namespace kvphase::cli
