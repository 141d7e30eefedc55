// Opens compare.html at full size (the paper's designs and twins, three seeds, three paddings) in a real headless browser.
// Usage: check_runs.mjs BROWSER FOLDER, where FOLDER was written by write_example.
// Exit code 0: all checks passed; 1: some failed, each is printed; 2: the browser is missing.
import {readFileSync} from "node:fs";
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {until} from "./browser.mjs";
import {check, check_quiet, folder, run_checks} from "./checks.mjs";

const paddings = ["prefix", "in-sequence", "around-target"];

// The page shows designs as they are: twins on aligned and staggered grids by stride, then the others.
function cost_panels(runs) {
  const designs = [...new Set(runs.map((run) => run.design))];
  const stride = (design) => runs.find((run) => run.design === design).stride;
  const paired = designs.filter((design) => designs.includes(design + "-staggered")
      || designs.includes(design.replace(/-staggered$/, "")) && design.endsWith("-staggered"));
  const strides = [...new Set(paired.map(stride))].sort((a, b) => a - b);
  return [...strides.map((s) => [`Aligned and staggered grids, stride ${s}`, paired.filter((d) => stride(d) === s).length]),
          ["Designs as they are", designs.length - paired.length]];
}

// What the page must hold, counted from the record: panels by figure, with the points of each.
function expected_figures(record) {
  const figures = {};
  for (const padding of paddings) {
    const runs = record.runs.filter((run) => run.audit.padding === padding);
    const designs = [...new Set(runs.map((run) => run.design))];
    const of = (design) => runs.filter((run) => run.design === design);
    const points = (size) => designs.map((design) => [design, of(design)])
        .map(([design, list]) => [design, list.length * size(list[0])]).filter(([, count]) => count > 0);
    figures["range-" + padding + "-24"] = [["", runs.length * 2]];
    figures["map-" + padding + "-24"] = [["", 0]];
    figures["curves-" + padding + "-24"] = points(() => 24);
    figures["phases-" + padding + "-24"] = points((run) => run.stride ?? 0);
    const ours = runs.filter((run) => !run.published);
    figures["cost-" + padding + "-24"] = cost_panels(ours);
  }
  return figures;
}

const observe = `(() => {
  const luminance = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => Number(v) / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const contrast = (text) => {
    const other = luminance(text);
    return (Math.max(paper, other) + 0.05) / (Math.min(paper, other) + 0.05);
  };
  const figures = {};
  let weakest = 99, smallest = 99, narrowest = 9999, widest = 0, overlaps = 0, cells = 0;
  for (const figure of document.querySelectorAll("figure")) {
    const charts = [...figure.querySelectorAll(".chart")];
    figures[figure.id] = charts.map((chart) => [
      chart.parentElement.querySelector("h3")?.textContent ?? "",
      [...chart.querySelectorAll("svg .role-mark.mark-symbol")].reduce((sum, g) => sum + g.children.length, 0)]);
    if (figure.id.startsWith("map-")) {
      cells += figure.querySelectorAll("svg .role-mark.mark-rect path").length;
    }
    for (const chart of charts) {
      const box = chart.getBoundingClientRect();
      narrowest = Math.min(narrowest, box.width);
      const svg = chart.querySelector("svg");
      widest = Math.max(widest, svg.getBoundingClientRect().right);
      const shrunk = svg.getBoundingClientRect().width / Number(svg.getAttribute("width"));
      for (const text of chart.querySelectorAll("svg text")) {
        weakest = Math.min(weakest, contrast(getComputedStyle(text).fill));
        smallest = Math.min(smallest, shrunk * parseFloat(getComputedStyle(text).fontSize));
      }
      for (const axis of chart.querySelectorAll(".role-axis-label")) {
        const boxes = [...axis.querySelectorAll("text")].filter((t) => getComputedStyle(t).opacity !== "0")
            .map((t) => t.getBoundingClientRect());
        for (let i = 1; i < boxes.length; ++i) {
          const [a, b] = [boxes[i - 1], boxes[i]];
          const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (across > 1 && down > 4) ++overlaps;
        }
      }
    }
  }
  for (const element of document.querySelectorAll("h1, h2, h3, p, dd, dt, figcaption, summary, td, th, li, small, a")) {
    weakest = Math.min(weakest, contrast(getComputedStyle(element).color));
  }
  return {
    figures, weakest, smallest, narrowest, widest, overlaps, cells, paper,
    columns: document.documentElement.scrollWidth,
    unlabelled: [...document.querySelectorAll(".chart")]
        .filter((chart) => !(chart.getAttribute("aria-label") ?? "").includes(":")).length,
    untold: [...document.querySelectorAll("figure")].filter((f) => !f.querySelector("details table tbody tr")).length,
    errors: document.documentElement.dataset.errors ?? "",
    heading: document.querySelector("h1").textContent,
    rows: document.querySelectorAll("#runs tbody tr").length,
    pairs: document.querySelectorAll("#pairs tbody tr").length,
  };
})()`;

