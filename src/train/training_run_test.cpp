#include "train/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/stop.h"
#include "lm/byte_tokens.h"
#include "train/fit.h"
#include "train/gate_trace.h"
#include "train/recipes.h"
#include "train/token_shard.h"
#include "train/trainer.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TrainOptions tiny() {
  TrainOptions options = recipe("small-wc");
  options.model.width = 16;
  options.model.head_width = 8;
  options.model.rope_dims = 8;
  options.model.ff_width = 16;
  options.language = {.keys = 8, .values = 8, .haystack = 16, .records = 3, .queries = 3};
  options.batch = 4;
  options.steps = 60;
  options.warmup_steps = 5;
  options.checkpoint_interval = 7;
  options.validation_sequences = 8;
  fit_model_to_language(options);
  return options;
}

constexpr int kFinishedExit = 10;  // exit codes of the child processes
constexpr int kInterruptedExit = 11;
constexpr int kErrorExit = 12;

class TrainingRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-train-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Starts or resumes in a child process. The child asks itself to stop after `stop_after` steps of
  // its own.
  pid_t spawn(const TrainOptions& options, const fs::path& folder, std::int64_t stop_after = -1) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    try {
      std::int64_t steps = 0;
      const auto count = [&](const TrainProgress&) {
        if (++steps == stop_after) base::request_stop();
      };
      const TrainResult result = fs::exists(folder / "train.json")
                                     ? resume_training(folder, count)
                                     : start_training(options, folder, count);
      ::_exit(result.outcome == TrainOutcome::kFinished ? kFinishedExit : kInterruptedExit);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(kErrorExit);
    }
  }

  static int wait_for(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  // Rows of log.csv without the seconds.
  static std::vector<std::string> log_rows(const fs::path& folder) {
    std::vector<std::string> rows;
    std::istringstream text(base::read_file(folder / "log.csv"));
    for (std::string line; std::getline(text, line);) {
      rows.push_back(line.substr(0, line.rfind(',')));
    }
    return rows;
  }

  static void expect_same_training(const fs::path& one, const fs::path& other) {
    for (const char* name : {"model.safetensors", "config.json", "tokens.json"}) {
      EXPECT_TRUE(base::read_file(one / name) == base::read_file(other / name)) << name;
    }
    const model::TrainingCard a = model::read_training_card(one);
    const model::TrainingCard b = model::read_training_card(other);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(log_rows(one), log_rows(other));
    EXPECT_FALSE(fs::exists(other / "resume"));
  }

  // Shards of random letters.
  static void write_text(const fs::path& folder, std::uint64_t seed) {
    fs::create_directory(folder);
    base::Random random(seed);
    for (const char* name : {"train-0.tokens", "validation-0.tokens"}) {
      TokenShardWriter writer(folder / name, lm::kByteVocabulary, kByteTokenizer);
      for (int i = 0; i < 500; ++i) {
        writer.append(std::array{static_cast<lm::TokenId>('a' + random.uniform_index(26))});
      }
      writer.finish();
    }
  }

  // tiny(), three text sequences and a lookup per step.
  static TrainOptions on_text(const fs::path& text) {
    TrainOptions options = tiny();
    options.language = task::lookup_language_in_bytes();
    options.language.haystack = 16;
    options.language.records = options.language.queries = 3;
    options.data = {.text = {text.string()}, .sequence = 20, .lookup_share = 0.25};
    fit_model_to_language(options, lm::kByteVocabulary);
    return options;
  }

  fs::path folder_;
};

TEST_F(TrainingRun, LeavesACheckpointACardAndALog) {
  std::vector<TrainProgress> seen;
  const TrainOptions options = tiny();
  const TrainResult result = start_training(
      options, folder_ / "a", [&](const TrainProgress& progress) { seen.push_back(progress); });
  EXPECT_EQ(result.outcome, TrainOutcome::kFinished);
  EXPECT_EQ(result.step, 60);
  ASSERT_EQ(seen.size(), 60U);
  EXPECT_EQ(seen.back().step, 60);
  EXPECT_EQ(seen.back().eta_seconds, 0);
  EXPECT_GT(seen.back().tokens_per_second, 0);
  const model::Checkpoint checkpoint = model::read_checkpoint(folder_ / "a");
  EXPECT_EQ(checkpoint.sha256, result.sha256);
  EXPECT_EQ(checkpoint.card.tokens, 60 * 4 * 23);
  EXPECT_TRUE(checkpoint.card.loss.has_value() && checkpoint.card.accuracy.has_value());
  EXPECT_EQ(checkpoint.token_names.back(), "v7");
  EXPECT_EQ(task::lookup_language_from_json(checkpoint.card.language, "card"), options.language);
  EXPECT_EQ(log_rows(folder_ / "a").size(), 61U);
  EXPECT_FALSE(fs::exists(folder_ / "a" / "resume"));
}

