// Clusters against classes: a table of counts, or the largest mixtures where it would be too large.
function startConfusion() {
  const found = data.classes, place = byId("confusion-table");
  if (!found) return;
  byId("confusion").hidden = false;
  if (!found.table) {
    const body = el("tbody", {}, ...found.mixed.map(([i, c, amount]) => el("tr", {},
      el("td", {}, goTo(i)), el("td", {}, found.names[found.majority[i]]), el("td", {}, found.names[c]),
      el("td", {}, count(amount)))));
    place.append(el("table", { className: "list" }, el("thead", {}, el("tr", {},
      ...["Cluster", "mostly", "also", "samples"].map((text) => el("th", { scope: "col" }, text)))), body));
    return;
  }
  const most = Math.max(1, ...found.table.flat());
  const body = found.table.map((line, at) => {
    const i = found.order[at];
    return el("tr", {}, el("th", { scope: "row" }, goTo(i)), ...line.map((amount, c) => {
      const cell = el("td", { title: `${count(amount)} of cluster ${i} in class ${found.names[c]}`,
        className: c === found.majority[i] && amount ? "own-class" : "" }, amount ? count(amount) : "");
      cell.style.setProperty("--share", Math.sqrt(amount / most).toFixed(3));
      return cell;
    }));
  });
  place.append(el("table", { className: "cells" }, el("thead", {}, el("tr", {}, el("td", {}),
    ...found.names.map((name) => el("th", { scope: "col", title: name }, name)))), el("tbody", {}, ...body)));
}
