// kvphase demo: trains a chunked model, its full-attention control and a staggered twin from
// scratch, audits each by phase, and says what was found. Each model is a job of its own: `kvphase
// train`, then `kvphase audit`, so the demo shows only what those two commands do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/stop.h"
#include "cli/audit_checkpoint.h"
#include "cli/command.h"
#include "cli/train_settings.h"
#include "report/write.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

struct DemoArguments {
  std::string out;
  std::int64_t stride = 4;
  std::optional<std::int64_t> window;
  std::uint64_t seed = 2;
  std::int64_t items = 576;
  std::optional<std::int64_t> steps;
};

struct DemoModel {
  const char* name;
  const char* recipe;
  bool chunked;
};

// The slowest first: with two workers the third starts when the first ends.
constexpr std::array kModels = {DemoModel{"chunked", "main-wc", true},
                                DemoModel{"staggered", "main-wc-staggered", true},
                                DemoModel{"control", "main-wf", false}};

constexpr double kLearned = 0.98;  // mean accuracy under which a control's flatness means nothing

// Largest multiple of the stride up to 24: the recipes' haystack of 72 tokens has room for any R
// to 24.
std::int64_t modulus_for(std::int64_t stride) { return 24 / stride * stride; }

void validate(const DemoArguments& arguments) {
  if (arguments.stride < 2 || arguments.stride > 12) {
    throw base::usage_error("demo", "expected --stride 2..12, got {}", arguments.stride);
  }
  if (arguments.items < 2 * modulus_for(arguments.stride)) {
    throw base::usage_error("demo", "expected at least {} --items (positions must balance), got {}",
                            2 * modulus_for(arguments.stride), arguments.items);
  }
  if (arguments.steps && *arguments.steps < 1) {
    throw base::usage_error("demo", "expected at least 1 of --steps, got {}", *arguments.steps);
  }
  constexpr std::int64_t kWidestWindow = 64;  // the haystack is 72 tokens
  if (arguments.window &&
      (*arguments.window < arguments.stride || *arguments.window > kWidestWindow)) {
    throw base::usage_error("demo", "expected a --window of {} (the stride) to {}, got {}",
                            arguments.stride, kWidestWindow, *arguments.window);
  }
}

base::Job job_for(const DemoModel& model, const DemoArguments& arguments, const fs::path& out) {
  const std::string program = base::program_path();
  const std::string checkpoint = (out / "models" / model.name).string();
  std::vector<std::string> train = {
      program,     "train",    "--recipe", model.recipe,
      "--out",     checkpoint, "--seed",   fmt::to_string(arguments.seed),
      "--threads", "1"};
  if (model.chunked) {
    train.insert(train.end(), {"--stride", fmt::to_string(arguments.stride), "--window",
                               fmt::to_string(arguments.window.value_or(arguments.stride))});
  }
  if (arguments.steps) train.insert(train.end(), {"--steps", fmt::to_string(*arguments.steps)});
  const std::vector<std::string> audit = {program,
                                          "audit",
                                          checkpoint,
                                          "--task",
                                          "lookup",
                                          "--padding",
                                          "prefix",
                                          "--out",
                                          (out / model.name).string(),
                                          "--modulus",
                                          fmt::to_string(modulus_for(arguments.stride)),
                                          "--items",
                                          fmt::to_string(arguments.items),
                                          "--seed",
                                          fmt::to_string(arguments.seed),
                                          "--stride",
                                          fmt::to_string(arguments.stride),
                                          "--threads",
                                          "1"};
  // An audit may be inconclusive (a model that answers nothing): that is a result to show.
  return {.name = model.name, .commands = {train, audit}, .accepted = {kSuccess, kInconclusive}};
}

ExitCode run_demo(DemoArguments arguments, const Session& session) {
  validate(arguments);
  refuse_launcher("demo", "start it once, by itself");
  if (arguments.out.empty()) arguments.out = fmt::format("runs/demo-{}", base::utc_stamp());
  const fs::path out = arguments.out;
  base::create_new_folder(out, "demo");
  base::create_new_folder(out / "models", "demo");
  const base::Stopwatch watch;
  session.console.progress(
      fmt::format("training and auditing {} models of about 90,000 weights in {}", kModels.size(),
                  out.string()));

  std::vector<base::Job> jobs;
  for (const DemoModel& model : kModels) jobs.push_back(job_for(model, arguments, out));
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  const auto outcomes =
      base::run_jobs(jobs, workers, [&](const base::Job& job, std::string_view line) {
        session.console.progress(fmt::format("{:<10} {}", job.name, line));
      });
  if (base::stop_requested()) {
    session.console.warning(
        fmt::format("stopped; trainings are kept in {} (`kvphase train --resume FOLDER` finishes "
                    "one), the demo "
                    "itself starts anew",
                    (out / "models").string()));
    return kInterrupted;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!outcomes[i].done) {
      throw base::environment_error("demo", "expected `{}` to finish, got exit status {}: {}",
                                    fmt::join(jobs[i].commands[outcomes[i].commands_run - 1], " "),
                                    outcomes[i].status, outcomes[i].last_line);
    }
  }

  // The chunked models' reports are written again with the control's curve beside theirs.
  const record::Result control = read_result(out / "control");
  const bool learned = control.mean.value.value_or(0) >= kLearned;
  for (const DemoModel& model : kModels) {
    const record::Result result = read_result(out / model.name);
    if (model.chunked) report::write_report(out / model.name, result, control);
    session.console.result(fmt::format("{:<10} {}\n{:<10} {}\n", model.name,
                                       result.verdict.sentence, "",
                                       (out / model.name / "report.html").string()));
  }
  session.console.progress(fmt::format("done in {}", base::format_duration(watch.seconds())));
  if (!learned) {
    session.console.warning(
        fmt::format("the control has not learned the task (mean {:.1f}%, expected {:.0f}%): its "
                    "flat curve means nothing, so "
                    "nothing can be concluded from this run; try another --seed",
                    100 * control.mean.value.value_or(0), 100 * kLearned));
    return kInconclusive;
  }
  return kSuccess;
}

}  // namespace

Action add_demo(CLI::App& options) {
  auto arguments = std::make_shared<DemoArguments>();
  options.add_option("-o,--out", arguments->out, "New folder (default runs/demo-TIME)");
  options.add_option("--stride", arguments->stride,
                     "Stride S of the chunked models, 2..12 (default 4)");
  options.add_option("--window", arguments->window, "Window W (default: the stride)");
  options.add_option("--seed", arguments->seed, "Seed of weights, data and prompts (default 2)")
      ->check(CLI::NonNegativeNumber);
  options.add_option("--items", arguments->items, "Items per audit (default 576)");
  options.add_option("--steps", arguments->steps, "Optimiser steps (default: the recipe's)");
  return [arguments](const Session& session) { return run_demo(*arguments, session); };
}

}  // namespace kvphase::cli
