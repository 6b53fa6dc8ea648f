// Start everything; draw the charts again when the page gets another width.
drawCharts();
startMap();
startRows();
startClusters();
byId("order").addEventListener("change", () => { drawSizes(); drawPrices(); });
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) { width = innerWidth; drawCharts(); fillTable(); }
});
