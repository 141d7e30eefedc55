#include "train/training_run.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/build_info.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "lm/byte_tokens.h"
#include "model/gate_sums.h"
#include "train/gate_trace.h"
#include "train/run_plan.h"
#include "train/trainer.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::usage_error;

constexpr const char* kLog = "log.csv";
constexpr const char* kLogHeader = "step,tokens,loss,accuracy,gradient_norm,learning_rate,seconds";
constexpr const char* kTextLogHeader =
    "step,tokens,loss,accuracy,text_loss,text_accuracy,lookup_loss,lookup_accuracy,gradient_norm,"
    "learning_rate,seconds";
constexpr const char* kResume = "resume";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr std::string_view kStepPrefix = "step-";

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

// The shards of this process are those that the training was begun with.
void expect_same_data(const RunPlan& plan) {
  const Json data = TrainingData(plan.header.options).identity();
  if (data == plan.header.data) return;
  throw usage_error("train",
                    "expected the token shards that train.json of {} names, got others: {}",
                    plan.folder.string(), data.dump());
}

// One process's share of a training.
class Run {
 public:
  Run(RunHeader header, fs::path folder, Ranks& ranks)
      : header_(std::move(header)),
        folder_(std::move(folder)),
        ranks_(ranks),
        trainer_(header_.options, &ranks) {
    if (!ranks_.first()) return;
    log_.emplace(folder_ / kLog);
    if (options().trace_gates == 0) return;
    if (const std::string none = model::why_no_gates(options().model); none.empty()) {
      gate_log_.emplace(folder_ / kGateTrace);
    } else {
      warn(fmt::format("no gates to trace: {}", none));
    }
  }

  // On rank 0.
  void load(const fs::path& state_folder);
  // On every rank, after rank 0 has loaded what there is to load.
  TrainResult loop(const ProgressCallback& progress);
  void warn(std::string warning) { result_.warnings.push_back(std::move(warning)); }
  void begin();  // initial weights, and the log's head

 private:
  const TrainOptions& options() const { return header_.options; }
  double seconds() const { return seconds_before_ + watch_.seconds(); }

  void write_log_row(const StepResult& step);
  void trace_gates();
  std::vector<std::string> token_names() const;
  model::Checkpoint checkpoint();
  fs::path state_name() const {
    return folder_ / kResume / fmt::format("{}{:06}", kStepPrefix, trainer_.steps_done());
  }
  void save();
  void write_state();
  TrainResult train(const ProgressCallback& progress);
  TrainResult finish();
  std::string last_checkpoint(const LostRank& lost) const;
  base::Error lost(const LostRank& lost);
  TrainResult stopped(TrainOutcome outcome, std::string message);

  RunHeader header_;
  fs::path folder_;
  Ranks& ranks_;
  std::optional<base::LineAppender> log_;       // of rank 0; also refuses a second process
  std::optional<base::LineAppender> gate_log_;  // of rank 0, where gates are traced
  Trainer trainer_;
  TrainResult result_;
  fs::path saving_;  // the last state that rank 0 was to save
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
  const std::int64_t gate_log_bytes = gate_log_ ? reader.integer("gate_log_bytes") : 0;
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
  log_->truncate(log_bytes);
  if (gate_log_) gate_log_->truncate(gate_log_bytes);
  result_.saved = state_folder;
}

// Nothing without initial weights. Throws a usage error when the folder holds others or the network
// is of another shape.
void load_initial(const InitialWeights& initial, model::Transformer& network) {
  if (initial.folder.empty()) return;
  const model::Checkpoint checkpoint = model::read_checkpoint(initial.folder);
  if (checkpoint.sha256 != initial.sha256) {
    throw base::usage_error("train", "expected the weights {} in {}, got {}; they have changed",
                            initial.sha256, initial.folder, checkpoint.sha256);
  }
  model::load_weights(network, checkpoint.weights, initial.folder);
}

void Run::begin() {
  load_initial(options().initial, trainer_.network());
  log_->truncate(0);
  log_->append(options().data.text.empty() ? kLogHeader : kTextLogHeader);
  if (!gate_log_) return;
  const TrainingData::TraceText text = trainer_.data().trace_text();
  gate_log_->truncate(0);
  gate_log_->append(to_line(GateTraceText{.source = text.source,
                                          .sequences = text.tokens.size(0),
                                          .tokens = text.tokens.size(1),
                                          .interval = options().trace_gates}));
  trace_gates();
}

// The network as it is, at step 0 too.
void Run::trace_gates() {
  for (const GateTraceRow& row : trainer_.look_at_gates()) gate_log_->append(to_line(row));
}

