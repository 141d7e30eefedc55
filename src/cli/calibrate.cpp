// kvphase calibrate: the study behind the statistics, repeated on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "audit/score_saving.h"
#include "base/clock.h"
#include "base/files.h"
#include "cli/command.h"
#include "stats/calibration.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateOptions {
  std::int64_t runs = 2000;
  std::uint64_t seed = stats::CalibrationOptions{}.seed;
  std::string only;
  bool scores = false;
  bool json = false;
  fs::path out;
};

void write_in(const fs::path& folder, const char* name, const std::string& text) {
  if (!folder.empty()) base::write_file_atomically(folder / name, text);
}

ExitCode study(const CalibrateOptions& options, const Session& session) {
  const stats::CalibrationOptions defaults;
  stats::CalibrationOptions study;
  const auto share = [&](std::int64_t runs) {
    return std::max<std::int64_t>(1, runs * options.runs / defaults.null_runs);
  };
  study.null_runs = options.runs;
  study.coverage_runs = share(defaults.coverage_runs);
  study.power_runs = share(defaults.power_runs);
  study.seed = options.seed;
  study.only = options.only;
  study.progress = [&](const std::string& row) { session.console.progress(row); };
  const stats::CalibrationResult result = stats::run_calibration(study);
  const std::string json = stats::to_json(result).dump(2) + "\n";
  const std::string text = stats::to_markdown(result);
  write_in(options.out, "calibration.json", json);
  write_in(options.out, "calibration.md", text);
  session.console.result(options.json ? json : text);
  return result.all_met ? kSuccess : kRequirementNotMet;
}

ExitCode score_study(const CalibrateOptions& options, const Session& session) {
  std::vector<audit::Saving> rows;
  for (const audit::SavingSetting& setting : audit::saving_settings()) {
    const base::Stopwatch watch;
    // A tenth of the runs: every setting simulates a dozen sizes.
    rows.push_back(audit::measure_saving(
        setting, {.runs = std::max<std::int64_t>(1, options.runs / 10), .seed = options.seed}));
    session.console.progress(fmt::format("accuracy {}, dip {}: {}", setting.accuracy, setting.dip,
                                         base::format_duration(watch.seconds())));
  }
  const std::string text = audit::saving_csv(rows);
  write_in(options.out, "scores.csv", text);
  session.console.result(text);
  return kSuccess;
}

}  // namespace

Action add_calibrate(CLI::App& app) {
  const auto o = std::make_shared<CalibrateOptions>();
  app.add_option("--runs", o->runs,
                 "Simulated audits per false-alarm setting; the other settings scale with it")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", o->seed, "Of the simulation; the default is the published study's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--only", o->only, "Only settings whose name contains this text");
  app.add_flag("--scores", o->scores,
               "Instead: how many fewer items a log-probability margin needs than right/wrong");
  app.add_flag("--json", o->json, "JSON instead of tables");
  app.add_option("--out", o->out, "New folder for calibration.json and .md, or scores.csv");
  return [o](const Session& session) {
    if (!o->out.empty()) base::create_new_folder(o->out, "calibrate");
    return o->scores ? score_study(*o, session) : study(*o, session);
  };
}

}  // namespace kvphase::cli
