// Training speed beside a plain PyTorch script of the same model, in one run on the same threads.
// First both compute loss and gradient norm of the same weights on the same sequences; different
// ones end the program. Then rounds alternate.
// Timed window, both sides: one optimiser step with everything in it (data, forward, backward,
// clipping, update). A round times `steps` steps of each side, ours first, then the peer in a fresh
// process; a side's figure of a round is its median step.
// The floor: useful operations (speed/flops.h) at the rate of matrix products, measured last.
// What the number is not: the speed of PyTorch itself (the peer is what one would plainly write,
// and PyTorch with another BLAS may be faster), or of larger models.
#include <CLI/CLI.hpp>
#include <cmath>

#include "base/clock.h"
#include "base/files.h"
#include "model/checkpoint.h"
#include "peers/peer.h"
#include "speed/flops.h"
#include "speed/rates.h"
#include "speed/training.h"
#include "train/batch.h"
#include "train/fit.h"
#include "train/recipes.h"
#include "train/trainer.h"

namespace {

using namespace kvphase;
namespace fs = std::filesystem;

struct Options {
  std::string recipe = "main-wc";
  std::int64_t threads = 1;
  std::int64_t steps = 20;
  std::int64_t rounds = 3;
  std::string python = "/usr/bin/python3";
  std::string peer = KVPHASE_PEERS "/train_peer.py";
  double require = 0;
  std::vector<std::string> settings;
};

// Relative; both sides add in float32, in other orders.
constexpr double kLossTolerance = 1e-4;
constexpr double kGradientTolerance = 1e-3;

double our_median_step(train::Trainer& trainer, std::int64_t steps) {
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < steps; ++i) {
    const base::Stopwatch watch;
    trainer.step();
    seconds.push_back(watch.seconds());
  }
  return peers::median(seconds);
}

// The first step's weights and sequences, for the peer.
void write_start(train::Trainer& trainer, const fs::path& path) {
  std::vector<model::NamedTensor> tensors = model::weights_of(trainer.network());
  const std::vector<train::BatchPart> parts = trainer.data().step(0);
  const train::Batch& batch = parts.front().batch;
  tensors.push_back({"batch.tokens", batch.tokens});
  tensors.push_back({"batch.rows", batch.rows});
  tensors.push_back({"batch.targets", batch.targets});
  base::write_file_atomically(path, model::write_safetensors(tensors));
}

void expect_equal(const char* what, double ours, double theirs, double tolerance) {
  const double gap = std::abs(ours - theirs) / std::abs(ours);
  fmt::print(stderr, "{} of the same weights on the same sequences: {:.7g} and {:.7g}, {:.1e}\n",
             what, ours, theirs, gap);
  if (gap <= tolerance) return;
  throw base::environment_error("bench", "expected the peer's {} within {:g} of {:.7g}, got {:.7g}",
                                what, tolerance, ours, theirs);
}

// "model.width=128" as {"model": {"width": 128}}, all of them together.
base::Json overrides_of(const std::vector<std::string>& settings) {
  base::Json overrides = base::Json::object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      throw base::usage_error("bench", "expected --set KEY=JSON, got '{}'", setting);
    }
    std::string pointer = "/" + setting.substr(0, equals);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    overrides[base::Json::json_pointer(pointer)] =
        base::parse_json(setting.substr(equals + 1), "bench", setting);
  }
  return overrides;
}

int run(const Options& options) {
  train::TrainOptions training =
      train::options_with(train::recipe(options.recipe), nullptr, overrides_of(options.settings));
  training.threads = options.threads;
  const peers::Scratch scratch;
  base::write_file_atomically(scratch.path() / "options.json", train::to_json(training).dump());

  train::Trainer trainer(training);
  write_start(trainer, scratch.path() / "start.safetensors");
  const train::StepResult first = trainer.step();
  const std::string command =
      fmt::format("'{}' '{}' '{}' --threads {} --steps {}", options.python, options.peer,
                  (scratch.path() / "options.json").string(), options.threads, options.steps);
  const base::Json check = peers::run_peer(
      options.threads,
      fmt::format("{} --check '{}'", command, (scratch.path() / "start.safetensors").string()));
  expect_equal("loss", first.on_batch.loss, check.at("loss").get<double>(), kLossTolerance);
  expect_equal("gradient norm", first.gradient_norm, check.at("gradient_norm").get<double>(),
               kGradientTolerance);

  our_median_step(trainer, 3);  // the allocator and the caches
  const auto tokens = static_cast<double>(training.batch * training.language.length());
  std::vector<double> ours, theirs;
  std::string torch_version;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    ours.push_back(our_median_step(trainer, options.steps));
    const base::Json peer = peers::run_peer(options.threads, command);
    theirs.push_back(peer.at("median_step_seconds").get<double>());
    torch_version = peer.at("torch").get<std::string>();
    fmt::print(stderr, "round {}: kvphase {:.0f}, peer {:.0f} tokens/s\n", round + 1,
               tokens / ours.back(), tokens / theirs.back());
  }
  const peers::Ratio ratio = peers::ratio_of(ours, theirs);
  fmt::print("training, recipe {} {}, {} x {} tokens a step, {} thread(s), {} steps a round\n",
             options.recipe, fmt::join(options.settings, " "), training.batch,
             training.language.length(), options.threads, options.steps);
  fmt::print("  kvphase                 {:>9.0f} tokens/s\n", tokens / peers::median(ours));
  fmt::print("  PyTorch {:<15} {:>9.0f} tokens/s\n", torch_version, tokens / peers::median(theirs));
  fmt::print("  times as fast           {}\n", ratio.text());
  const double operations =
      speed::kTrainingPasses * static_cast<double>(training.batch) *
      speed::forward_flops(training.model, training.language.length(), speed::asked_rows(training))
          .total();
  constexpr double kSeconds = 2;
  const speed::Rates rates = speed::measure_rates(options.threads, kSeconds);
  fmt::print(
      "  kvphase of the floor    {:>8.0f}%  ({:.2f} GFLOP a step, matrix products {:.0f} "
      "GFLOP/s)\n",
      100 * operations / rates.flops / peers::median(ours), operations / 1e9, rates.flops / 1e9);
  return ratio.median >= options.require ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Training speed of kvphase and of a plain PyTorch script of the same model");
  app.add_option("--recipe", options.recipe, "Training recipe")->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of both sides")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--steps", options.steps, "Timed steps of a round")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds")->capture_default_str();
  app.add_option("--python", options.python, "Python with torch")->capture_default_str();
  app.add_option("--peer", options.peer, "The peer's script")->capture_default_str();
  app.add_option("--require", options.require, "Exit 1 when the ratio is lower");
  app.add_option("--set", options.settings, "KEY=JSON over the recipe, e.g. model.width=128");
  CLI11_PARSE(app, argc, argv);
  return peers::exit_code_of([&] { return run(options); });
}
