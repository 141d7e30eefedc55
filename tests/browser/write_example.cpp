// Writes the reports of the example results, for the browser test. Usage: write_example FOLDER
#include <algorithm>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "report/run_comparison_html.h"
#include "report/write.h"
#include "tests/support/example_result.h"
#include "tests/support/example_runs.h"

namespace {

using kvphase::record::Result;

// Everything that a plain example lacks: warnings, missing replies, no test, text from outside.
Result troubled() {
  Result r = kvphase::test::example_control();
  r.title = "model <img src=x onerror=alert(1)> & </script><script>alert(2)</script>";
  r.context.model_name = "a-very-long-checkpoint-name/without-any-spaces/" + std::string(120, 'x');
  r.context.command = "kvphase audit '</code><b>' " + std::string(200, 'y');
  r.context.warnings = {"36 prompts of 1,200 got no usable reply", "the machine was <busy>"};
  r.verdict = {.kind = kvphase::record::VerdictKind::kNotLearned,
               .sentence =
                   "The model has not learned the task: 4.2% against 1.6% by chance, so a "
                   "flat curve means nothing.",
               .next_step = "Train longer, then audit again."};
  for (std::size_t i = 0; i < r.residues.size(); i += 2) {
    kvphase::record::Group& g = r.residues[i];
    g.n -= 3;
    g.correct = std::min(g.correct.value_or(0), g.n);
  }
  r.residues[4] = {.index = 4, .planned = 50};
  r.design.missing = 33 + 50;
  r.design.scored -= r.design.missing;
  r.positions.ok = false;
  r.positions.mean_high = 183.25;
  r.positions.note = "Residue 4 has no prompts.";
  r.folded.reset();
  r.scores.clear();
  r.period.value.reset();
  r.period.p_value.reset();
  r.period.candidates.clear();
  r.period.reason = "too few items for a test";
  r.mean.low.reset();
  r.mean.high.reset();
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  using namespace kvphase;
  Result controlled = test::example_result();
  controlled.contrasts = test::example_contrasts();
  report::write_report(folder / "controlled", controlled, test::example_control());
  report::write_report(folder / "alone", test::example_control());
  report::write_report(folder / "troubled", troubled());
  report::write_report(folder / "empty", record::Result{});
  const record::RunComparison runs = test::example_runs();
  std::filesystem::create_directories(folder / "runs");
  base::write_file_atomically(folder / "runs" / "comparison.json",
                              record::to_json(runs).dump() + "\n");
  base::write_file_atomically(folder / "runs" / "compare.html", report::run_comparison_html(runs));
  return 0;
}
