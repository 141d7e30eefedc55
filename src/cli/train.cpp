// kvphase train: one model from a recipe, resumable at any moment, in one process or in several
// that a launcher started.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/lab_api.h"
#include "cli/train_settings.h"
#include "train/launch.h"

namespace kvphase::cli {
namespace {

constexpr const char* kDefaultRecipe = "main-wc";
constexpr std::int64_t kTraceInterval = 20;  // steps, where --trace-gates has no number

struct TrainArguments {
  std::string recipe;  // empty: kDefaultRecipe, or what --from was trained with
  std::string from;
  std::string model;
  std::vector<std::string> sets;
  std::string out;
  std::string resume;
  std::optional<std::int64_t> stride;
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> steps;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> trace_gates;
  std::string backend = "gloo";
  train::Launch launch;  // its times
  bool list = false;
};

base::Json overrides_of(const TrainArguments& arguments) {
  base::Json overrides = base::Json::object();
  if (arguments.stride) overrides["model"]["chunk"]["stride"] = *arguments.stride;
  if (const auto window = arguments.window ? arguments.window : arguments.stride; window) {
    overrides["model"]["chunk"]["window"] = *window;
  }
  if (arguments.steps) overrides["steps"] = *arguments.steps;
  if (arguments.seed) overrides["seed"] = *arguments.seed;
  if (arguments.threads) overrides["threads"] = *arguments.threads;
  if (arguments.trace_gates) overrides["trace_gates"] = *arguments.trace_gates;
  for (const std::string& setting : arguments.sets) apply_setting(overrides, setting);
  return overrides;
}

void list_recipes(const Session& session, const LabApi& lab) {
  for (const RecipeSummary& recipe : lab.recipes()) {
    session.console.result(fmt::format("{:<22} {}\n", recipe.name, recipe.meaning));
  }
}

// One process on its own unless a launcher's variables say otherwise.
train::Launch launch_of(const TrainArguments& arguments) {
  train::Launch launch = train::launch_from_environment([](const char* name) {
                           return std::getenv(name);
                         }).value_or(train::Launch{});
  if (arguments.backend != "gloo" && arguments.backend != "nccl") {
    throw base::usage_error("train", "expected --backend gloo or nccl, got '{}'",
                            arguments.backend);
  }
  launch.backend = arguments.backend == "nccl" ? train::Backend::kNccl : train::Backend::kGloo;
  const auto seconds = [](const char* name, double value) {
    if (!(value >= 1 && value <= 1e6)) {
      throw base::usage_error("train", "expected {} of 1 to 1000000, got {}", name, value);
    }
    return value;
  };
  launch.join_seconds = seconds("--join-seconds", arguments.launch.join_seconds);
  launch.silent_seconds = seconds("--silent-seconds", arguments.launch.silent_seconds);
  return launch;
}

ExitCode run_train(const TrainArguments& arguments, const Session& session) {
  if (!arguments.list && arguments.out.empty() == arguments.resume.empty()) {
    throw base::usage_error("train",
                            "expected --out FOLDER for a new training or --resume FOLDER, got {}",
                            arguments.out.empty() ? "neither" : "both");
  }
  const LabApi& lab = load_lab();
  if (arguments.list) {
    list_recipes(session, lab);
    return kSuccess;
  }
  const bool resume = !arguments.resume.empty();
  const base::Json overrides = overrides_of(arguments);
  if (resume && !(overrides.empty() && arguments.model.empty() && arguments.from.empty())) {
    throw base::usage_error("train",
                            "expected no options beside --resume (the folder knows them), got {}",
                            !arguments.model.empty()  ? "--model"
                            : !arguments.from.empty() ? "--from"
                                                      : overrides.dump());
  }
  const bool default_recipe = arguments.recipe.empty() && arguments.from.empty();
  const TrainRequest request{
      .recipe = default_recipe ? kDefaultRecipe : arguments.recipe,
      .model = arguments.model.empty() ? base::Json(nullptr) : model_config(arguments.model),
      .overrides = overrides,
      .from = arguments.from,
      .folder = resume ? arguments.resume : arguments.out,
      .resume = resume,
      .launch = launch_of(arguments)};
  const bool speaks = request.launch.rank == 0;
  base::Stopwatch since_line;
  bool first = true;
  const TrainOutcome outcome = lab.train(request, [&](const TrainProgress& progress) {
    if (!speaks) return;
    const bool last = progress.step == progress.steps;
    const double pause = session.console.stderr_is_terminal() ? 0.2 : 5;
    if (!first && !last && since_line.seconds() < pause) return;
    first = false;
    since_line = base::Stopwatch();
    session.console.progress_in_place(
        fmt::format("step {}/{}  loss {:.3f}  accuracy {:.1f}%  {:.0f} tokens/s  {} left",
                    progress.step, progress.steps, progress.loss, 100 * progress.accuracy,
                    progress.tokens_per_second, base::format_duration(progress.eta_seconds)),
        last);
  });
  if (speaks) {
    for (const std::string& warning : outcome.warnings) session.console.warning(warning);
  }
  switch (outcome.state) {
    case TrainState::kInterrupted:
      if (speaks) session.console.warning(outcome.message);
      return kInterrupted;
    case TrainState::kDiverged:
      if (speaks) session.console.error(outcome.message);
      return kEnvironment;
    case TrainState::kFinished:
      break;
  }
  if (!speaks) return kSuccess;
  session.console.result(fmt::format(
      "{}: trained in {}, loss {:.3f}, accuracy {:.1f}% on fresh {}\n", request.folder.string(),
      base::format_duration(outcome.card.at("seconds").get<double>()),
      outcome.card.at("loss").get<double>(), 100 * outcome.card.at("accuracy").get<double>(),
      outcome.card.contains("text_loss") ? "lookups" : "sequences"));
  if (outcome.card.contains("text_loss")) {
    const double nats = outcome.card.at("text_loss").get<double>();
    session.console.result(fmt::format(
        "{}: held-out text {:.3f} nats ({:.3f} bits) per token, {:.1f}% of next tokens right\n",
        request.folder.string(), nats, nats / std::numbers::ln2,
        100 * outcome.card.at("text_accuracy").get<double>()));
  }
  return kSuccess;
}

}  // namespace

Action add_train(CLI::App& options) {
  auto arguments = std::make_shared<TrainArguments>();
  options.add_option("--recipe", arguments->recipe,
                     fmt::format("What to train; see --list (default {})", kDefaultRecipe));
  options.add_option("--from", arguments->from,
                     "Checkpoint whose weights to begin from; without --recipe it is trained as it "
                     "was before, without the curriculum");
  options.add_option("--model", arguments->model,
                     "Model in place of the recipe's: a name of `kvphase presets` or a FILE.json");
  options.add_flag("--list", arguments->list, "List the recipes");
  options.add_option("-o,--out", arguments->out, "New folder for the training and its checkpoint");
  options.add_option("--resume", arguments->resume, "Continue the training in this folder");
  options.add_option("--stride", arguments->stride, "Stride S of chunked layers");
  options.add_option("--window", arguments->window,
                     "Window W of chunked layers (default: the stride)");
  options.add_option("--steps", arguments->steps, "Optimiser steps");
  options.add_option("--seed", arguments->seed, "Seed of weights and data")
      ->check(CLI::NonNegativeNumber);
  options.add_option("--threads", arguments->threads,
                     "Threads of each process; another number of threads in all may change the "
                     "last bits");
  options
      .add_option(
          "--trace-gates", arguments->trace_gates,
          "Log the gates every N steps in gates.jsonl, for `kvphase gates`; the weights stay "
          "the same")
      ->expected(0, 1)
      ->default_str(fmt::format("{}", kTraceInterval))
      ->type_name("[N]");
  options.add_option("--backend", arguments->backend,
                     "With RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set: gloo sums on CPUs, "
                     "nccl on GPUs (default gloo)");
  options.add_option("--join-seconds", arguments->launch.join_seconds,
                     "Longest wait for all processes at the start (default 300)");
  options.add_option("--silent-seconds", arguments->launch.silent_seconds,
                     "A process without a sign of life for so long is lost (default 60)");
  options
      .add_option(
          "--set", arguments->sets,
          "KEY=VALUE: any option of train.json, e.g. model.chunk.gate=scalar; null removes a key")
      ->allow_extra_args(false);
  return [arguments](const Session& session) { return run_train(*arguments, session); };
}

}  // namespace kvphase::cli
