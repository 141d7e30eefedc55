// kvphase calibrate: the study behind the statistics, repeated on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "audit/score_saving.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
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

void write_all(const fs::path& out, const std::vector<std::pair<const char*, std::string>>& files) {
  if (out.empty()) return;
  base::NewFolder folder(out, "calibrate");
  for (const auto& [name, text] : files) base::write_file_atomically(folder.part() / name, text);
  folder.publish();
}

// The settings' names are known to the study alone: one of a single run each takes a second.
[[noreturn]] void refuse_only(const std::string& only) {
  std::vector<std::string> names;
  for (const stats::CalibrationRow& row :
       stats::run_calibration({.null_runs = 1, .coverage_runs = 1, .power_runs = 1}).rows) {
    if (std::ranges::find(names, row.setting) == names.end()) names.push_back(row.setting);
  }
  throw base::usage_error("calibrate",
                          "expected text that a setting's name contains after --only, got '{}'; "
                          "the nearest name is '{}'",
                          only, base::nearest_name(only, names));
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
  if (result.rows.empty()) refuse_only(options.only);
  const std::string json = stats::to_json(result).dump(2) + "\n";
  const std::string text = stats::to_markdown(result);
  write_all(options.out, {{"calibration.json", json}, {"calibration.md", text}});
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
  write_all(options.out, {{"scores.csv", text}});
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
    if (!o->out.empty()) base::check_new_folder(o->out, "calibrate");
    return o->scores ? score_study(*o, session) : study(*o, session);
  };
}

}  // namespace kvphase::cli
