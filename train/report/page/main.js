// Start everything; draw the charts again when the page gets another width.
const known = data.maps !== null;
function drawAll() {
  drawSizes();
  drawPrices();
  drawCurves();
  if (known) drawMargins();
}
if (known) for (const section of document.querySelectorAll("[data-known]")) section.hidden = false;
drawAll();
if (known) {
  startMap();
  startRows();
  startClusters();
  if (data.images.length) startGallery();
  else byId("gallery").hidden = true;
  startConfusion();
  startAlike();
}
byId("order").addEventListener("change", () => { drawSizes(); drawPrices(); });
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  drawAll();
  if (known) fillTable();
});
