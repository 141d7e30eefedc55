// A page of figures and words in every view that readers have: what check_report and check_findings share.
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {until} from "./browser.mjs";
import {check, check_quiet, folder} from "./checks.mjs";

// Runs in the page. Colours are read as the browser computed them.
const observe = (maps) => `(() => {
  const maps = ${JSON.stringify(maps)};  // their colours are a scale, no marks on paper
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const luminance = (text) => {
    const [r, g, b] = rgb(text).map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const contrast = (text) => {
    const other = luminance(text);
    return (Math.max(paper, other) + 0.05) / (Math.min(paper, other) + 0.05);
  };
  const figures = {};
  let weakest_mark = 99, weakest_text = 99, widest = 0;
  for (const figure of document.querySelectorAll("figure")) {
    const count = (kind) => [...figure.querySelectorAll("svg .role-mark." + kind)]
        .reduce((sum, g) => sum + g.children.length, 0);
    figures[figure.id] = {points: count("mark-symbol"), rules: count("mark-rule"), bars: count("mark-rect")};
    const marks = maps.includes(figure.id) ? [] :
        figure.querySelectorAll(".role-mark.mark-symbol path, .role-mark.mark-rect path");
    for (const mark of marks) {
      weakest_mark = Math.min(weakest_mark, contrast(getComputedStyle(mark).fill));
    }
    for (const text of figure.querySelectorAll("svg text")) {
      weakest_text = Math.min(weakest_text, contrast(getComputedStyle(text).fill));
    }
    const svg = figure.querySelector("svg");
    if (svg) widest = Math.max(widest, svg.getBoundingClientRect().right);
  }
  for (const element of document.querySelectorAll("h1, h2, p, dd, dt, figcaption, summary, td, th, li, small")) {
    weakest_text = Math.min(weakest_text, contrast(getComputedStyle(element).color));
  }
  return {
    figures, weakest_mark, weakest_text, paper, widest,
    columns: document.documentElement.scrollWidth,
    unlabelled: [...document.querySelectorAll(".chart")]
        .filter((chart) => !(chart.getAttribute("aria-label") ?? "").includes(":")).length,
    tables: [...document.querySelectorAll("figure details table")].length,
    scripts: document.scripts.length,
    errors: document.documentElement.dataset.errors ?? "",
    heading: document.querySelector("h1").textContent,
  };
})()`;

const views = [
  {name: "desktop light", width: 1200, scheme: "light"},
  {name: "desktop dark", width: 1200, scheme: "dark"},
  {name: "phone light", width: 390, scheme: "light", phone: true},
  {name: "phone dark", width: 390, scheme: "dark", phone: true},
  {name: "paper", width: 700, scheme: "print"},
];
const all_views = views.map((view) => view.name);

// Opens FOLDER/name/report.html. marks: {points, rules, bars} by figure; maps: the figures whose bars are cells.
export async function check_page(browser, name, {marks, heading, maps = []}, names = all_views) {
  const count = Object.keys(marks).length;
  const url = pathToFileURL(resolve(join(folder, name, "report.html"))).href;
  for (const view of views.filter((view) => names.includes(view.name))) {
    const where = `${name}, ${view.name}`;
    const page = await browser.open(url, view);
    const all = `${count}/${count}`;
    const drawn = () => page.evaluate("document.documentElement.dataset.charts ?? '0/0'");
    await until(async () => await drawn() === all, 60000);  // a busy machine is no failure
    check(where, "charts drawn", await drawn(), all);
    const seen = await page.evaluate(observe(maps));
    for (const [figure, expected] of Object.entries(marks)) {
      check(`${where}, ${figure}`, "marks", seen.figures[figure], expected);
    }
    check(where, "number of figures", Object.keys(seen.figures).length, count);
    check(where, "errors on the page", seen.errors, "");
    check(where, "heading", seen.heading, heading);
    check(where, "figures without words", seen.unlabelled, 0);
    check(where, "tables beside the figures", seen.tables, count);
    check(where, "scripts", seen.scripts, count > 0 ? count + 3 : 0);
    check(where, `a page no wider than the screen (is ${seen.columns})`, seen.columns <= view.width, true);
    check(where, "figures inside the screen", seen.widest <= view.width, true);
    check(where, "a dark page", seen.paper < 0.5, view.scheme === "dark");
    // Web Content Accessibility Guidelines: 4.5 for text, 3 for marks.
    check(where, `text contrast of 4.5 (is ${seen.weakest_text.toFixed(2)})`, seen.weakest_text >= 4.5, true);
    check(where, `mark contrast of 3 (is ${seen.weakest_mark.toFixed(2)})`, seen.weakest_mark >= 3, true);
    check_quiet(where, page, url);
    if (view.scheme === "light") await check_resize(page, where, count);
    await page.close();
  }
}

// A window made narrow must take its charts along.
async function check_resize(page, where, count) {
  if (count === 0) return;
  await page.send("Emulation.setDeviceMetricsOverride",
                  {width: 500, height: 900, deviceScaleFactor: 1, mobile: false});
  const narrow = "Math.max(...[...document.querySelectorAll('svg')].map((s) => s.getBoundingClientRect().right)) <= 500";
  check(where, "charts that follow the window", await until(() => page.evaluate(narrow), 30000), true);
}