// Clicks the heading of the worst residues in the first table and reads the column.
const sorted_column = `(() => {
  const table = document.querySelector(".sortable table");
  const heads = [...table.querySelectorAll("thead th")];
  const column = heads.findIndex((head) => head.textContent.startsWith("worst"));
  heads[column].querySelector("button").click();
  return [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[column].textContent));
})()`;

const views = [
  {name: "desktop light", width: 1280, scheme: "light"},
  {name: "desktop dark", width: 1280, scheme: "dark"},
  {name: "phone light", width: 390, scheme: "light", phone: true},
  {name: "paper", width: 700, scheme: "print"},
];

async function check_page(browser) {
  const record = JSON.parse(readFileSync(join(folder, "comparison.json"), "utf8"));
  const figures = expected_figures(record);
  const count = Object.values(figures).flat().length;
  const designs = figures["curves-prefix-24"].length;
  check("record", `a full page (is ${record.runs.length} runs of ${designs} designs)`,
        designs >= 26 && record.runs.length >= 26 * 3 * paddings.length, true);
  const url = pathToFileURL(resolve(folder, "compare.html")).href;
  for (const view of views) {
    const where = `compare, ${view.name}`;
    const begun = Date.now();
    const page = await browser.open(url, view);
    const all = `${count}/${count}`;
    const drawn = () => page.evaluate("document.documentElement.dataset.charts ?? '0/0'");
    await until(async () => await drawn() === all, 120000);  // a busy machine is no failure
    check(where, "charts drawn", await drawn(), all);
    console.log(`${where}: ${count} charts in ${((Date.now() - begun) / 1000).toFixed(1)} s`);
    const seen = await page.evaluate(observe);
    for (const [figure, panels] of Object.entries(figures)) {
      check(`${where}, ${figure}`, "panels and points", seen.figures[figure], panels);
    }
    check(where, "number of figures", Object.keys(seen.figures).length, Object.keys(figures).length);
    const in_map = (padding) => new Set(record.runs.filter((run) => run.audit.padding === padding)
        .map((run) => run.design + run.published)).size * 24;
    check(where, "cells of the maps", seen.cells, paddings.map(in_map).reduce((a, b) => a + b));
    check(where, "rows of runs", seen.rows, record.runs.length);
    check(where, "rows of paired tests", seen.pairs, record.pairs.length);
    check(where, "errors on the page", seen.errors, "");
    check(where, "heading", seen.heading, record.sentence);
    check(where, "charts without words", seen.unlabelled, 0);
    check(where, "figures without a table", seen.untold, 0);
    check(where, "axis labels that overlap", seen.overlaps, 0);
    check(where, `panels of at least 150 pixels (are ${seen.narrowest.toFixed(0)})`, seen.narrowest >= 150, true);
    check(where, `chart text of at least 9 pixels (is ${seen.smallest.toFixed(1)})`, seen.smallest >= 9, true);
    check(where, `a page no wider than the screen (is ${seen.columns})`, seen.columns <= view.width, true);
    check(where, "figures inside the screen", seen.widest <= view.width, true);
    check(where, "a dark page", seen.paper < 0.5, view.scheme === "dark");
    check(where, `text contrast of 4.5 (is ${seen.weakest.toFixed(2)})`, seen.weakest >= 4.5, true);
    check_quiet(where, page, url);
    if (view.name === "desktop light") {
      const up = await page.evaluate(sorted_column);
      check(where, "a table sorted by a click", up, [...up].sort((a, b) => a - b));
      const down = await page.evaluate(sorted_column);
      check(where, "the other way by a second", down, [...up].sort((a, b) => b - a));
    }
    await page.close();
  }
}

await run_checks(check_page);
