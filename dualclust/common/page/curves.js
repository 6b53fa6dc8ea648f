// Panels of curves: lines with their names at the end, marks across, and a card under the pointer.
const lineKinds = ["one", "two", "three", "four", "five", "six"];
const lineKind = (line, j) => lineKinds[(line.kind ?? j) % lineKinds.length];

function panel(place, { title, lines, marks = [], low, high, names }) {
  const every = lines.flatMap((line) => line.y).concat(marks.map(([, v]) => v));
  const bottom = low ?? Math.min(...every), top = high ?? Math.max(...every) + 0.04 * (Math.max(...every) - bottom || 1);
  const first = Math.min(...lines.map((line) => line.x[0])), last = Math.max(...lines.map((line) => line.x.at(-1)));
  const f = frame(place, { title, low: bottom, high: top, n: Math.max(1, last - first), height: 200,
    label: `${title}, ${lines.map((line) => `${line.name} ends at ${short(line.y.at(-1))}`).join(", ")}` });
  const x = (v) => f.left + f.inner * (last === first ? 0.5 : (v - first) / (last - first));
  for (const [name, v] of marks) {
    f.root.append(svg("line", { class: "mark-line", x1: f.left, x2: f.width - 6, y1: f.y(v), y2: f.y(v) }));
    const text = svg("text", { x: f.width - 8, y: f.y(v) + (name.startsWith("lower") ? 13 : -4), "text-anchor": "end" });
    text.textContent = `${name} ${count(v)}`;
    f.root.append(text);
  }
  lines.forEach((line, j) => {
    const d = line.x.map((v, i) => `${i ? "L" : "M"}${x(v).toFixed(1)} ${f.y(line.y[i]).toFixed(1)}`).join("");
    f.root.append(svg("path", { class: "line " + lineKind(line, j), d }));
    if (line.x.length < 3) line.x.forEach((v, i) => f.root.append(svg("circle",
      { class: "point " + lineKind(line, j), cx: x(v), cy: f.y(line.y[i]), r: 3 })));
  });
  for (const [v, anchor] of first === last ? [[first, "middle"]] : [[first, "start"], [last, "end"]]) {
    const text = svg("text", { x: x(v), y: f.height - 5, "text-anchor": anchor });
    text.textContent = anchor === "start" ? "epoch " + v : v;
    f.root.append(text);
  }
  const tell = (i) => {
    const at = first + Math.min(i, last - first);
    return [el("strong", {}, "Epoch " + at), ...lines.map((line, j) => {
      const here = line.x.indexOf(at);
      return here < 0 ? null : el("div", {}, el("span", { className: "swatch " + lineKind(line, j) }),
        `${line.name} ${short(line.y[here])}`);
    }).filter(Boolean)];
  };
  explain(place, f, tell, null);
  if (lines.length > 1 || names) place.append(el("p", { className: "key-line" }, ...lines.map((line, j) =>
    el("span", {}, el("span", { className: "swatch " + lineKind(line, j) }), `${line.name} ${short(line.y.at(-1))}`))));
}

function drawCurves() {
  const place = byId("curves-all");
  place.replaceChildren();
  for (const each of data.curves) {
    const home = el("div", { className: "chart" });
    place.append(home);
    panel(home, each);
  }
}
