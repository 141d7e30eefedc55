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
