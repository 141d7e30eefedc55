#include "cli/look_inside.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "cli/checkpoint_language.h"
#include "model/config.h"
#include "report/findings.h"

namespace kvphase::cli {
namespace {

constexpr std::int64_t kControlStride = 8;  // of a model that has none, unless --stride says

// Of its chunked layers; empty: it has none.
std::optional<std::int64_t> stride_of(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "config.json";
  const model::ModelConfig config = model::config_from_json(
      base::parse_json(base::read_file(path), path.string()), path.string());
  return model::has_chunked_layer(config) ? std::optional(config.chunk.stride) : std::nullopt;
}

std::string name_of(const std::filesystem::path& checkpoint) {
  const std::filesystem::path clean = std::filesystem::weakly_canonical(checkpoint);
  const std::string name = clean.filename().string();
  return name == "model" && clean.has_parent_path() ? clean.parent_path().filename().string()
                                                    : name;
}

// Empty while too little is done to tell: the first prompts are the slowest.
std::optional<double> seconds_left(std::int64_t done, std::int64_t all, double seconds) {
  constexpr double kFewestSeconds = 3, kSmallestShare = 0.05;
  const double share = static_cast<double>(done) / static_cast<double>(all);
  if (seconds < kFewestSeconds || share < kSmallestShare) return std::nullopt;
  return seconds * (1 - share) / share;
}

}  // namespace

void declare_look_inside(CLI::App& app, LookInside& look, const std::string& items_default,
                         const std::string& items_meaning) {
  app.add_option("checkpoint", look.checkpoint, "A folder that `kvphase train` wrote")->required();
  app.add_option("--items", look.task.items,
                 fmt::format("{} (default {})", items_meaning, items_default));
  app.add_option("-R,--modulus", look.task.modulus,
                 "Residues of the target's position (default 24, or what the prompts allow)");
  app.add_option("--padding", look.task.padding,
                 "prefix (default): the records move together; in-sequence: each by itself; "
                 "around-target: the target's alone");
  app.add_option("--records", look.task.records, "Records per prompt (default: as trained)");
  app.add_option("--haystack", look.task.haystack,
                 "Tokens before the question (default: as trained)");
  app.add_option("--demonstrations", look.task.demonstrations,
                 "Answered questions before the target's (default 8, fewer with few records)");
  app.add_option("--stride", look.stride,
                 "Stride to fold by when the model has no chunked layer of its own (default 8)");
  app.add_option("--seed", look.seed, "Seed of prompts and resampling (default 1)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", look.threads, "Threads (default: all cores)");
  app.add_option("--control", look.control,
                 "Folder of this command's findings on a control, to show beside");
  app.add_option("-o,--out", look.out, "New folder (default runs/MODEL-COMMAND)");
  app.add_flag("--json", look.json, "The result object on stdout");
}

LookPlan plan_look(const LookInside& look, const std::string& command, std::int64_t items,
                   const Session& session) {
  constexpr std::int64_t kMostThreads = 1024;
  if (look.threads < 0 || look.threads > kMostThreads) {
    throw base::usage_error(command, "expected 1 to {} --threads, got {}", kMostThreads,
                            look.threads);
  }
  if (!std::filesystem::is_directory(look.checkpoint)) {
    throw base::usage_error(command, "expected a checkpoint folder of `kvphase train`, got {}",
                            look.checkpoint);
  }
  LookPlan plan;
  plan.out =
      look.out.empty() ? fmt::format("runs/{}-{}", name_of(look.checkpoint), command) : look.out;
  if (std::filesystem::exists(plan.out / "result.json")) {
    throw base::usage_error(command,
                            "expected a new folder, got {}, which has findings; choose another "
                            "name with --out",
                            plan.out.string());
  }
  TaskChoices choices = look.task;
  if (!choices.items) choices.items = items;
  plan.lookup = lookup_options(choices, trained_language(look.checkpoint), look.seed);
  plan.run.scope = command;
  const std::optional<std::int64_t> own = stride_of(look.checkpoint);
  if (own && look.stride && *own != *look.stride) {
    throw base::usage_error(command, "expected --stride {} (the model's own), got {}; leave it out",
                            *own, *look.stride);
  }
  plan.stride = own ? *own : look.stride.value_or(kControlStride);
  plan.run.threads = look.threads > 0
                         ? look.threads
                         : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  if (!look.control.empty()) {
    const std::filesystem::path path = std::filesystem::path(look.control) / "result.json";
    plan.control = record::findings_from_json(
        base::parse_json(base::read_file(path), path.string()), command, path.string());
  }
  plan.folder = std::make_unique<base::NewFolder>(plan.out, command);
  plan.context = record::make_context();
  plan.context.command = session.command_line;
  plan.context.seed = look.seed;
  plan.context.threads = plan.run.threads;
  return plan;
}

lab::OnProgress prompt_progress(const Session& session) {
  return [&session, since_line = base::Stopwatch(), since_start = base::Stopwatch(), first = true](
             std::int64_t done, std::int64_t all) mutable {
    const bool last = done == all;
    if (!first && !last &&
        since_line.seconds() < (session.console.stderr_is_terminal() ? 0.2 : 5)) {
      return;
    }
    first = false;
    since_line = base::Stopwatch();
    const double seconds = since_start.seconds();
    // The processor's time beside the clock's: on a busy machine they differ.
    const double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::string line = fmt::format("prompt {}/{}", done, all);
    if (last) {
      line += fmt::format("  in {:.1f} s ({:.1f} s of CPU since the start)", seconds, cpu);
    } else if (const auto left = seconds_left(done, all, seconds)) {
      line += fmt::format("  {} left", base::format_duration(*left));
    }
    session.console.progress_in_place(line, last);
  };
}

ExitCode finish_look(const LookInside& look, const LookPlan& plan, record::Findings findings,
                     const Session& session) {
  base::stop_if_requested(plan.run.scope);
  if (plan.control) {
    findings.notes.push_back("Control: " + plan.control->sentence);
    for (record::Figure figure : plan.control->figures) {
      figure.id = "control-" + figure.id;
      figure.title = "Control, " + plan.control->context.model_name + ": " + figure.title;
      findings.figures.push_back(std::move(figure));
    }
  }
  report::write_findings(plan.folder->part(), findings);
  plan.folder->publish();
  session.console.result(look.json
                             ? report::findings_json(findings)
                             : report::findings_text(findings, session.console.color_on_stdout()));
  session.console.progress(fmt::format("report: {}", (plan.out / "report.html").string()));
  return kSuccess;
}

}  // namespace kvphase::cli
