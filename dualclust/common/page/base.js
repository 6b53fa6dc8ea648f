// Data, elements, and what is chosen. Text of the user is only ever set as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const k = data.counts.length;
const state = data.held.map((held) => (held > 0 ? "up" : held < 0 ? "down" : "free"));
const stateWords = { up: "held up by its lower bound", down: "held down by its upper bound",
  free: "not held by a bound" };
const byId = (id) => document.getElementById(id);
const count = (v) => v.toLocaleString("en-US");
const short = (v) => (v === null ? "" : Number(v.toPrecision(4)).toString().replace("-", "−"));

function el(name, props, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function svg(name, props, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// Lines of a list, by cluster: {row, second, free, near, margin, loss}.
function byCluster(columns) {
  const lists = new Map();
  columns.row.forEach((row, i) => {
    const line = { row, cluster: columns.cluster[i], second: columns.second[i],
      free: columns.free[i], near: columns.near[i], margin: columns.margin[i],
      loss: columns.loss[i] };
    if (!lists.has(line.cluster)) lists.set(line.cluster, []);
    lists.get(line.cluster).push(line);
  });
  return lists;
}

const lists = { exemplars: byCluster(data.exemplars), doubtful: byCluster(data.doubtful),
  moved: byCluster(data.moved) };

function boundsText(i) {
  const low = data.lower[i], high = data.upper[i];
  if (low === null && high === null) return "none";
  if (low === null) return "at most " + count(high);
  if (high === null) return "at least " + count(low);
  return low === high ? "exactly " + count(low) : count(low) + " to " + count(high);
}

// What the search looks at: the number of a cluster, and values and ids of its rows.
const words = data.counts.map((_, i) => {
  const found = [];
  for (const list of Object.values(lists)) {
    for (const line of list.get(i) || []) {
      const entry = data.rows[line.row];
      if (entry) found.push(entry.text || "", entry.id || "");
    }
  }
  return found.join("\n").toLowerCase();
});

function matching(text) {
  const wanted = text.trim().toLowerCase();
  const all = data.counts.map((_, i) => i);
  if (!wanted) return all;
  if (/^\d+$/.test(wanted)) {
    const exact = all.filter((i) => String(i) === wanted);
    if (exact.length) return exact;
  }
  return all.filter((i) => words[i].includes(wanted));
}

// The chosen cluster, or -1; parts of the page listen.
let chosen = -1;
const listeners = [];
function choose(i, move = false) {
  chosen = i;
  for (const listen of listeners) listen(i, move);
}

function mark(i) {
  return el("span", { className: "mark " + state[i], title: stateWords[state[i]] });
}

function goTo(i, label = String(i)) {
  return el("button", { className: "go", type: "button", title: "Show cluster " + i,
    on: { click: (event) => { event.stopPropagation(); choose(i, true); } } }, label);
}