TEST_F(TrainingRun, ExistingFolderIsRefusedAndLeftAlone) {
  base::write_file_atomically(folder_ / "mine", "precious");
  EXPECT_THROW(start_training(tiny(), folder_, nullptr), base::Error);
  EXPECT_EQ(base::read_file(folder_ / "mine"), "precious");
}

TEST_F(TrainingRun, ResumingWhatIsNoTrainingIsRefused) {
  EXPECT_THROW(resume_training(folder_, nullptr), base::Error);
  EXPECT_THROW(resume_training(folder_ / "absent", nullptr), base::Error);
}

TEST_F(TrainingRun, StoppedAndResumedEndsInTheSameBytes) {
  for (const std::int64_t threads : {1, 2}) {
    TrainOptions options = tiny();
    options.threads = threads;
    const fs::path whole = folder_ / fmt::format("whole{}", threads);
    const fs::path pieces = folder_ / fmt::format("pieces{}", threads);
    EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, whole))), kFinishedExit);
    for (const std::int64_t stop_after : {1, 6, 7, 20}) {
      EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, pieces, stop_after))), kInterruptedExit);
    }
    EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, pieces))), kFinishedExit);
    expect_same_training(whole, pieces);
    // Complete: resuming changes nothing.
    EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, pieces))), kFinishedExit);
    expect_same_training(whole, pieces);
  }
}

TEST_F(TrainingRun, OnTextStoppedAndResumedEndsInTheSameBytes) {
  write_text(folder_ / "text", 7);
  const TrainOptions options = on_text(folder_ / "text");
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "whole"))), kFinishedExit);
  for (const std::int64_t stop_after : {1, 6, 20}) {
    EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "pieces", stop_after))),
              kInterruptedExit);
  }
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "pieces"))), kFinishedExit);
  expect_same_training(folder_ / "whole", folder_ / "pieces");

  const model::Checkpoint checkpoint = model::read_checkpoint(folder_ / "whole");
  EXPECT_EQ(checkpoint.token_names, lm::byte_token_names());
  EXPECT_TRUE(checkpoint.card.text_loss && checkpoint.card.text_accuracy && checkpoint.card.loss);
  EXPECT_EQ(task::lookup_language_from_json(checkpoint.card.language, "card"), options.language);
  EXPECT_EQ(checkpoint.card.tokens, 60 * (3 * 20 + options.language.length()));
  const std::vector<std::string> log = log_rows(folder_ / "whole");
  EXPECT_EQ(log.front(),
            "step,tokens,loss,accuracy,text_loss,text_accuracy,lookup_loss,lookup_accuracy,"
            "gradient_norm,learning_rate");
}

TEST_F(TrainingRun, BeginsFromACheckpointsWeightsAlsoWhenStoppedBeforeTheFirstStateIsSaved) {
  TrainOptions options = tiny();
  ASSERT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "base"))), kFinishedExit);
  const model::Checkpoint base = model::read_checkpoint(folder_ / "base");
  TrainOptions further = post_training_of(base.card.options);
  EXPECT_EQ(to_json(further), to_json(options)) << "no curriculum to leave out";
  further.seed = 9;
  further.steps = 12;
  further.checkpoint_interval = 0;
  further.initial = {.folder = (folder_ / "base").string(), .sha256 = base.sha256};
  ASSERT_EQ(WEXITSTATUS(wait_for(spawn(further, folder_ / "whole"))), kFinishedExit);

  // The first step's loss is the checkpoint's on that batch, not a new network's.
  Trainer trained(further), fresh(further);
  model::load_weights(trained.network(), base.weights, "test");
  const double loss = trained.step().on_batch.loss;
  EXPECT_NE(loss, fresh.step().on_batch.loss);
  EXPECT_THAT(log_rows(folder_ / "whole").at(1),
              HasSubstr(fmt::format("{:.4f}", loss).substr(0, 5)));

  // A kill may leave the folder with its options alone.
  fs::create_directory(folder_ / "cut");
  fs::copy_file(folder_ / "whole" / "train.json", folder_ / "cut" / "train.json");
  ASSERT_EQ(WEXITSTATUS(wait_for(spawn(further, folder_ / "cut"))), kFinishedExit);
  expect_same_training(folder_ / "whole", folder_ / "cut");

  const auto refused = [&](const TrainOptions& wrong, const char* why) {
    try {
      start_training(wrong, folder_ / "new", nullptr);
      ADD_FAILURE() << "expected an error about " << why;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
    EXPECT_FALSE(fs::exists(folder_ / "new"));
  };
  TrainOptions wrong = further;
  wrong.initial.sha256 = std::string(64, '0');
  refused(wrong, "have changed");
  wrong = further;
  wrong.model.ff_width = 8;
  refused(wrong, "base");
}

