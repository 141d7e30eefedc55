// kvphase analyze: a verdict and a report from results that already exist.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "audit/analysis.h"
#include "audit/confirm.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/command.h"
#include "record/import.h"
#include "report/junit.h"
#include "report/terminal.h"
#include "report/write.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

struct AnalyzeOptions {
  fs::path file;
  record::ImportOptions import;
  audit::AnalysisOptions analysis;
  fs::path out;
  fs::path confirm;
  fs::path junit;
  std::vector<std::string> require;
  bool json = false;
  bool details = false;
};

// A folder name out of a model's name: letters, digits and dots stay, the rest becomes one dash.
std::string folder_name(const record::Dataset& data) {
  std::string name;
  const std::string text =
      data.padding.empty() ? data.name : fmt::format("{}-{}", data.name, data.padding);
  for (const char c : text) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (keep) {
      name.push_back(c);
    } else if (!name.empty() && name.back() != '-') {
      name.push_back('-');
    }
  }
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name.empty() ? "result" : name;
}

void check_window(const record::Dataset& data, const audit::AnalysisOptions& options) {
  if (!options.window || options.stride || data.stride) return;
  throw base::usage_error("analyze",
                          "expected --stride beside --window {}, got a file that tells no stride; "
                          "the boundary phase is known where W = S",
                          *options.window);
}

record::Result analyse_one(const record::Dataset& data, const AnalyzeOptions& options,
                           const std::vector<audit::Requirement>& requirements,
                           const Session& session) {
  audit::AnalysisOptions analysis = options.analysis;
  analysis.requirements = requirements;
  analysis.context = record::make_context();
  analysis.context.command = session.command_line;
  analysis.context.model_name = data.name;
  analysis.context.model_kind = "data";
  for (const std::string& note : data.notes) session.console.progress(note);
  return audit::analyse(data, analysis);
}

