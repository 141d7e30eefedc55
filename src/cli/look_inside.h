// What the commands that look into a checkpoint share: which prompts, how many threads, where the
// findings go. The commands are in knockout.cpp, gates.cpp, cycle.cpp and readout.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "cli/audit_task.h"
#include "cli/command.h"
#include "lab/lookup_run.h"
#include "record/findings.h"

namespace kvphase::cli {

struct LookInside {
  std::string checkpoint;
  TaskChoices task;  // of lookup
  std::optional<std::int64_t> stride;
  std::uint64_t seed = 1;
  std::int64_t threads = 0;  // 0: all cores
  std::string out;           // empty: runs/MODEL-COMMAND
  std::string control;       // folder of the same command's findings on a control; may be empty
  bool json = false;         // result.json on stdout
};

void declare_look_inside(CLI::App& app, LookInside& look, const std::string& items_default,
                         const std::string& items_meaning = "Items, each asked at every residue");

// A look that is ready to begin: what can be refused without loading a model was refused.
struct LookPlan {
  task::LookupOptions lookup;
  std::int64_t stride = 0;  // the model's own, or --stride, or 8
  lab::RunOptions run;
  std::filesystem::path out;
  // Made before any prompt is asked, so that a place that cannot be written, or that another run
  // writes to, is found first.
  std::unique_ptr<base::NewFolder> folder;
  std::optional<record::Findings> control;
  record::RunContext context;  // the model's identity still missing
};
LookPlan plan_look(const LookInside& look, const std::string& command, std::int64_t items,
                   const Session& session);

// Shows prompts done a few times a second on a terminal, else every few seconds.
lab::OnProgress prompt_progress(const Session& session);

// Adds the control's figures, writes the folder, prints the findings.
ExitCode finish_look(const LookInside& look, const LookPlan& plan, record::Findings findings,
                     const Session& session);

}  // namespace kvphase::cli
