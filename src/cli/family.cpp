// kvphase family: trains the paper's designs from scratch and audits each by phase, cell by cell,
// each a resumable job of its own. A cell is `kvphase train`, then `kvphase audit`, so a study
// shows only what those commands do.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/stop.h"
#include "cli/audit_run.h"
#include "cli/audit_task.h"
#include "cli/command.h"
#include "cli/family_cells.h"
#include "cli/lab_api.h"
#include "cli/train_settings.h"
#include "model/config.h"
#include "model/presets.h"
#include "task/lookup.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

struct FamilyArguments {
  Study study;
  std::string out;
  std::vector<std::string> only;
  std::vector<std::uint64_t> seeds = {42};
  std::string shard = "1/1";
  std::int64_t workers = 0;  // 0: one per core
  std::int64_t threads = 1;
  bool list = false;
};

// A cell that this process works on.
struct Open {
  Cell cell;
  fs::path folder;
  std::unique_ptr<base::LineAppender> log;  // also its lock
  double part = 0;                          // done, 0 to 1
};

// Training's share of a cell's time, about; the audits have the rest.
constexpr double kTrainingPart = 0.8;

// "step 166/600 ...": the part done; empty for other lines.
std::optional<double> training_part(std::string_view line) {
  constexpr std::string_view kPrefix = "step ";
  if (!line.starts_with(kPrefix)) return std::nullopt;
  double done = 0;
  double all = 0;
  const char* end = line.data() + line.size();
  const auto first = std::from_chars(line.data() + kPrefix.size(), end, done);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, all);
  if (second.ec != std::errc() || all <= 0) return std::nullopt;
  return done / all;
}

// Writes study.json, or checks that the folder holds this study and no other.
void open_study(const Study& study, const fs::path& out) {
  const fs::path file = out / "study.json";
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const Study begun =
        study_from_json(base::parse_json(base::read_file(file), file.string()), file.string());
    if (begun == study) return;
    throw base::usage_error("family",
                            "expected the options that {} was begun with, {}, got {}; give another "
                            "--out for another study",
                            out.string(), to_json(begun).dump(), to_json(study).dump());
  }
  if (fs::exists(out, ignored) && !fs::is_empty(out, ignored)) {
    throw base::usage_error("family", "expected a new folder or one of `kvphase family`, got {}",
                            out.string());
  }
  fs::create_directories(out, ignored);
  base::write_file_atomically(file, to_json(study).dump(2) + "\n");
}

// Refuses before anything is trained what a cell's training or audit would refuse.
void check_cells(const Study& study, const std::vector<Cell>& cells) {
  base::Json overrides = base::Json::object();
  for (const std::string& set : study.sets) apply_setting(overrides, set);
  for (const Cell& cell : cells) {
    const base::Json options =
        load_lab().training_options({.recipe = study.recipe,
                                     .model = model_config(study.shape + "/" + cell.design),
                                     .overrides = overrides,
                                     .from = base_of(study, cell),
                                     .folder = {}});
    const auto language =
        task::lookup_language_from_json(options.at("language"), "family.language");
    for (const std::string& padding : study.paddings) {
      const TaskChoices choices{.modulus = study.modulus, .items = study.items, .padding = padding};
      const task::LookupTask task(lookup_options(choices, language, kPromptSeed));
    }
  }
}

void list_cells(const FamilyArguments& arguments, const std::vector<Cell>& cells,
                const Session& session) {
  session.console.result(fmt::format("{:<42} {:>12} {:>24}\n", "cell", "parameters", "state"));
  for (const Cell& cell : cells) {
    const fs::path folder = fs::path(arguments.out) / cell.name();
    std::error_code ignored;
    const char* state = finished(arguments.study, folder)       ? "finished"
                        : fs::exists(folder / "model", ignored) ? "begun"
                                                                : "to do";
    session.console.result(fmt::format(
        "{:<42} {:>12} {:>24}\n", cell.name(),
        model::parameter_count(model::preset(arguments.study.shape + "/" + cell.design)), state));
  }
}