void Run::write_log_row(const StepResult& step) {
  if (!log_) return;
  std::string kinds;
  if (!options().data.text.empty()) {
    for (const auto& kind : {step.on_text, step.on_lookups}) {
      kinds += kind ? fmt::format(",{:.9g},{:.9g}", kind->loss, kind->accuracy) : ",,";
    }
  }
  log_->append(fmt::format("{},{},{:.9g},{:.9g}{},{:.9g},{:.9g},{:.3f}", trainer_.steps_done(),
                           tokens_, step.on_batch.loss, step.on_batch.accuracy, kinds,
                           step.gradient_norm, step.learning_rate, seconds()));
}

// Bytes by their own names, the language by its, the rest by number.
std::vector<std::string> Run::token_names() const {
  if (trainer_.data().tokenizer() == kByteTokenizer &&
      options().model.vocab_size == lm::kByteVocabulary) {
    return lm::byte_token_names();
  }
  std::vector<std::string> names;
  for (lm::TokenId token = 0; token < options().model.vocab_size; ++token) {
    const bool own = options().language.holds(token);
    names.push_back(own ? options().language.token_name(token) : fmt::format("#{}", token));
  }
  return names;
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
  checkpoint.token_names = token_names();
  checkpoint.weights = model::weights_of(trainer_.network());
  return checkpoint;
}

// Every rank knows the name of the state, so that each can say what there is to resume.
void Run::save() {
  trainer_.expect_same_weights();
  saving_ = state_name();
  if (ranks_.first()) write_state();
  ranks_.wait_for_all();
  result_.saved = state_name();
}

void Run::write_state() {
  const fs::path name = state_name();
  if (fs::exists(name)) return;  // stopped right after it was saved
  log_->sync();
  if (gate_log_) gate_log_->sync();
  const fs::path part = name.string() + ".part";
  fs::remove_all(part);
  fs::create_directories(part);
  model::write_checkpoint(part, checkpoint());
  const std::vector<model::NamedTensor> memory = {{"first", trainer_.optimizer().first},
                                                  {"second", trainer_.optimizer().second}};
  base::write_file_atomically(part / kOptimizer, model::write_safetensors(memory));
  Json state;
  state["step"] = trainer_.steps_done();
  state["log_bytes"] = log_->size();
  if (gate_log_) state["gate_log_bytes"] = gate_log_->size();
  state["seconds"] = seconds();
  base::write_file_atomically(part / kState, state.dump(2) + "\n");
  base::publish_folder(part, name);
  for (const auto& entry : fs::directory_iterator(folder_ / kResume)) {
    if (entry.path() != name) fs::remove_all(entry.path());
  }
}

// As far as this rank knows.
std::string Run::last_checkpoint(const LostRank& lost) const {
  if (ranks_.first()) return result_.saved.string();
  if (!result_.saved.empty()) return fmt::format("{} or later", result_.saved.string());
  if (!saving_.empty()) return fmt::format("{}, if it was completed", saving_.string());
  if (lost.rank != 0) {
    return fmt::format("in {}, saved by rank 0 as it ends", (folder_ / kResume).string());
  }
  return "";
}

// What to tell the user; saves first, where this process can: the network is as after the last
// complete step.
base::Error Run::lost(const LostRank& lost) {
  std::string trouble;
  if (ranks_.first()) {
    try {
      write_state();
      result_.saved = state_name();
    } catch (const std::exception& error) {
      trouble = fmt::format(" (saving step {} failed: {})", trainer_.steps_done(), error.what());
    }
  }
  const std::string known = last_checkpoint(lost);
  const std::string next =
      known.empty() ? "no checkpoint was saved yet"
                    : fmt::format("last checkpoint: {}; continue with: kvphase train --resume {}",
                                  known, folder_.string());
  return {lost.kind, "train",
          fmt::format(
              "{}; {}{}",
              lost.at(fmt::format("after step {} of {}", trainer_.steps_done(), options().steps)),
              next, trouble)};
}

TrainResult Run::stopped(TrainOutcome outcome, std::string message) {
  if (log_) log_->sync();
  if (gate_log_) gate_log_->sync();
  result_.outcome = outcome;
  result_.step = trainer_.steps_done();
  result_.folder = folder_;
  result_.message = std::move(message);
  return result_;
}

TrainResult Run::finish() {
  result_.step = trainer_.steps_done();
  result_.folder = folder_;
  result_.saved = folder_;
  if (!ranks_.first()) return result_;
  const Evaluation lookups = trainer_.evaluate(trainer_.data().validation_lookups());
  model::Checkpoint final = checkpoint();
  final.card.loss = lookups.loss;
  final.card.accuracy = lookups.accuracy;
  if (const auto text = trainer_.data().validation_text()) {
    const Evaluation next_tokens = trainer_.evaluate(*text);
    final.card.text_loss = next_tokens.loss;
    final.card.text_accuracy = next_tokens.accuracy;
  }
  log_->sync();
  if (gate_log_) gate_log_->sync();
  result_.sha256 = model::write_checkpoint(folder_, final);
  result_.card = final.card;
  fs::remove_all(folder_ / kResume);
  return result_;
}

