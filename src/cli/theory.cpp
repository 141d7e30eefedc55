// kvphase theory: the idealised model of chunked compression, its two theorems checked by numbers.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/stop.h"
#include "cli/command.h"
#include "lab/theory_findings.h"
#include "lab/theory_study.h"
#include "record/context.h"
#include "report/findings.h"

namespace kvphase::cli {
namespace {

struct TheoryOptions {
  lab::StudyOptions study;
  std::uint64_t seed = 1;
  bool json = false;
  bool no_broken = false;
  std::filesystem::path out;
};

ExitCode exit_code_of(const std::vector<lab::TheoryClaim>& claims) {
  ExitCode code = kSuccess;
  for (const lab::TheoryClaim& claim : claims) {
    code = worse_of(code, claim.outcome == "holds"   ? kSuccess
                          : claim.outcome == "fails" ? kRequirementNotMet
                                                     : kInconclusive);
  }
  return code;
}

ExitCode run(TheoryOptions o, const Session& session) {
  o.study.flow.seed = o.study.rules.seed = o.seed;
  o.study.broken = !o.no_broken;
  o.study.progress = [&](const std::string& line) { session.console.progress(line); };
  lab::check(o.study, "theory");
  std::optional<base::NewFolder> folder;  // made before the study, seen when all is in it
  if (!o.out.empty()) folder.emplace(o.out, "theory");
  const lab::TheoryStudy study = lab::run_study(o.study);
  record::RunContext context = record::make_context();
  context.command = session.command_line;
  context.seed = o.seed;
  context.threads = 1;
  const record::Findings findings = lab::findings_of(study, context);
  base::stop_if_requested("theory");
  if (folder) {
    base::write_file_atomically(folder->part() / "heads.csv", lab::heads_csv(study));
    report::write_findings(folder->part(), findings);
    folder->publish();
  }
  session.console.result(o.json
                             ? report::findings_json(findings)
                             : report::findings_text(findings, session.console.color_on_stdout()));
  return exit_code_of(study.claims);
}

}  // namespace

Action add_theory(CLI::App& app) {
  const auto o = std::make_shared<TheoryOptions>();
  const auto number = [&](const char* name, auto& value, const char* what) {
    app.add_option(name, value, what)->capture_default_str();
  };
  lab::StudyOptions& s = o->study;
  number("--stride", s.setting.stride, "S, tokens of a chunk, 3 to 64");
  number("--heads", s.setting.heads, "m, heads that compress each chunk; the theorems want m < S");
  number("--records", s.setting.chunks, "L, chunks of a prompt");
  number("--vocabulary", s.setting.vocabulary, "N, tokens; all of a prompt are distinct");
  number("--beta", s.setting.beta, "Scale of the logits; above about log N one-hot is not best");
  number("--gamma", s.setting.gamma, "Scale of the attention scores");
  number("--kappa", s.kappa, "Inner product of two different tokens, for log-linear gates");
  number("--init", s.flow.init, "Standard deviation of the starts");
  number("--time", s.flow.time, "Length of the gradient flow");
  number("--tolerance", s.flow.tolerance, "Effective offsets below this are one position");
  number("--runs", s.runs, "Flows with static gates, at least 1");
  number("--other-runs", s.other_runs, "Flows of each other size; 0: none");
  number("--gated-runs", s.gated_runs, "Flows with log-linear gates, at least 1");
  number("--sgd-runs", s.sgd_runs, "SGD runs with log-linear gates, at least 1");
  number("--rules", s.rules.random, "Random rules per setting of Theorem 1's 54, at least 1");
  number("--optimised", s.rules.optimised, "Locally optimised rules per setting, at least 1");
  number("--seed", o->seed, "Of every start, rule and prompt");
  app.add_flag("--no-broken", o->no_broken, "Do not break the assumptions");
  app.add_flag("--json", o->json, "result.json's text instead of tables");
  app.add_option("--out", o->out,
                 "New folder for result.json, report.html, report.txt and heads.csv");
  return [o](const Session& session) { return run(*o, session); };
}

}  // namespace kvphase::cli
