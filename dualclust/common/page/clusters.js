// The table of clusters: sorted by any column, filtered, and only the lines in sight are made.
const HIGH = 34;
const columns = [
  { name: "Cluster", value: (i) => i, cell: (i) => [mark(i), goTo(i)], up: true },
  { name: "Size", value: (i) => data.counts[i], cell: (i) => [count(data.counts[i])] },
  { name: "Bounds", value: (i) => data.lower[i] ?? -1, cell: (i) => [boundsText(i)], wide: true },
  { name: "Price", value: (i) => data.prices[i], cell: (i) => [short(data.prices[i])] },
  { name: "In", value: (i) => data.movedIn[i], cell: (i) => [count(data.movedIn[i])] },
  { name: "Out", value: (i) => data.movedOut[i], cell: (i) => [count(data.movedOut[i])] },
  { name: "Held", value: (i) => ["down", "free", "up"].indexOf(state[i]),
    cell: (i) => [{ up: "▲ up", down: "▼ down", free: "–" }[state[i]]], wide: true },
];
if (data.words && Object.keys(data.words).length) {
  columns.push({ name: "frequent words", value: (i) => i, wide: true, words: true,
    title: "Words of more rows here than elsewhere", cell: (i) => [(data.words[i] || []).join(", ")] });
} else if (data.shown) {
  columns.push({ name: data.shown, value: (i) => i, wide: true, words: true,
    cell: (i) => { const line = (lists.exemplars.get(i) || [])[0]; return line ? [valueOf(line.row, false)] : []; } });
}
const kindOf = (column) => [column.wide ? "wide" : "", column.words ? "words" : ""].join(" ").trim();
let sorting = { by: 0, up: true }, listed = [];
const region = byId("table"), tbody = el("tbody");
const heads = columns.map((column, j) => el("th", { scope: "col", className: kindOf(column) },
  column.words ? el("span", { title: column.title || "Of the row nearest to the center" }, column.name) : el("button", { type: "button", on: { click: () => sortBy(j) } }, column.name)));

function sortBy(j) {
  const first = columns[j].up || false;
  sorting = { by: j, up: sorting.by === j ? !sorting.up : first };
  listClusters();
}

function listClusters() {
  const only = byId("only").value, { by, up } = sorting, value = columns[by].value;
  listed = matching(byId("filter").value).filter((i) => !only || state[i] === only);
  listed.sort((a, b) => (up ? value(a) - value(b) : value(b) - value(a)) || a - b);
  heads.forEach((head, j) => {
    if (columns[j].words) return;
    head.setAttribute("aria-sort", j === by ? (up ? "ascending" : "descending") : "none");
    head.firstChild.textContent = columns[j].name + (j === by ? (up ? " ↑" : " ↓") : "");
  });
  byId("shown-count").textContent = listed.length === k ? "" : `${count(listed.length)} of ${count(k)}`;
  region.firstChild.setAttribute("aria-rowcount", listed.length + 1);
  region.scrollTop = 0;
  fillTable();
}

function padding(lines) {
  const row = el("tr", { className: "pad", "aria-hidden": "true" }, el("td", { colSpan: columns.length }));
  row.firstChild.style.height = lines * HIGH + "px";
  return row;
}

function fillTable() {
  byId("sideways").hidden = region.scrollWidth <= region.clientWidth + 1;
  const first = Math.max(0, Math.floor(region.scrollTop / HIGH) - 8);
  const last = Math.min(listed.length, first + Math.ceil(region.clientHeight / HIGH) + 16);
  const focus = document.activeElement && tbody.contains(document.activeElement)
    ? document.activeElement.closest("tr").getAttribute("data-cluster") : null;
  const rows = listed.slice(first, last).map((i, j) => el("tr",
    { className: i === chosen ? "row chosen" : "row", "aria-rowindex": first + j + 2,
      "data-cluster": i, on: { click: () => choose(i, true) } },
    ...columns.map((column) => el("td", { className: kindOf(column) }, ...column.cell(i)))));
  tbody.replaceChildren(padding(first), ...rows, padding(listed.length - last));
  if (focus !== null) {
    const again = tbody.querySelector(`tr[data-cluster="${focus}"] button`);
    if (again) again.focus({ preventScroll: true });
  }
}

function startClusters() {
  region.append(el("table", {}, el("thead", {}, el("tr", {}, ...heads)), tbody));
  region.addEventListener("scroll", () => requestAnimationFrame(fillTable));
  byId("filter").addEventListener("input", listClusters);
  byId("only").addEventListener("change", listClusters);
  listeners.push(fillTable);
  listClusters();
}
