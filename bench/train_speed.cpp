// Training speed beside a plain PyTorch script of the same model, in one run on the same threads.
// Timed window, both sides: one optimiser step with everything in it (data, forward, backward,
// clipping, update). A round times `steps` steps of each side, ours first, then the peer in a fresh
// process; a side's figure is the median over all rounds of the median step.
// What the number is not: the speed of PyTorch itself (the peer is what one would plainly write,
// and PyTorch with another BLAS may be faster), or of larger models.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
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
  std::string peer = KVPHASE_PEER;
  double require = 0;
  std::vector<std::string> settings;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double our_median_step(train::Trainer& trainer, std::int64_t steps) {
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < steps; ++i) {
    const base::Stopwatch watch;
    trainer.step();
    seconds.push_back(watch.seconds());
  }
  return median(seconds);
}

base::Json run_peer(const Options& options, const fs::path& training) {
  // The environment governs the peer's BLAS, --threads its torch.
  const std::string command = fmt::format(
      "OMP_NUM_THREADS={0} OPENBLAS_NUM_THREADS={0} exec '{1}' '{2}' '{3}' --threads {0} --steps "
      "{4}",
      options.threads, options.python, options.peer, training.string(), options.steps);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw base::environment_error("bench", "expected to run {}", command);
  std::string text;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    text.append(block.data(), count);
  }
  if (::pclose(pipe) != 0) {
    throw base::environment_error("bench", "expected the peer to succeed: {}", command);
  }
  return base::parse_json(text, "peer");
}

int run(const Options& options) {
  base::Json settings = train::to_json(train::recipe(options.recipe));
  for (const std::string& setting : options.settings) {
    const std::size_t equals = setting.find('=');
    std::string pointer = "/" + setting.substr(0, equals);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    settings[base::Json::json_pointer(pointer)] = base::Json::parse(setting.substr(equals + 1));
  }
  train::TrainOptions training = train::train_options_from_json(settings, "bench");
  train::fit_model_to_language(training);
  training.threads = options.threads;
  const fs::path folder = fs::temp_directory_path() / fmt::format("kvphase-bench-{}", ::getpid());
  base::create_new_folder(folder, "bench");
  base::write_file_atomically(folder / "options.json", train::to_json(training).dump());

  train::Trainer trainer(training);
  our_median_step(trainer, 3);  // the allocator and the caches
  const auto tokens = static_cast<double>(training.batch * training.language.length());
  std::vector<double> ours;
  std::vector<double> theirs;
  std::string torch_version;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    ours.push_back(our_median_step(trainer, options.steps));
    const base::Json peer = run_peer(options, folder / "options.json");
    theirs.push_back(peer.at("median_step_seconds").get<double>());
    torch_version = peer.at("torch").get<std::string>();
    fmt::print(stderr, "round {}: kvphase {:.0f}, peer {:.0f} tokens/s\n", round + 1,
               tokens / ours.back(), tokens / theirs.back());
  }
  fs::remove_all(folder);

  const double ratio = median(theirs) / median(ours);
  fmt::print("recipe {}, {} x {} tokens a step, {} thread(s), {} rounds of {} steps\n",
             options.recipe, training.batch, training.language.length(), options.threads,
             options.rounds, options.steps);
  fmt::print("kvphase                 {:>9.0f} tokens/s\n", tokens / median(ours));
  fmt::print("PyTorch {:<15} {:>9.0f} tokens/s\n", torch_version, tokens / median(theirs));
  fmt::print("ratio                   {:>9.2f}\n", ratio);
  return ratio >= options.require ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Training speed of kvphase and of a plain PyTorch script of the same model");
  app.add_option("--recipe", options.recipe, "Training recipe")->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of both sides")->capture_default_str();
  app.add_option("--steps", options.steps, "Timed steps of a round")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds")->capture_default_str();
  app.add_option("--python", options.python, "Python with torch")->capture_default_str();
  app.add_option("--peer", options.peer, "The peer's script")->capture_default_str();
  app.add_option("--require", options.require, "Exit 1 when the ratio is lower");
  app.add_option("--set", options.settings, "KEY=JSON over the recipe, e.g. model.width=128");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.kind() == base::ErrorKind::kUsage ? 2 : 4;
  }
}