TEST_F(TrainingRun, OtherTextThanItBeganWithIsRefused) {
  write_text(folder_ / "text", 7);
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(on_text(folder_ / "text"), folder_ / "a", 10))),
            kInterruptedExit);
  fs::remove_all(folder_ / "text");
  EXPECT_THROW(resume_training(folder_ / "a", nullptr), base::Error);  // none
  write_text(folder_ / "text", 8);
  try {
    resume_training(folder_ / "a", nullptr);
    ADD_FAILURE() << "expected an error";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("got others"));
  }
  fs::remove_all(folder_ / "text");
  write_text(folder_ / "text", 7);
  EXPECT_EQ(resume_training(folder_ / "a", nullptr).outcome, TrainOutcome::kFinished);
}

TEST_F(TrainingRun, KilledAtAnyMomentAndResumedEndsInTheSameBytes) {
  TrainOptions options = tiny();
  options.checkpoint_interval = 1;  // most of the time goes into saving
  options.trace_gates = 2;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "whole"))), kFinishedExit);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);

  base::Random random(base::derive_seed(1, "kill"));
  int kills = 0;
  for (int round = 0; round < 2; ++round) {
    const fs::path folder = folder_ / fmt::format("killed{}", round);
    for (;;) {
      const pid_t child = spawn(options, folder);
      // Long enough to get somewhere, short enough to be killed about five times.
      std::this_thread::sleep_for(whole * (0.05 + 0.25 * random.uniform()));
      ::kill(child, SIGKILL);
      const int status = wait_for(child);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), kFinishedExit);
        break;
      }
      ++kills;
      ASSERT_LT(kills, 200) << "no progress";
      // Killed before its options were written: nothing to resume.
      if (!fs::exists(folder / "train.json")) fs::remove_all(folder);
    }
    expect_same_training(folder_ / "whole", folder);
    EXPECT_EQ(base::read_file(folder_ / "whole" / kGateTrace),
              base::read_file(folder / kGateTrace));
  }
  std::printf("killed %d times\n", kills);
  EXPECT_GT(kills, 3);
}

TEST_F(TrainingRun, TracingTheGatesLeavesTheWeightsAndTheLogAsTheyAre) {
  for (const std::int64_t threads : {1, 2}) {
    TrainOptions options = tiny();
    options.threads = threads;
    const fs::path plain = folder_ / fmt::format("plain{}", threads);
    const fs::path traced = folder_ / fmt::format("traced{}", threads);
    start_training(options, plain, nullptr);
    options.trace_gates = 1;
    start_training(options, traced, nullptr);
    expect_same_training(plain, traced);
    EXPECT_FALSE(fs::exists(plain / kGateTrace));
    EXPECT_EQ(read_gate_trace(traced)->rows.size(), 61 * 2U) << "keys and values of one layer";
  }
}

TEST_F(TrainingRun, ATraceHasEveryIntervalTheBeginningAndTheEndAndItsGatesMove) {
  TrainOptions options = tiny();
  options.trace_gates = 25;
  start_training(options, folder_ / "a", nullptr);
  const auto trace = read_gate_trace(folder_ / "a");
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->text.source, "lookup sequences of the validation stream");
  EXPECT_EQ(trace->text.sequences, 4);  // no more than a step has
  EXPECT_EQ(trace->text.tokens, options.language.length());
  std::vector<std::int64_t> steps;
  const auto W = static_cast<double>(options.model.chunk.window);
  for (const GateTraceRow& row : trace->rows) {
    if (!row.of_values) steps.push_back(row.step);
    double mass = 0;
    for (const double share : row.measures.profile) mass += share;
    EXPECT_NEAR(mass, W, 1e-3) << to_line(row);
    EXPECT_GE(row.measures.per_window, 1);
    EXPECT_LE(row.measures.fixed, W + 1e-6);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 25, 50, 60));
  for (std::size_t i = 0; i < 2; ++i) {  // key, value
    EXPECT_NE(trace->rows[i].measures.profile, trace->rows[i + 2].measures.profile);
  }
}

