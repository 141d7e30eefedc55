// Draws every chart of the page and says on the root element what came of it:
// data-charts="drawn/all", data-errors="what failed" (absent when nothing did).
"use strict";
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  let drawn = 0;
  const failed = (where, error) => {
    root.dataset.errors = (root.dataset.errors || "") + where + ": " + error + "\n";
  };
  window.addEventListener("error", (event) => failed("page", event.message));
  root.dataset.charts = "0/" + charts.length;
  for (const chart of charts) {
    const id = chart.closest("figure").id;
    const give_up = (error) => {
      failed(id, error);
      chart.textContent = "This figure could not be drawn; its table holds the same numbers.";
    };
    try {
      const spec = JSON.parse(chart.parentElement.querySelector("script").textContent);
      const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), {renderer: "svg"});
      view.initialize(chart).runAsync().then(() => {
        drawn += 1;
        root.dataset.charts = drawn + "/" + charts.length;
      }, give_up);
    } catch (error) {
      give_up(error);
    }
  }
  // Sortable tables: a click on a heading sorts by its numbers, or by its words where it has none.
  const key = (cell) => {
    const text = cell.textContent.replace("\u2212", "-");
    const [, digits, unit] = text.match(/^[<> ]*([-+]?[\d.]+)([KMB]?)/) ?? [];
    const number = parseFloat(digits) * ({K: 1e3, M: 1e6, B: 1e9}[unit] ?? 1);
    return {text, number, known: !Number.isNaN(number)};
  };
  for (const table of document.querySelectorAll(".sortable table")) {
    [...table.querySelectorAll("thead th")].forEach((head, column, heads) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].map((row) => ({row, ...key(row.cells[column])}));
        rows.sort((a, b) => {
          if (a.known !== b.known) return a.known ? -1 : 1;  // unknown last, both ways
          const order = a.known ? a.number - b.number : a.text.localeCompare(b.text);
          return up ? order : -order;
        });
        table.tBodies[0].append(...rows.map((r) => r.row));
      });
    });
  }
  // Tables that wait behind a click on the screen belong on paper.
  const details = [...document.querySelectorAll("details")];
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = details.filter((d) => !d.open);
    for (const d of closed) d.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const d of closed) d.open = false;
  });
})();
