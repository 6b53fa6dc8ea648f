// Bars of sizes, prices and margins as SVG, drawn to the width at hand.
function niceTicks(low, high, most) {
  const span = high - low || 1;
  const unit = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => span / s <= most);
  const ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * span; v += step) ticks.push(v);
  return ticks;
}

const compact = (v) => (Math.abs(v) >= 1e4 ? v.toLocaleString("en-US", { notation: "compact" })
  : Number(v.toPrecision(6)).toLocaleString("en-US", { maximumSignificantDigits: 4 }));

// An empty frame: its svg, and functions from values to places.
function frame(place, { title, low, high, n, height, label }) {
  const width = Math.max(280, place.clientWidth), left = 52, top = 28, bottom = 22;
  const inner = width - left - 6, tall = height - top - bottom;
  const y = (v) => top + tall * (1 - (v - low) / (high - low || 1));
  const x = (i) => left + (inner * i) / n;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": label, tabindex: 0 });
  const heading = svg("text", { x: 0, y: 13, class: "title" });
  heading.textContent = title;
  root.append(heading);
  for (const tick of niceTicks(low, high, 4)) {
    root.append(svg("line", { class: "axis", x1: left, x2: width - 6, y1: y(tick), y2: y(tick) }));
    const text = svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" });
    text.textContent = compact(tick);
    root.append(text);
  }
  return { root, x, y, left, width, height, inner, n, end: height - bottom };
}

function under(f, text, anchor = "middle") {
  const at = anchor === "middle" ? f.left + f.inner / 2 : f.left;
  const made = svg("text", { x: at, y: f.height - 5, "text-anchor": anchor });
  made.textContent = text;
  f.root.append(made);
}

// One path for all bars of a kind: a thousand bars are three elements.
function bars(f, values, kindOf, zero) {
  const gap = f.inner / f.n > 4 ? 0.14 : 0;
  const paths = {};
  values.forEach((value, i) => {
    const a = f.x(i + gap / 2), b = f.x(i + 1 - gap / 2), v = f.y(value), z = f.y(zero);
    const kind = kindOf(i);
    const path = `M${a.toFixed(2)} ${z.toFixed(2)}V${v.toFixed(2)}H${b.toFixed(2)}V${z.toFixed(2)}Z`;
    paths[kind] = (paths[kind] || "") + path;
  });
  for (const [kind, d] of Object.entries(paths)) f.root.append(svg("path", { class: kind, d }));
}

// A line over the bars, with gaps where there is no bound.
function boundLine(f, values) {
  let d = "", before = null;
  values.forEach((value, i) => {
    if (value !== null) {
      const at = f.y(value).toFixed(2);
      d += before === null ? `M${f.x(i).toFixed(2)} ${at}` : `V${at}`;
      d += `H${f.x(i + 1).toFixed(2)}`;
    }
    before = value;
  });
  if (d) f.root.append(svg("path", { class: "bound", d }));
}

// Pointer and arrow keys: a small card with the numbers of a bar; a click chooses its cluster.
function explain(place, f, tell, act) {
  const tip = el("div", { className: "tip", hidden: true, role: "status" });
  const box = svg("path", { class: "here" });
  f.root.append(box);
  let at = -1;
  const show = (i) => {
    at = Math.max(0, Math.min(f.n - 1, i));
    tip.replaceChildren(...tell(at));
    tip.hidden = false;
    const scale = place.clientWidth / f.width, middle = f.x(at + 0.5) * scale;
    tip.style.left = Math.max(0, Math.min(place.clientWidth - tip.offsetWidth, middle + 12)) + "px";
    tip.style.top = "30px";
    box.setAttribute("d", `M${f.x(at)} 24V${f.end}H${f.x(at + 1)}V24Z`);
  };
  const hide = () => { tip.hidden = true; box.removeAttribute("d"); at = -1; };
  const bar = (event) => {
    const rect = f.root.getBoundingClientRect();
    const where = ((event.clientX - rect.left) / rect.width) * f.width;
    return Math.floor(((where - f.left) / f.inner) * f.n);
  };
  f.root.addEventListener("pointermove", (event) => show(bar(event)));
  f.root.addEventListener("pointerleave", hide);
  f.root.addEventListener("blur", hide);
  f.root.addEventListener("click", (event) => act && act(Math.max(0, Math.min(f.n - 1, bar(event)))));
  f.root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (step) { show(at < 0 ? 0 : at + step); event.preventDefault(); }
    if (event.key === "Enter" && at >= 0 && act) act(at);
  });
  place.replaceChildren(f.root, tip);
}

function clusterTip(i) {
  const head = el("strong", {}, "Cluster " + i);
  return [head, el("div", {}, `size ${count(data.counts[i])}, bounds ${boundsText(i)}`),
    ...(data.trained ? [el("div", {}, `by the labels of training ${count(data.trained[i])}`)] : []),
    el("div", {}, `price ${short(data.prices[i])}: ${stateWords[state[i]]}`)];
}