ExitCode analyze(const AnalyzeOptions& options, const Session& session) {
  const Console& console = session.console;
  std::vector<audit::Requirement> requirements;
  for (const std::string& text : options.require) {
    requirements.push_back(audit::parse_requirement(text));
  }
  const std::vector<record::Dataset> list = record::import_results(options.file, options.import);
  for (const record::Dataset& data : list) check_window(data, options.analysis);
  std::optional<record::Dataset> fresh;
  if (!options.confirm.empty()) {
    std::vector<record::Dataset> second = record::import_results(options.confirm, options.import);
    if (list.size() > 1 || second.size() > 1) {
      throw base::usage_error("analyze",
                              "expected one model in each file with --confirm, got {} and {}; "
                              "choose it with --model",
                              list.size(), second.size());
    }
    fresh = std::move(second.front());
    for (const std::string& note : fresh->notes) console.progress(note);
  }
  // Refused before the work is done, written after it.
  if (!options.out.empty()) base::check_new_folder(options.out, "analyze");
  const std::string& mitigation = list.front().mitigation;
  console.progress(fmt::format("{}: read as {}{}", options.file.string(), list.front().origin,
                               mitigation.empty() ? "" : ", mitigation " + mitigation));
  ExitCode code = kSuccess;
  base::Json all = base::Json::array();
  std::vector<report::JunitSuite> suites;
  std::vector<std::string> printed;
  std::vector<std::pair<std::string, record::Result>> reports;  // folder's name inside --out
  for (const record::Dataset& data : list) {
    record::Result result = analyse_one(data, options, requirements, session);
    if (fresh) {
      result.confirmation = audit::confirm(result, data, *fresh, options.analysis.coverage);
      if (result.confirmation->outcome != "confirmed") code = worse_of(code, kInconclusive);
    }
    code = worse_of(code, exit_code_of(result));
    if (!options.junit.empty()) suites.push_back({.result = result});
    if (!options.out.empty()) {
      reports.emplace_back(list.size() == 1 ? "" : folder_name(data), result);
    }
    if (options.json) {
      if (list.size() > 1) {
        all.push_back(record::to_json(result));
      } else {
        printed.push_back(report::result_json(result));
      }
    } else if (list.size() > 1) {
      printed.push_back(fmt::format("{}: {}\n", result.title, result.verdict.sentence));
      for (const record::Requirement& r : result.requirements) {
        printed.push_back(fmt::format("  {} {}: {}\n", r.text, r.outcome, r.sentence));
      }
    } else {
      printed.push_back(report::terminal_report(
          result, {.color = console.color_on_stdout(), .details = options.details}));
    }
  }
  // The folder appears when nothing can fail any more: what was stopped can be run again.
  std::optional<base::NewFolder> folder;
  const auto inside = [](const fs::path& out, const std::string& name) {
    return name.empty() ? out : out / name;
  };
  if (!reports.empty()) folder.emplace(options.out, "analyze");
  for (const auto& [name, result] : reports) {
    report::write_report(inside(folder->part(), name), result);
  }
  for (const std::string& text : printed) console.result(text);
  if (!options.junit.empty()) {
    base::write_file_atomically(options.junit, report::junit_xml(suites));
  }
  if (options.json && list.size() > 1) {
    console.result(all.dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n");
  }
  console.finish();
  if (folder) folder->publish();
  for (const auto& [name, result] : reports) {
    console.progress(fmt::format("report in {}", inside(options.out, name).string()));
  }
  return code;
}

void declare(CLI::App& app, AnalyzeOptions& o) {
  app.add_option("file", o.file,
                 "Counts (JSON, CSV), rows (CSV, JSON lines), a kvphase run folder or journal, "
                 "lm-eval samples, RULER predictions")
      ->required();
  app.add_option("--modulus", o.import.modulus,
                 "R: residues are the target's position mod R (default: the file's, else 24)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{100000}));
  app.add_option("--stride", o.analysis.stride, "S of the model, to fold the residues by")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{100000}));
  app.add_option("--window", o.analysis.window, "W of the model: with W = S phase S-1 is marked")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  app.add_option("--model", o.import.model, "Only this model of a file with several");
  app.add_option("--require", o.require, kRequireHelp)->type_name("WHAT")->allow_extra_args(false);
  app.add_option("--confirm", o.confirm,
                 "Results of fresh items: the gap of the phases that FILE shows as worst and best, "
                 "measured there without bias (exit 3 when it does not hold)");
  app.add_flag("--details", o.details,
               "Also: every phase (without a stride, residue) against the worst, and how far they "
               "differ beyond noise; always in --json and --out");
  app.add_flag("--json", o.json, "The result object on stdout (a list for several models)");
  app.add_option("--out", o.out, "New folder for result.json, residues.csv and the report");
  app.add_option("--junit", o.junit, kJunitHelp)->type_name("FILE");
  app.add_option("--seed", o.analysis.seed, "Of permutations and bootstrap; same seed, same bytes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--permutations", o.analysis.permutations,
                 "More: smaller p-values can be told apart")
      ->check(CLI::Range(std::int64_t{99}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--replicates", o.analysis.replicates, "Of the bootstrap")
      ->check(CLI::Range(std::int64_t{100}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--min-accuracy", o.analysis.min_accuracy,
                 "Below this mean a flat curve is reported as not learned (0 to 1)")
      ->check(CLI::Range(0.0, 1.0));
  const char* columns = "Columns of item-level data (JSON: dotted paths); guessed when not given";
  app.add_option("--position", o.import.position, "Target's token position")->group(columns);
  app.add_option("--residue", o.import.residue, "Position mod R, where there is no position")
      ->group(columns);
  app.add_option("--item", o.import.item, "What was asked, the same at every position")
      ->group(columns);
  app.add_option("--correct", o.import.correct, "Right or wrong")->group(columns);
  app.add_option("--score", o.import.score, "A score, larger is better")->group(columns);
  app.add_option("--logprob", o.import.logprob, "Log-probability of the right answer")
      ->group(columns);
  app.add_option("--margin", o.import.margin, "Its lead over the best wrong answer")
      ->group(columns);
  app.add_option("--repeat", o.import.repeat, "Number of an unchanged repetition, 0 for the first")
      ->group(columns);
  app.add_option("--positions", o.import.positions_file,
                 "RULER: the data set with token_position_answer")
      ->group(columns);
}

}  // namespace

Action add_analyze(CLI::App& app) {
  const auto options = std::make_shared<AnalyzeOptions>();
  declare(app, *options);
  return [options](const Session& session) { return analyze(*options, session); };
}

}  // namespace kvphase::cli
