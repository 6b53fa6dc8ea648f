// The map: centers as disks whose area is the size, rows as dots; wheel, pinch, drag, keys, search.
const canvas = byId("canvas"), stage = byId("stage"), tip = byId("tip");
const pen = canvas.getContext("2d");
const mapped = data.maps || { all: [], cluster: "" };
const dotCluster = unpacked(mapped.cluster, Uint32Array);
const layouts = mapped.all.map((each) => ({ ...each, space: k <= 3000 ? spacing(each) : 0,
  dots: unpacked(each.dots, Uint16Array) }));
let layout = layouts[0], view = { x: 0.5, y: 0.5, zoom: 1 }, hovered = -1, found = null;
const mean = data.counts.reduce((a, b) => a + b, 0) / k;

const extent = () => Math.min(stage.clientWidth, stage.clientHeight) * 0.9 * view.zoom;
const toScreen = (x, y) => [stage.clientWidth / 2 + (x - view.x) * extent(),
  stage.clientHeight / 2 + (y - view.y) * extent()];
const fromScreen = (sx, sy) => [view.x + (sx - stage.clientWidth / 2) / extent(),
  view.y + (sy - stage.clientHeight / 2) / extent()];

// The usual distance of a center to its nearest neighbor, in units of the map.
function spacing({ x, y }) {
  const least = x.map((_, i) => {
    let best = Infinity;
    for (let j = 0; j < k; j++) if (j !== i) best = Math.min(best, Math.hypot(x[i] - x[j], y[i] - y[j]));
    return best;
  }).sort((a, b) => a - b);
  return least[k >> 1];
}

function radius(i) {
  const most = 0.4 * layout.space * Math.min(stage.clientWidth, stage.clientHeight) * 0.9;
  const base = Math.max(2.2, Math.min(14, most)) * Math.min(3, view.zoom ** 0.45);
  return Math.max(2, base * Math.sqrt(data.counts[i] / mean));
}

let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["up", "down", "free", "dots", "ink", "card", "accent", "faint"]) {
    colors[name] = style.getPropertyValue("--" + name).trim();
  }
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawMap(); });
}

function drawMap() {
  const w = stage.clientWidth, h = stage.clientHeight, scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, w, h);
  const focus = hovered >= 0 ? hovered : chosen;
  drawCenters(w, h, focus);
  drawDots(w, h, focus);
  drawRings(focus);
  drawNumbers(w, h, focus);
}

function drawDots(w, h, focus) {
  const { dots } = layout, size = Math.min(2.6, 1.1 + 0.25 * view.zoom);
  for (const own of [false, true]) {
    pen.fillStyle = own ? colors.accent : colors.ink;  // seen on disks of any color
    pen.globalAlpha = own ? 0.9 : focus >= 0 ? 0.25 : 0.5;
    const side = own ? size + 1.4 : size;
    for (let j = 0; j < dotCluster.length; j++) {
      if ((dotCluster[j] === focus) !== own) continue;
      const [x, y] = toScreen(dots[2 * j] / 65535, dots[2 * j + 1] / 65535);
      if (x > -4 && y > -4 && x < w + 4 && y < h + 4) pen.fillRect(x - side / 2, y - side / 2, side, side);
    }
  }
  pen.globalAlpha = 1;
}

