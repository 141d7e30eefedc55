#include "train/training_run.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/build_info.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "train/trainer.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::usage_error;

constexpr const char* kOptions = "train.json";
constexpr const char* kLog = "log.csv";
constexpr const char* kLogHeader = "step,tokens,loss,accuracy,gradient_norm,learning_rate,seconds";
constexpr const char* kResume = "resume";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr std::string_view kStepPrefix = "step-";

// What train.json holds.
struct RunHeader {
  TrainOptions options;
  std::string started;  // UTC
  std::string commit;
};

Json to_json(const RunHeader& header) {
  Json json;
  json["started"] = header.started;
  json["commit"] = header.commit;
  json["options"] = train::to_json(header.options);
  return json;
}

RunHeader read_header(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kOptions, ignored)) {
    throw usage_error("train", "expected {} in {}, got no such file; is it a training folder?",
                      kOptions, folder.string());
  }
  const std::string scope = (folder / kOptions).string();
  const Json json = base::parse_json(base::read_file(folder / kOptions), scope);
  base::ObjectReader reader(json, scope);
  RunHeader header;
  header.started = reader.text("started");
  header.commit = reader.text("commit");
  header.options = train_options_from_json(reader.required("options"), scope + ": options");
  reader.finish();
  return header;
}

// The newest complete state below resume/.
std::optional<fs::path> newest_state(const fs::path& folder) {
  std::optional<fs::path> newest;
  std::int64_t newest_step = -1;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder / kResume, absent)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStepPrefix)) continue;
    std::int64_t step = -1;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
    if (error != std::errc() || stop != end) continue;  // a .part that a kill left behind
    if (step > newest_step) {
      newest_step = step;
      newest = entry.path();
    }
  }
  return newest;
}

// One process's share of a training.
class Run {
 public:
  Run(RunHeader header, fs::path folder)
      : header_(std::move(header)),
        folder_(std::move(folder)),
        log_(folder_ / kLog),
        trainer_(header_.options) {}

  void load(const fs::path& state_folder);
  TrainResult loop(const ProgressCallback& progress);
  void warn(std::string warning) { result_.warnings.push_back(std::move(warning)); }
  void begin_log();

 private:
  const TrainOptions& options() const { return header_.options; }
  std::int64_t tokens_of_step(std::int64_t step) const {
    return options().batch * language_at(options(), step).length();
  }
  double seconds() const { return seconds_before_ + watch_.seconds(); }

  void write_log_row(const StepResult& step);
  model::Checkpoint checkpoint();
  void save();
  TrainResult finish();
  TrainResult stopped(TrainOutcome outcome, std::string message);

  RunHeader header_;
  fs::path folder_;
  base::LineAppender log_;  // also refuses a second process
  Trainer trainer_;
  TrainResult result_;
  base::Stopwatch watch_;
  double seconds_before_ = 0;  // of earlier processes
  std::int64_t tokens_ = 0;    // trained on so far, those of earlier processes included
};

void Run::load(const fs::path& state_folder) {
  const model::Checkpoint saved = model::read_checkpoint(state_folder);
  const std::string scope = state_folder.string();
  model::load_weights(trainer_.network(), saved.weights, scope);

  const std::string state_scope = (state_folder / kState).string();
  const Json json = base::parse_json(base::read_file(state_folder / kState), state_scope);
  base::ObjectReader reader(json, state_scope);
  AdamWState state{.step = reader.integer("step")};
  const std::int64_t log_bytes = reader.integer("log_bytes");
  seconds_before_ = reader.real("seconds");
  reader.finish();

  const std::string optimizer_scope = (state_folder / kOptimizer).string();
  const auto file =
      model::read_safetensors(base::read_file(state_folder / kOptimizer), optimizer_scope);
  for (const model::NamedTensor& named : file.tensors) {
    if (named.name == "first") state.first = named.tensor;
    if (named.name == "second") state.second = named.tensor;
  }
  const auto fits = [&](const torch::Tensor& tensor) {
    return tensor.defined() && tensor.sizes() == trainer_.optimizer().first.sizes() &&
           tensor.scalar_type() == torch::kFloat32;
  };
  if (!fits(state.first) || !fits(state.second)) {
    throw usage_error(optimizer_scope,
                      "expected 'first' and 'second' of {} float32 numbers, got other tensors",
                      trainer_.optimizer().first.numel());
  }
  trainer_.continue_from(std::move(state));
  log_.truncate(log_bytes);
  result_.saved = state_folder;
}

void Run::begin_log() {
  log_.truncate(0);
  log_.append(kLogHeader);
}

void Run::write_log_row(const StepResult& step) {
  log_.append(fmt::format("{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.3f}", trainer_.steps_done(),
                          tokens_, step.on_batch.loss, step.on_batch.accuracy, step.gradient_norm,
                          step.learning_rate, seconds()));
}

model::Checkpoint Run::checkpoint() {
  model::Checkpoint checkpoint;
  checkpoint.config = options().model;
  checkpoint.card = {.recipe = options().recipe,
                     .seed = options().seed,
                     .threads = options().threads,
                     .steps = trainer_.steps_done(),
                     .tokens = tokens_,
                     .commit = base::build_commit(),
                     .build = base::build_description(),
                     .started = header_.started,
                     .seconds = seconds(),
                     .language = task::to_json(options().language),
                     .options = train::to_json(options())};
  for (lm::TokenId token = 0; token < options().language.vocab_size(); ++token) {
    checkpoint.token_names.push_back(options().language.token_name(token));
  }
  checkpoint.weights = model::weights_of(trainer_.network());
  return checkpoint;
}