// One line per finished cell and padding: what was found.
void show_results(const FamilyArguments& arguments, const std::vector<Cell>& cells,
                  const Session& session) {
  session.console.result(fmt::format("{:<42} {:<12} {:>7} {:>7} {:>7} {:>7}  {}\n", "cell",
                                     "padding", "mean %", "worst %", "gap", "noise", "verdict"));
  for (const Cell& cell : cells) {
    for (const std::string& padding : arguments.study.paddings) {
      const fs::path folder = fs::path(arguments.out) / cell.name() / padding;
      std::error_code ignored;
      if (!fs::exists(folder / "result.json", ignored)) continue;
      const record::Result result = read_result(folder);
      const auto percent = [](std::optional<double> x) {
        return x ? fmt::format("{:.1f}", 100 * *x) : std::string("-");
      };
      session.console.result(
          fmt::format("{:<42} {:<12} {:>7} {:>7} {:>7} {:>7}  {}\n", cell.name(), padding,
                      percent(result.mean.value), percent(result.worst.estimate.value),
                      percent(result.gap.estimate.value), percent(result.gap.noise),
                      result.period.value && result.verdict.kind == record::VerdictKind::kPeriodic
                          ? fmt::format("period {}", *result.period.value)
                          : std::string(record::name_of(result.verdict.kind))));
    }
  }
}

// Locks the unfinished cells; those that another process has are left to it.
std::vector<Open> open_cells(const FamilyArguments& arguments, const std::vector<Cell>& cells,
                             const Session& session) {
  std::vector<Open> open;
  for (const Cell& cell : cells) {
    const fs::path folder = fs::path(arguments.out) / cell.name();
    if (finished(arguments.study, folder)) continue;
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    try {
      open.push_back({.cell = cell,
                      .folder = folder,
                      .log = std::make_unique<base::LineAppender>(folder / "cell.log")});
    } catch (const base::Error& error) {
      session.console.warning(fmt::format("{} is left out: {}", cell.name(), error.what()));
    }
  }
  return open;
}

ExitCode run_cells(const FamilyArguments& arguments, std::vector<Open>& open, std::size_t all,
                   const Session& session) {
  const auto workers = static_cast<std::size_t>(
      arguments.workers > 0 ? arguments.workers
                            : std::max<std::int64_t>(1, std::thread::hardware_concurrency()));
  std::vector<base::Job> jobs;
  std::map<std::string, Open*> by_name;
  for (Open& cell : open) {
    jobs.push_back({.name = cell.cell.name(),
                    .commands = commands_left(arguments.study, cell.cell, cell.folder,
                                              arguments.threads, base::program_path()),
                    .accepted = {kSuccess, kInconclusive}});
    by_name[cell.cell.name()] = &cell;
  }
  const base::Stopwatch watch;
  base::Stopwatch since_line;
  bool first = true;
  const auto outcomes =
      base::run_jobs(jobs, workers, [&](const base::Job& job, std::string_view line) {
        Open& cell = *by_name.at(job.name);
        const auto trained = training_part(line);
        if (trained) {
          cell.part = kTrainingPart * *trained;
        } else {
          cell.log->append(fmt::format("{} {}", base::utc_now(), line));
          cell.log->sync();
          cell.part = std::max(cell.part, kTrainingPart);
        }
        constexpr double kPause = 10;  // seconds between lines
        if (trained && !first && since_line.seconds() < kPause) return;
        first = false;
        since_line = base::Stopwatch();
        double parts = 0;
        std::size_t done = all - open.size();
        for (const Open& other : open) {
          const bool complete = finished(arguments.study, other.folder);
          parts += complete ? 1 : other.part;
          done += complete ? 1 : 0;
        }
        const double left =
            parts > 0 ? watch.seconds() * (static_cast<double>(open.size()) / parts - 1) : 0;
        session.console.progress(fmt::format("[{}/{} cells, about {} left] {}: {}", done, all,
                                             base::format_duration(left), job.name, line));
      });
  if (base::stop_requested()) {
    session.console.warning(fmt::format(
        "stopped; the same command goes on where each cell stopped ({})", arguments.out));
    return kInterrupted;
  }
  std::size_t failed = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].done) continue;
    ++failed;
    const std::size_t at = std::min(outcomes[i].commands_run, jobs[i].commands.size()) - 1;
    session.console.error(fmt::format("{}: expected `{}` to finish, got exit status {}: {}",
                                      jobs[i].name, fmt::join(jobs[i].commands[at], " "),
                                      outcomes[i].status, outcomes[i].last_line));
  }
  session.console.progress(fmt::format("{} cells in {}, {} failed", open.size(),
                                       base::format_duration(watch.seconds()), failed));
  return failed > 0 ? kEnvironment : kSuccess;
}

