// Rows: what is shown of one, those of the chosen cluster, and the lists of all clusters.
const picture = (entry) => el("img", { src: data.images[entry.image], alt: entry.text, title: entry.text,
  className: data.pixels ? "pixels" : "" });
const web = /^https?:\/\//i;

function valueOf(row, withLink = true) {
  const entry = data.rows[row];
  if (!entry || !entry.text) return null;
  let inside = "image" in entry ? picture(entry) : entry.text;
  // Addresses are links and nothing more: the page loads none of them.
  if (withLink && entry.link && (web.test(entry.link) || !/^[a-z][a-z0-9+.-]*:/i.test(entry.link))) {
    inside = el("a", { href: entry.link, target: "_blank", rel: "noopener noreferrer" }, inside);
  }
  return el("div", { className: "value" }, inside);
}

function nameOf(row) {
  const entry = data.rows[row];
  return entry && entry.id ? `${entry.id} (row ${row})` : "row " + row;
}

const nearWord = { cosine: "similarity", euclidean: "squared distance" }[data.metric] || data.metric;
const allRows = data.table || "rows.csv";

function rowLine(line, kind) {
  const facts = el("div", { className: "facts-line" }, nameOf(line.row));
  if (kind === "exemplars") facts.append(`, ${nearWord} ${short(line.near)}`);
  if (kind === "doubtful") facts.append(`, margin ${short(line.margin)}, or `, goTo(line.second));
  if (kind === "moved") facts.append(`, gave up ${short(line.loss)}, would choose `, goTo(line.free));
  return el("li", {}, valueOf(line.row), facts);
}

const titles = { exemplars: data.typical || "Exemplars: nearest to the center", doubtful: "Most doubtful",
  moved: "Moved here by the bounds" };

function overview(detail) {
  detail.replaceChildren(el("h3", {}, "Choose a cluster"),
    el("p", { className: "small" }, "Point at one on the map, click it, or find it by its number" +
      (data.shown ? ` or by words in ${data.shown}` : "") + ". Those that moved most rows:"));
  const most = data.movedIn.map((v, i) => [v, i]).filter(([v]) => v > 0)
    .sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 12);
  const grid = el("ul", { className: "grid" });
  const some = most.length ? most : bySize.slice(0, 12).map((i) => [data.counts[i], i]);
  for (const [v, i] of some) {
    grid.append(el("li", {}, el("button", { type: "button", on: { click: () => choose(i, true) } },
      mark(i), `${i}: ${count(v)}`)));
  }
  if (!most.length) detail.querySelector("p").textContent = "No rows were moved. The largest clusters:";
  detail.append(grid);
}

function showDetail(i) {
  const detail = byId("detail");
  detail.scrollTop = 0;
  if (i < 0) { overview(detail); return; }
  const step = (by) => () => choose((i + by + k) % k, true);
  const button = (text, label, act) => el("button", { type: "button", "aria-label": label,
    on: { click: act } }, text);
  detail.replaceChildren(
    el("div", { className: "head" }, el("h3", {}, mark(i), "Cluster " + i),
      button("‹", "Cluster before", step(-1)), button("›", "Next cluster", step(1)),
      button("×", "Close", () => choose(-1))),
    el("p", { className: "facts-line" }, `size ${count(data.counts[i])}, bounds ${boundsText(i)}, ` +
      `price ${short(data.prices[i])}: ${stateWords[state[i]]}. ` +
      `${count(data.movedIn[i])} moved in, ${count(data.movedOut[i])} moved out.`));
  const words = (data.words || {})[i];
  if (words) {
    detail.append(el("p", { className: "facts-line" }, "Frequent words: ", el("b", {}, words.join(", "))));
  }
  for (const kind of ["exemplars", "doubtful", "moved"]) {
    const lines = lists[kind].get(i) || [];
    if (!lines.length) continue;
    const list = el("ul", { className: "rows" });
    lines.slice(0, 10).forEach((line) => list.append(rowLine(line, kind)));
    detail.append(el("h3", {}, titles[kind]), list);
  }
}

// A list over all clusters, so many at a time.
function listAll(place, lines, heads, cells) {
  if (!lines.length) { place.append(el("p", {}, "None.")); return; }
  const body = el("tbody"), step = 12;
  const table = el("table", { className: "list" },
    el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), body);
  let shown = 0;
  const more = el("button", { type: "button" }, "Show more");
  const left = el("span", { className: "small" });
  const add = () => {
    for (const line of lines.slice(shown, shown + (shown ? 50 : step))) {
      body.append(el("tr", {}, ...cells(line)));
    }
    shown = body.children.length;
    more.hidden = shown >= lines.length;
    left.textContent = ` ${count(shown)} of ${count(lines.length)} on this page; ${allRows} has all.`;
  };
  more.addEventListener("click", add);
  place.append(el("div", { className: "scroll" }, table), el("p", {}, more, left));
  add();
}

function startRows() {
  listeners.push((i) => showDetail(i));
  showDetail(-1);
  const all = (kind, by) => [...lists[kind].values()].flat().sort((a, b) => by(a) - by(b) || a.row - b.row);
  const cell = (label, ...inside) => el("td", { className: "n", "data-label": label }, ...inside);
  const own = (line) => el("td", { className: "own" }, valueOf(line.row),
    el("div", { className: data.shown ? "facts-line" : "" }, nameOf(line.row)));
  listAll(byId("list-doubtful"), all("doubtful", (line) => line.margin),
    ["Row", "Cluster", "Or", "Margin"],
    (line) => [own(line), cell("cluster", mark(line.cluster), goTo(line.cluster)),
      cell("or", mark(line.second), goTo(line.second)), cell("margin", short(line.margin))]);
  const moved = data.movedIn.reduce((a, b) => a + b, 0);
  byId("moved-note").textContent = moved
    ? `${count(moved)} rows would choose another cluster if there were no bounds; these gave up most.`
    : "Every row is in the cluster that scores highest for it.";
  listAll(byId("list-moved"), all("moved", (line) => -line.loss),
    ["Row", "Cluster", "Would choose", "Gave up"],
    (line) => [own(line), cell("cluster", mark(line.cluster), goTo(line.cluster)),
      cell("would choose", mark(line.free), goTo(line.free)), cell("gave up", short(line.loss))]);
}