void Run::save() {
  const fs::path resume = folder_ / kResume;
  const fs::path name = resume / fmt::format("{}{:06}", kStepPrefix, trainer_.steps_done());
  if (fs::exists(name)) return;  // stopped right after it was saved
  log_.sync();
  const fs::path part = name.string() + ".part";
  fs::remove_all(part);
  fs::create_directories(part);
  model::write_checkpoint(part, checkpoint());
  const std::vector<model::NamedTensor> memory = {{"first", trainer_.optimizer().first},
                                                  {"second", trainer_.optimizer().second}};
  base::write_file_atomically(part / kOptimizer, model::write_safetensors(memory));
  Json state;
  state["step"] = trainer_.steps_done();
  state["log_bytes"] = log_.size();
  state["seconds"] = seconds();
  base::write_file_atomically(part / kState, state.dump(2) + "\n");
  base::publish_folder(part, name);
  result_.saved = name;
  for (const auto& entry : fs::directory_iterator(resume)) {
    if (entry.path() != name) fs::remove_all(entry.path());
  }
}

TrainResult Run::stopped(TrainOutcome outcome, std::string message) {
  log_.sync();
  result_.outcome = outcome;
  result_.step = trainer_.steps_done();
  result_.folder = folder_;
  result_.message = std::move(message);
  return result_;
}

TrainResult Run::finish() {
  const Batch validation = make_batch(options().language, options().seed, kValidationStream, 0,
                                      options().validation_sequences);
  const Evaluation evaluation = trainer_.evaluate(validation);
  model::Checkpoint final = checkpoint();
  final.card.loss = evaluation.loss;
  final.card.accuracy = evaluation.accuracy;
  log_.sync();
  result_.sha256 = model::write_checkpoint(folder_, final);
  result_.card = final.card;
  result_.step = trainer_.steps_done();
  result_.folder = folder_;
  result_.saved = folder_;
  fs::remove_all(folder_ / kResume);
  return result_;
}

TrainResult Run::loop(const ProgressCallback& progress) {
  const std::int64_t first = trainer_.steps_done();
  for (std::int64_t step = 0; step < first; ++step) tokens_ += tokens_of_step(step);
  const std::int64_t first_tokens = tokens_;
  while (trainer_.steps_done() < options().steps) {
    if (base::stop_requested()) {
      save();
      return stopped(TrainOutcome::kInterrupted,
                     fmt::format("stopped after step {} of {}, saved; continue with --resume {}",
                                 trainer_.steps_done(), options().steps, folder_.string()));
    }
    const StepResult step = trainer_.step();
    if (!step.finite) {
      return stopped(
          TrainOutcome::kDiverged,
          fmt::format("expected a finite loss and gradient, got loss {} and gradient norm {} in "
                      "step {}; {}; lower the learning rate",
                      step.on_batch.loss, step.gradient_norm, trainer_.steps_done() + 1,
                      result_.saved.empty() ? "no earlier state was saved"
                                            : "the last good state is " + result_.saved.string()));
    }
    const std::int64_t done = trainer_.steps_done();
    tokens_ += tokens_of_step(done - 1);
    write_log_row(step);
    if (options().checkpoint_interval > 0 && done % options().checkpoint_interval == 0 &&
        done < options().steps) {
      save();
    }
    if (progress) {
      const double rate = static_cast<double>(done - first) / watch_.seconds();
      progress({.step = done,
                .steps = options().steps,
                .loss = step.on_batch.loss,
                .accuracy = step.on_batch.accuracy,
                .gradient_norm = step.gradient_norm,
                .learning_rate = step.learning_rate,
                .tokens_per_second = static_cast<double>(tokens_ - first_tokens) / watch_.seconds(),
                .eta_seconds = static_cast<double>(options().steps - done) / rate});
    }
  }
  return finish();
}

}  // namespace

TrainResult start_training(const TrainOptions& options, const fs::path& folder,
                           const ProgressCallback& progress) {
  validate(options, "train");
  base::create_new_folder(folder, "train");
  const RunHeader header{
      .options = options, .started = base::utc_now(), .commit = base::build_commit()};
  base::write_file_atomically(folder / kOptions, to_json(header).dump(2) + "\n");
  Run run(header, folder);
  run.begin_log();
  return run.loop(progress);
}

TrainResult resume_training(const fs::path& folder, const ProgressCallback& progress) {
  const RunHeader header = read_header(folder);
  if (fs::exists(folder / "model.safetensors")) {
    const model::Checkpoint complete = model::read_checkpoint(folder);
    fs::remove_all(folder / kResume);  // a kill may have come between the two
    return {.outcome = TrainOutcome::kFinished,
            .step = complete.card.steps,
            .folder = folder,
            .saved = folder,
            .sha256 = complete.sha256,
            .card = complete.card};
  }
  Run run(header, folder);
  if (header.commit != base::build_commit()) {
    run.warn(
        fmt::format("begun by commit {}, continued by {}: the weights may differ in their last "
                    "bits from an uninterrupted run",
                    header.commit, base::build_commit()));
  }
  if (const auto state = newest_state(folder)) {
    run.load(*state);
  } else {
    run.begin_log();
  }
  return run.loop(progress);
}

}  // namespace kvphase::train
