// The gallery: a row for each cluster, whose images are made when the row comes into sight.
const others = byCluster(data.random);

function tile(line, kind) {
  const entry = data.rows[line.row] || {};
  const words = [entry.text || "sample " + line.row, entry.class ? "class " + entry.class : "",
    `margin ${short(line.margin)}, else ${line.second}`].filter(Boolean).join("\n");
  const image = (place) => el("img", { src: data.images[place], alt: entry.text || "", title: words,
    className: (data.pixels ? "pixels" : "") + (entry.odd ? " odd" : "") });
  if (!("image" in entry)) return null;
  return kind === "attended" ? ("under" in entry ? el("span", { className: "pair" }, image(entry.image), image(entry.under)) : null)
    : image(entry.image);
}

function block(title, lines, kind) {
  const tiles = lines.map((line) => tile(line, kind)).filter(Boolean);
  return tiles.length ? el("div", { className: "block" }, el("h4", {}, title), el("div", { className: "tiles-row" }, ...tiles)) : null;
}

function captionOf(i) {
  const parts = [el("h3", {}, mark(i), "Cluster " + i), el("p", { className: "facts-line" }, `${count(data.counts[i])} samples`)];
  if (data.classes && data.counts[i]) parts.push(el("p", { className: "facts-line" },
    `${data.classes.names[data.classes.majority[i]]}, ${(100 * data.classes.share[i]).toFixed(0)} %`));
  if (data.next[i].length) {
    const line = el("p", { className: "facts-line" }, "next to ");
    data.next[i].forEach(([j, share], at) => line.append(at ? ", " : "", goTo(j), `\u00a0${(100 * share).toFixed(0)}\u00a0%`));
    parts.push(line);
  }
  return el("div", { className: "caption" }, ...parts);
}

function fillRow(row, i) {
  const list = (kind) => lists[kind].get(i) || [];
  const blocks = [block("most typical", list("exemplars"), ""), block("at random", others.get(i) || [], ""),
    block("most doubtful", list("doubtful"), ""), block("where it looks", list("exemplars"), "attended")];
  row.append(el("div", { className: "blocks" }, ...blocks.filter(Boolean)));
}

function startGallery() {
  const place = byId("gallery-rows");
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      fillRow(entry.target, Number(entry.target.getAttribute("data-gallery")));
    }
  }, { rootMargin: "400px" });
  data.counts.forEach((size, i) => {
    const row = el("div", { className: "gallery-row", "data-gallery": i, id: "cluster-" + i }, captionOf(i));
    if (!size) row.append(el("p", { className: "small" }, "empty"));
    place.append(row);
    if (size) seen.observe(row);
  });
}

// Groups of samples that are most alike, and those that are farthest from all others.
function startAlike() {
  const found = data.alike, place = byId("alike-rows");
  if (!found || !data.images.length) return;
  byId("alike").hidden = false;
  const tiles = (title, ids) => el("div", { className: "block" }, el("h4", {}, title),
    el("div", { className: "tiles-row" }, ...ids.map((row) => picture(data.rows[row]))));
  if (found.copies) place.append(el("p", {}, `${count(found.copies)} samples are copies of others, as far as the encoder sees.`));
  place.append(el("div", { className: "blocks" }, ...found.groups.map((ids, at) =>
    tiles(`${count(found.sizes[at])} samples, ${found.least[at].toFixed(3)}`, ids))));
  if (found.alone.length) place.append(tiles("like no other, the farthest first", found.alone));
}