ExitCode run_family(const FamilyArguments& arguments, const Session& session) {
  if (std::ranges::find(model::shape_names(), arguments.study.shape) ==
      model::shape_names().end()) {
    throw base::usage_error("family", "expected a --shape of {}, got '{}'",
                            fmt::join(model::shape_names(), " | "), arguments.study.shape);
  }
  refuse_launcher("family", "cells are independent: give each job its part by --shard i/n");
  const auto [i, n] = parse_shard(arguments.shard);
  const std::vector<Cell> cells =
      shard_of(study_cells(designs_matching(arguments.only), arguments.seeds), i, n);
  if (arguments.list) {
    list_cells(arguments, cells, session);
    return kSuccess;
  }
  if (arguments.out.empty()) {
    throw base::usage_error("family", "expected --out FOLDER of the study, got none");
  }
  check_cells(arguments.study, cells);
  open_study(arguments.study, arguments.out);
  std::vector<Open> open = open_cells(arguments, cells, session);
  const ExitCode code = open.empty() ? kSuccess : run_cells(arguments, open, cells.size(), session);
  show_results(arguments, cells, session);
  const auto elsewhere = std::ranges::count_if(cells, [&](const Cell& cell) {
    return !finished(arguments.study, fs::path(arguments.out) / cell.name());
  });
  if (code != kSuccess || elsewhere == 0) return code;
  session.console.warning(fmt::format("{} of {} cells are not finished: other processes have them",
                                      elsewhere, cells.size()));
  return kInconclusive;
}

}  // namespace

Action add_family(CLI::App& options) {
  auto arguments = std::make_shared<FamilyArguments>();
  Study& study = arguments->study;
  options.add_option("-o,--out", arguments->out, "Folder of the study; an unfinished one goes on");
  options
      .add_option("--only", arguments->only,
                  "Designs, comma-separated, '*' for any characters (default all)")
      ->delimiter(',');
  options.add_option("--seeds", arguments->seeds, "Seeds of weights and data (default 42)")
      ->delimiter(',');
  options.add_option("--shape", study.shape,
                     fmt::format("{} (default small)", fmt::join(model::shape_names(), " | ")));
  options.add_option("--shard", arguments->shard,
                     "i/n: every n-th cell from the i-th, for a cluster's array jobs");
  options.add_option("--workers", arguments->workers, "Cells side by side (default: one per core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}).description(""));
  options.add_option("--threads", arguments->threads, "Threads of each cell (default 1)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}).description(""));
  options.add_option("--items", study.items, "Items per audit (default 576)");
  options.add_option("--modulus", study.modulus, "R of the audits (default 24)");
  options
      .add_option(
          "--padding", study.paddings,
          fmt::format("{}, comma-separated (default all)", fmt::join(task::padding_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(task::padding_names()).description(""));
  options.add_option("--recipe", study.recipe, "Training recipe (default family)");
  options.add_option("--from", study.from,
                     "Study whose models to begin from, seed by seed; a design on staggered grids "
                     "begins from its aligned twin");
  options.add_option("--set", study.sets, "KEY=VALUE: any option of train.json, for every cell")
      ->allow_extra_args(false);
  options.add_flag("--list", arguments->list, "List the cells and what is done, and do nothing");
  return [arguments](const Session& session) { return run_family(*arguments, session); };
}

}  // namespace kvphase::cli