// The order of the bars; equal sizes by price, so that each color is in one piece.
function orders() {
  const all = data.counts.map((_, i) => i), by = byId("order").value;
  if (by === "size") all.sort((a, b) => data.counts[b] - data.counts[a] || data.prices[a] - data.prices[b] || a - b);
  if (by === "price") all.sort((a, b) => data.prices[b] - data.prices[a] || a - b);
  return all;
}

function drawSizes() {
  const order = orders(), place = byId("chart-sizes");
  const low = data.lower.filter((v) => v !== null), high = data.upper.filter((v) => v !== null);
  const most = Math.max(...data.counts, ...(data.trained || []), 1);
  // A bound far above all sizes would squeeze the bars.
  const near = high.length > 0 && Math.max(...high) <= 2.5 * most;
  const top = 1.06 * Math.max(most, ...low, ...(near ? high : []));
  const drawn = [low.length ? "lower" : "", near ? "upper" : ""].filter(Boolean);
  const lines = drawn.length ? `; dashed: ${drawn.join(" and ")} bound` : "";
  const above = high.length && !near ? ` (upper bound, ${count(Math.min(...high))} or more, is above)` : "";
  const f = frame(place, { title: `Sizes${lines}${above}`, low: 0, high: top, n: k, height: 220,
    label: `Sizes of ${k} clusters, ${count(Math.min(...data.counts))} to ${count(most)}${lines}. The table below has all numbers.` });
  bars(f, order.map((i) => data.counts[i]), (j) => state[order[j]], 0);
  if (low.length) boundLine(f, order.map((i) => data.lower[i]));
  if (near) boundLine(f, order.map((i) => data.upper[i]));
  if (data.trained) marks(f, order.map((i) => data.trained[i]));
  names(f, order);
  explain(place, f, (j) => clusterTip(order[j]), (j) => choose(order[j], true));
}

// A short stroke over each bar, at another value of the same cluster.
function marks(f, values) {
  const d = values.map((v, i) => `M${f.x(i + 0.2).toFixed(2)} ${f.y(v).toFixed(2)}H${f.x(i + 0.8).toFixed(2)}`);
  f.root.append(svg("path", { class: "trained", d: d.join("") }));
}

function names(f, order) {
  const room = f.inner / f.n;
  if (room < 22) { under(f, `${count(k)} clusters`); return; }
  order.forEach((i, j) => {
    const text = svg("text", { x: f.x(j + 0.5), y: f.height - 5, "text-anchor": "middle" });
    text.textContent = i;
    f.root.append(text);
  });
}

function drawPrices() {
  const order = orders(), place = byId("chart-prices");
  const low = Math.min(0, ...data.prices), high = Math.max(0, ...data.prices);
  if (low === high) {
    place.replaceChildren(el("p", { className: "small" }, "All prices are 0: no bound acts."));
    return;
  }
  const held = { up: 0, down: 0, free: 0 };
  state.forEach((each) => { held[each] += 1; });
  const f = frame(place, { title: `Prices: ${count(held.up)} up, ${count(held.down)} down, ${count(held.free)} at 0`,
    low, high, n: k, height: 190,
    label: `Prices from ${short(low)} to ${short(high)}. The table below has all numbers.` });
  bars(f, order.map((i) => data.prices[i]), (j) => state[order[j]], 0);
  f.root.append(svg("line", { class: "middle", x1: f.left, x2: f.width - 6, y1: f.y(0), y2: f.y(0) }));
  names(f, order);
  explain(place, f, (j) => clusterTip(order[j]), (j) => choose(order[j], true));
}

function drawMargins() {
  const place = byId("chart-margins"), m = data.margins;
  if (!m) {
    place.replaceChildren(el("p", {}, "One cluster has no second choice."));
    return;
  }
  const n = m.counts.length;
  const f = frame(place, { title: "Rows by margin", low: 0, high: 1.05 * Math.max(...m.counts), n,
    height: 220, label: `Margins of ${count(m.n)} rows, median ${short(m.median)}` });
  bars(f, m.counts, () => "dots", 0);
  const middle = f.x((Math.min(m.median, m.end) / m.end) * n);
  f.root.append(svg("line", { class: "middle", x1: middle, x2: middle, y1: 26, y2: f.end }));
  for (const [at, anchor] of [[0, "start"], [m.end, "end"]]) {
    const text = svg("text", { x: f.x((at / m.end) * n), y: f.height - 5, "text-anchor": anchor });
    text.textContent = at ? short(at) + " and more" : "0";
    f.root.append(text);
  }
  const edge = (i) => short((m.end * i) / n);
  explain(place, f, (i) => [el("div", {}, `${count(m.counts[i])} rows, margin ${edge(i)} to ` +
    (i === n - 1 ? "any" : edge(i + 1)))], null);
  byId("margins-note").textContent = "By how much score plus price of a row's cluster exceed those " +
    `of its second choice, of ${count(m.n)} rows; line: median ${short(m.median)}. ` +
    `${(100 * m.near).toFixed(1)} % of the rows are within ${short(0.01 * m.end)} of another cluster.`;
}

function drawCharts() { drawSizes(); drawPrices(); drawMargins(); }
