// Sizes of each run as bars with its bounds, curves of all runs, and shades of the agreement.
function drawRunSizes() {
  const place = byId("sizes-all");
  place.replaceChildren();
  for (const run of data.sizes) {
    const home = el("div", { className: "chart" });
    place.append(home);
    const most = Math.max(...run.counts, 1), near = run.upper !== null && run.upper <= 2.5 * most;
    const ends = `${count(Math.min(...run.counts))} to ${count(Math.max(...run.counts))}`;
    const f = frame(home, { title: run.name, low: 0, n: run.counts.length, height: 136,
      high: 1.06 * Math.max(most, run.lower || 0, near ? run.upper : 0), label: `Sizes of ${run.name}: ${ends}` });
    bars(f, run.counts, () => "dots", 0);
    for (const bound of [run.lower, near ? run.upper : null]) {
      if (bound !== null) boundLine(f, run.counts.map(() => bound));
    }
    under(f, ends + (run.bounds === "none" ? "" : `; bounds ${run.bounds}`));
    explain(home, f, (i) => [el("strong", {}, run.name), el("div", {}, `size ${count(run.counts[i])}`),
      el("div", {}, `bounds ${run.bounds}`)], null);
  }
}

function drawRuns() {
  drawRunSizes();
  drawCurves();
}

for (const cell of document.querySelectorAll("[data-share]")) {
  cell.style.setProperty("--share", cell.dataset.share);
}
drawRuns();
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  drawRuns();
});