TrainResult Run::loop(const ProgressCallback& progress) {
  try {
    trainer_.copy_from_first();
    if (trainer_.steps_done() > 0) result_.saved = state_name();
    return train(progress);
  } catch (const LostRank& rank) {
    throw lost(rank);
  }
}

TrainResult Run::train(const ProgressCallback& progress) {
  const std::int64_t first = trainer_.steps_done();
  for (std::int64_t step = 0; step < first; ++step) tokens_ += trainer_.data().tokens_of_step(step);
  const std::int64_t first_tokens = tokens_;
  while (trainer_.steps_done() < options().steps) {
    if (ranks_.any(base::stop_requested())) {
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
    tokens_ += trainer_.data().tokens_of_step(done - 1);
    write_log_row(step);
    if (gate_log_ && (done % options().trace_gates == 0 || done == options().steps)) trace_gates();
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
  trainer_.expect_same_weights();
  TrainResult result = finish();
  try {
    ranks_.wait_for_all();  // nobody reports success before the files are there
  } catch (const LostRank&) {
    if (!ranks_.first()) throw;  // on rank 0 they are there
  }
  return result;
}

// Runs one rank's part; whichever way it ends, the other ranks are told.
TrainResult together(Ranks& ranks, const std::function<TrainResult()>& work) {
  try {
    TrainResult result = work();
    ranks.leave();
    return result;
  } catch (const LostRank& lost) {
    throw base::Error(lost.kind, "train", lost.at("before the first step"));
  } catch (const base::Error& error) {
    ranks.leave_with(error.kind(), error.what());
    throw;
  } catch (const std::exception& error) {
    ranks.leave_with(base::ErrorKind::kEnvironment, error.what());
    throw;
  }
}

}  // namespace

TrainResult start_training(const TrainOptions& options, const fs::path& folder,
                           const ProgressCallback& progress, Ranks& ranks) {
  return together(ranks, [&] {
    validate(options, "train");
    training_device(options, ranks);  // refused before there is a folder, and so is the data
    const RunPlan plan = agree_on({.folder = folder,
                                   .header = {.options = options,
                                              .started = base::utc_now(),
                                              .commit = base::build_commit(),
                                              .data = TrainingData(options).identity()}},
                                  ranks);
    expect_same_data(plan);
    if (ranks.first()) {
      if (!options.initial.folder.empty()) {  // refused before there is a folder
        model::Transformer network(options.model, 0);
        load_initial(options.initial, network);
      }
      base::create_new_folder(folder, "train");
      write_header(folder, plan.header);
    }
    Run run(plan.header, plan.folder, ranks);
    if (ranks.first()) run.begin();
    return run.loop(progress);
  });
}

TrainResult resume_training(const fs::path& folder, const ProgressCallback& progress,
                            Ranks& ranks) {
  return together(ranks, [&]() -> TrainResult {
    RunPlan mine{.resume = true, .folder = folder};
    if (ranks.first()) {
      mine.header = read_header(folder);
      mine.complete = fs::exists(folder / "model.safetensors");
    }
    const RunPlan plan = agree_on(std::move(mine), ranks);
    if (plan.complete) {
      if (!ranks.first()) return {.folder = plan.folder, .saved = plan.folder};
      const model::Checkpoint complete = model::read_checkpoint(folder);
      fs::remove_all(folder / kResume);  // a kill may have come between the two
      return {.outcome = TrainOutcome::kFinished,
              .step = complete.card.steps,
              .folder = folder,
              .saved = folder,
              .sha256 = complete.sha256,
              .card = complete.card};
    }
    expect_same_data(plan);
    Run run(plan.header, plan.folder, ranks);
    if (!ranks.first()) return run.loop(progress);
    if (plan.header.commit != base::build_commit()) {
      run.warn(
          fmt::format("begun by commit {}, continued by {}: the weights may differ in their last "
                      "bits from an uninterrupted run",
                      plan.header.commit, base::build_commit()));
    }
    if (const auto state = newest_state(folder)) {
      run.load(*state);
    } else {
      run.begin();
    }
    return run.loop(progress);
  });
}

TrainResult start_training(const TrainOptions& options, const fs::path& folder,
                           const ProgressCallback& progress) {
  Ranks alone;
  return start_training(options, folder, progress, alone);
}

TrainResult resume_training(const fs::path& folder, const ProgressCallback& progress) {
  Ranks alone;
  return resume_training(folder, progress, alone);
}

}  // namespace kvphase::train