function drawCenters(w, h, focus) {
  pen.lineWidth = 1;
  for (let i = 0; i < k; i++) {
    const [x, y] = toScreen(layout.x[i], layout.y[i]), r = radius(i);
    if (x < -r || y < -r || x > w + r || y > h + r) continue;
    pen.globalAlpha = found && !found.has(i) ? 0.1 : 0.6;
    pen.fillStyle = colors[state[i]];
    pen.strokeStyle = colors.card;
    pen.beginPath();
    pen.arc(x, y, r, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function drawRings(focus) {
  for (const i of [chosen, focus]) {
    if (i < 0) continue;
    const [x, y] = toScreen(layout.x[i], layout.y[i]);
    pen.strokeStyle = colors.accent;
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.arc(x, y, radius(i) + 3, 0, 2 * Math.PI);
    pen.stroke();
  }
}

// Numbers where they do not cover each other: first those asked for, then large clusters. A number
// that has no room in its disk goes beside it; of few clusters every one has its number.
const bySize = data.counts.map((_, i) => i).sort((a, b) => data.counts[b] - data.counts[a] || a - b);
function drawNumbers(w, h, focus) {
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  const first = [focus, chosen].filter((i) => i >= 0);
  const order = first.concat(bySize.filter((i) => !first.includes(i) && (!found || found.has(i))));
  const taken = new Set();
  for (const i of order) {
    const [x, y] = toScreen(layout.x[i], layout.y[i]), r = radius(i);
    if (x < 0 || y < 0 || x > w || y > h) continue;
    const half = 4 * String(i).length + 3, away = r + 8;
    const beside = [[0, -away], [0, away], [r + half, 0], [-r - half, 0]];
    const places = r < half ? beside : [[0, 0], ...beside];
    const free = places.find(([a, b]) => !cellsOf(x + a, y + b, half).some((cell) => taken.has(cell)));
    const place = free || (k <= 60 ? places[0] : null);
    if (!place) continue;
    const [nx, ny] = [x + place[0], y + place[1]];
    cellsOf(nx, ny, half).forEach((cell) => taken.add(cell));
    pen.lineWidth = 3.5;
    pen.strokeStyle = colors.card;
    pen.strokeText(i, nx, ny);
    pen.fillStyle = colors.ink;
    pen.fillText(i, nx, ny);
  }
}

// The squares of 10 pixels that a number covers.
function cellsOf(x, y, half) {
  const cells = [];
  for (let a = Math.floor((x - half) / 10); a <= Math.floor((x + half) / 10); a++) {
    for (let b = Math.floor((y - 7) / 10); b <= Math.floor((y + 7) / 10); b++) cells.push(a * 65536 + b);
  }
  return cells;
}

function nearest(sx, sy, reach) {
  let best = -1, least = Infinity;
  for (let i = 0; i < k; i++) {
    if (found && !found.has(i)) continue;
    const [x, y] = toScreen(layout.x[i], layout.y[i]);
    const away = Math.hypot(x - sx, y - sy) - radius(i);
    if (away < least) { least = away; best = i; }
  }
  return least <= reach ? best : -1;
}

function hover(i, sx, sy) {
  if (i !== hovered) { hovered = i; redraw(); }
  canvas.style.cursor = i >= 0 ? "pointer" : "grab";
  tip.hidden = i < 0;
  if (i < 0) return;
  const line = (lists.exemplars.get(i) || [])[0];
  const value = line ? valueOf(line.row, false) : null;
  tip.replaceChildren(...clusterTip(i), ...(value ? [value] : []));
  tip.style.left = Math.max(4, Math.min(stage.clientWidth - tip.offsetWidth - 4, sx + 14)) + "px";
  tip.style.top = Math.max(4, Math.min(stage.clientHeight - tip.offsetHeight - 4, sy + 14)) + "px";
}

function zoomAt(sx, sy, factor) {
  const [x, y] = fromScreen(sx, sy);
  view.zoom = Math.max(0.7, Math.min(400, view.zoom * factor));
  const [nx, ny] = fromScreen(sx, sy);
  move(x - nx, y - ny);
}

function move(dx, dy) {
  view.x = Math.max(-0.2, Math.min(1.2, view.x + dx));
  view.y = Math.max(-0.2, Math.min(1.2, view.y + dy));
  redraw();
}

function zoomMiddle(factor) { zoomAt(stage.clientWidth / 2, stage.clientHeight / 2, factor); }
function wholeMap() { view = { x: 0.5, y: 0.5, zoom: 1 }; redraw(); }

// Go to a cluster, so near that about a dozen clusters are around it.
function showOnMap(i) {
  view.x = layout.x[i];
  view.y = layout.y[i];
  view.zoom = Math.max(view.zoom, Math.min(40, Math.sqrt(k / 16)), 1);
  redraw();
}

function listenPointers() {
  const down = new Map();
  let moved = false, apart = 0;
  const local = (event) => {
    const rect = canvas.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, local(event));
    moved = down.size > 1;
    apart = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = local(event), before = down.get(event.pointerId);
    if (!before) { hover(nearest(...at, 6), ...at); return; }
    if (Math.hypot(at[0] - before[0], at[1] - before[1]) < 3 && !moved) return;
    moved = true;
    down.set(event.pointerId, at);
    if (down.size === 1) {
      move((before[0] - at[0]) / extent(), (before[1] - at[1]) / extent());
    } else {
      const [a, b] = [...down.values()], now = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (apart) zoomAt((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, now / apart);
      apart = now;
    }
  });
  const up = (event) => {
    if (down.delete(event.pointerId) && !moved && event.type === "pointerup") {
      const i = nearest(...local(event), event.pointerType === "touch" ? 18 : 6);
      if (i >= 0) choose(i);
    }
    apart = 0;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("dblclick", (event) => zoomAt(...local(event), 2));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(...local(event), Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 220));
  }, { passive: false });
}

function listenKeys() {
  const step = () => 60 / extent();
  const acts = { ArrowLeft: () => move(-step(), 0), ArrowRight: () => move(step(), 0),
    ArrowUp: () => move(0, -step()), ArrowDown: () => move(0, step()), "+": () => zoomMiddle(1.5),
    "=": () => zoomMiddle(1.5), "-": () => zoomMiddle(1 / 1.5), 0: wholeMap };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || !acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
  });
}

function search(go) {
  const text = byId("find").value, hits = matching(text);
  const asked = text.trim() !== "";
  found = asked && hits.length > 1 ? new Set(hits) : null;
  byId("found").textContent = !asked ? "" : hits.length === 0 ? "nothing found"
    : hits.length === 1 ? "cluster " + hits[0] : count(hits.length) + " clusters";
  if (asked && hits.length && (go || hits.length === 1)) {
    const next = hits.indexOf(chosen) + 1;
    choose(hits[go ? next % hits.length : 0], true);
  }
  redraw();
}

function startMap() {
  readColors();
  const select = byId("layout");
  layouts.forEach((each, i) => select.append(el("option", { value: i }, each.name)));
  select.parentElement.hidden = layouts.length < 2;
  // Few clusters do not overlap: then the honest plane comes first.
  if (layouts.length > 1 && k <= 12) select.value = 1;
  const take = () => {
    layout = layouts[select.value];
    byId("map-note").textContent = layout.note + " Disks: centers, their area is the size; dots: " +
      `${count(dotCluster.length)} rows.`;
    wholeMap();
  };
  select.addEventListener("change", take);
  take();
  byId("in").addEventListener("click", () => zoomMiddle(1.6));
  byId("out").addEventListener("click", () => zoomMiddle(1 / 1.6));
  byId("whole").addEventListener("click", wholeMap);
  byId("find").addEventListener("input", () => search(false));
  byId("find").addEventListener("keydown", (event) => event.key === "Enter" && search(true));
  listenPointers();
  listenKeys();
  new ResizeObserver(redraw).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); redraw(); });
  listeners.push((i, go) => (go && i >= 0 ? showOnMap(i) : redraw()));
}