TEST_F(TrainingRun, ATraceStoppedOrKilledAndResumedIsThatOfAWholeTraining) {
  TrainOptions options = tiny();
  options.trace_gates = 3;
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "whole"))), kFinishedExit);
  const auto same = [&](const fs::path& other) {
    expect_same_training(folder_ / "whole", other);
    EXPECT_EQ(base::read_file(folder_ / "whole" / kGateTrace), base::read_file(other / kGateTrace));
  };
  for (const std::int64_t stop_after : {1, 5, 6, 20}) {
    EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "pieces", stop_after))),
              kInterruptedExit);
  }
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "pieces"))), kFinishedExit);
  same(folder_ / "pieces");

  // Killed between a trace (step 9) and the state before it (step 7): what was written behind the
  // state is written anew.
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "killed", 7))), kInterruptedExit);
  const std::string at_seven = base::read_file(folder_ / "killed" / kGateTrace);
  {
    base::LineAppender log(folder_ / "killed" / kGateTrace);
    log.append("{\"step\":9,\"layer\":1}");
    log.sync();
  }
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(options, folder_ / "killed"))), kFinishedExit);
  same(folder_ / "killed");
  EXPECT_TRUE(base::read_file(folder_ / "killed" / kGateTrace).starts_with(at_seven));
}

TEST_F(TrainingRun, WithoutGatesNothingIsTracedAndThatIsSaid) {
  TrainOptions options = tiny();
  options.trace_gates = 5;
  options.steps = 3;
  options.model.chunk.gate = model::GateKind::kUniform;
  options.model.chunk.gate_bias = false;
  const TrainResult uniform = start_training(options, folder_ / "uniform", nullptr);
  EXPECT_THAT(uniform.warnings, ::testing::ElementsAre(HasSubstr("uniform gates")));
  EXPECT_FALSE(fs::exists(folder_ / "uniform" / kGateTrace));
  options.model.attention.assign(options.model.attention.size(), model::AttentionKind::kFull);
  const TrainResult full = start_training(options, folder_ / "full", nullptr);
  EXPECT_THAT(full.warnings, ::testing::ElementsAre(HasSubstr("no layer is chunked")));
  EXPECT_FALSE(fs::exists(folder_ / "full" / kGateTrace));
}

TEST_F(TrainingRun, SecondProcessInTheSameFolderIsRefused) {
  TrainOptions options = tiny();
  bool refused = false;
  start_training(options, folder_ / "a", [&](const TrainProgress& progress) {
    if (progress.step != 3) return;
    try {
      resume_training(folder_ / "a", nullptr);
    } catch (const base::Error& error) {
      refused = true;
      EXPECT_THAT(error.what(), HasSubstr("another process"));
    }
  });
  EXPECT_TRUE(refused);
}

TEST_F(TrainingRun, DivergenceStopsAndKeepsTheLastGoodState) {
  TrainOptions options = tiny();
  options.learning_rate = 1e25;
  options.warmup_steps = 20;
  options.checkpoint_interval = 1;
  const TrainResult result = start_training(options, folder_ / "a", nullptr);
  EXPECT_EQ(result.outcome, TrainOutcome::kDiverged);
  EXPECT_THAT(result.message, HasSubstr(fmt::format("in step {}", result.step + 1)));
  EXPECT_THAT(result.message, HasSubstr("lower the learning rate"));
  std::printf("%s\n", result.message.c_str());
  ASSERT_GE(result.step, 1);
  EXPECT_EQ(model::read_checkpoint(result.saved).card.steps, result.step);
  EXPECT_FALSE(fs::exists(folder_ / "a" / "model.safetensors"));
}

TEST_F(TrainingRun, DamagedStateIsNamed) {
  EXPECT_EQ(WEXITSTATUS(wait_for(spawn(tiny(), folder_ / "a", 10))), kInterruptedExit);
  const fs::path state = folder_ / "a" / "resume" / "step-000010";
  for (const char* name : {"optimizer.safetensors", "state.json", "model.safetensors"}) {
    const std::string good = base::read_file(state / name);
    fs::resize_file(state / name, good.size() / 2);
    try {
      resume_training(folder_ / "a", nullptr);
      ADD_FAILURE() << "expected an error for " << name;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
    base::write_file_atomically(state / name, good);
  }
}

}  // namespace
}  // namespace kvphase::train
