// Opens the pages of knockout, gates, cycle, readout and theory in a real headless browser and checks what a reader would see.
// Usage: check_findings.mjs BROWSER FOLDER NAME..., where FOLDER/NAME was written by one of those commands.
// Exit code 0: all checks passed; 1: some failed, each is printed; 2: the browser is missing.
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {check, folder, run_checks} from "./checks.mjs";
import {check_page} from "./report_page.mjs";

// What each figure must hold, counted from the record, not from the page.
function expected_marks(record) {
  const marks = {};
  for (const figure of record.figures) {
    const series = figure.series ?? [];
    const points = series.flatMap((s) => s.y.filter((y) => y !== null)).length;
    const rules = series.flatMap((s) => s.low.filter((low, i) => low !== null && s.high[i] !== null)).length;
    const bars = (figure.cells ?? []).flat().filter((cell) => cell !== null).length;
    marks[figure.id] = {points, rules, bars};
  }
  return marks;
}

await run_checks(async (browser) => {
  for (const name of process.argv.slice(4)) {
    const record = JSON.parse(readFileSync(join(folder, name, "result.json"), "utf8"));
    const marks = expected_marks(record);
    const sizes = Object.values(marks).map((m) => m.points + m.bars);
    check(name, "no figure without content", Math.min(1, ...sizes), 1);
    check(name, "figures, but of what has nothing to show", record.figures.length > 0,
          !/so there (are|is) no|nothing to rotate/.test(record.sentence));
    const maps = record.figures.filter((figure) => figure.kind === "heatmap").map((figure) => figure.id);
    await check_page(browser, name, {marks, maps, heading: record.sentence});
    console.log(`${name}: ${JSON.stringify(marks)}`);
  }
});
