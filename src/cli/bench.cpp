// kvphase bench: what designs cost in time and memory over the context length, beside the floors of
// this machine, and with audits what their weakest phase is worth for it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "cli/bench_cells.h"
#include "cli/bench_options.h"
#include "cli/command.h"
#include "cli/run_folders.h"
#include "record/context.h"
#include "report/findings.h"
#include "speed/bytes.h"
#include "speed/findings.h"

namespace kvphase::cli {
namespace {

// The designs of audits, in the order found, by their worst residues.
std::vector<speed::Accuracy> accuracy_of(const std::vector<record::ComparedRun>& runs) {
  std::vector<speed::Accuracy> list;
  for (const record::ComparedRun& run : runs) {
    const auto& worst = run.result.worst.estimate.value;
    if (run.design.empty() || !worst) continue;
    auto at = std::ranges::find(list, run.design, &speed::Accuracy::design);
    if (at == list.end()) {
      list.push_back({.design = run.design, .worst = 0, .low = *worst, .high = *worst});
      at = std::prev(list.end());
    }
    const auto before = static_cast<double>(at->runs++);
    at->worst = (at->worst * before + *worst) / (before + 1);
    at->low = std::min(at->low, *worst);
    at->high = std::max(at->high, *worst);
  }
  return list;
}

bool caches_agree(const speed::Bench& bench) {
  return std::ranges::all_of(bench.done, [](const speed::Done& done) {
    return done.cell.operation != speed::Operation::kPrompt || !done.measured.bytes ||
           *done.measured.bytes ==
               speed::cache_bytes(done.cell.config, done.cell.tokens) * done.cell.batch;
  });
}

ExitCode run_bench(const BenchArguments& arguments, const Session& session) {
  if (!arguments.cell.empty()) return measure_one_cell(arguments.cell, session.console);
  std::vector<speed::Accuracy> accuracy;
  std::vector<std::string> notes, audited;
  if (!arguments.accuracy.empty()) {
    FoundRuns found = find_runs(arguments.accuracy);
    accuracy = accuracy_of(found.runs);
    notes = std::move(found.notes);
    for (const speed::Accuracy& a : accuracy) audited.push_back(a.design);
    if (audited.empty()) {
      throw base::usage_error("bench",
                              "expected audits of designs that have names (`kvphase presets`), got "
                              "none in {}",
                              fmt::join(arguments.accuracy, ", "));
    }
  }
  const speed::BenchOptions options = bench_options(arguments, audited);
  std::optional<base::NewFolder> folder;  // made before the measurement, seen when all is in it
  if (!arguments.out.empty()) folder.emplace(arguments.out, "bench");
  record::RunContext context = record::make_context();
  context.command = session.command_line;
  context.threads = options.threads;
  const base::Stopwatch watch;
  CellsOutcome outcome = measure_cells(options, session.console);
  if (outcome.bench.done.empty()) base::stop_if_requested("bench");
  outcome.bench.accuracy = std::move(accuracy);
  if (outcome.interrupted) {
    context.warnings.push_back(
        "interrupted: what was measured until then is kept, the rest is listed as left out");
  }
  record::Findings findings = speed::findings_of(outcome.bench, options, std::move(context));
  findings.notes.insert(findings.notes.end(), notes.begin(), notes.end());
  // First on the terminal: should the disk be full, it is there.
  session.console.result(arguments.json
                             ? report::findings_json(findings)
                             : report::findings_text(findings, session.console.color_on_stdout()));
  if (folder) {
    report::write_findings(folder->part(), findings);
    folder->publish();
  }
  session.console.progress(fmt::format("{} cells measured, {} left out, in {}",
                                       outcome.bench.done.size(), outcome.bench.left_out.size(),
                                       base::format_duration(watch.seconds())));
  if (folder) {
    session.console.progress(
        fmt::format("report: {}", (std::filesystem::path(arguments.out) / "report.html").string()));
  }
  if (outcome.interrupted) return kInterrupted;
  if (outcome.failed) return kEnvironment;
  if (outcome.bench.done.empty()) return kInconclusive;
  return caches_agree(outcome.bench) ? kSuccess : kRequirementNotMet;
}

}  // namespace

Action add_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  declare_bench(app, *arguments);
  return [arguments](const Session& session) { return run_bench(*arguments, session); };
}

}  // namespace kvphase::cli
