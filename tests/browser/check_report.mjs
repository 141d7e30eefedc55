// Opens reports in a real headless browser and checks what a reader would see.
// Usage: check_report.mjs BROWSER FOLDER, where FOLDER was written by write_example.
// Exit code 0: all checks passed; 1: some failed, each is printed; 2: the browser is missing.
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {folder, run_checks} from "./checks.mjs";
import {check_page} from "./report_page.mjs";

// What each figure must hold, counted from the record, not from the page.
function expected_marks(result, control) {
  const present = (groups) => groups.filter((g) => g.accuracy !== null);
  const whiskers = (groups) => groups.filter((g) => g.low !== null && g.high !== null);
  const figures = {};
  if (present(result.residues).length > 0) {
    const groups = [...result.residues, ...(control?.residues ?? [])];
    figures.curve = {points: present(groups).length, rules: whiskers(groups).length, bars: 0};
  }
  if (result.folded) {
    const groups = [...result.folded.phases, ...(control?.folded?.phases ?? [])];
    figures.phases = {points: 0, rules: whiskers(groups).length + 1, bars: present(groups).length};
  }
  if (result.period.candidates.length > 0) {
    const count = result.period.candidates.length + (control?.period.candidates.length ?? 0);
    figures.periodogram = {points: count, rules: count + 1, bars: 0};
  }
  for (const score of result.scores) {
    const count = score.residue_means.filter((mean) => mean !== null).length;
    figures["score-" + score.name] = {points: count, rules: 0, bars: 0};
  }
  return figures;
}

async function check_report(browser, name, control, names) {
  const record = (which) => JSON.parse(readFileSync(join(folder, which, "result.json"), "utf8"));
  const result = record(name);
  await check_page(browser, name, {marks: expected_marks(result, control ? record(control) : null),
                                   heading: result.verdict.sentence || "Inconclusive"}, names);
}

await run_checks(async (browser) => {
  await check_report(browser, "controlled", "alone");
  await check_report(browser, "alone", null, ["desktop light", "phone dark"]);
  await check_report(browser, "troubled", null);
  await check_report(browser, "empty", null, ["desktop light", "phone dark"]);
});
