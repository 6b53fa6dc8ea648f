"""Judges the files that the command writes, from the rows of its input; see `tests.judge`.

Each field of a result and each column of a table is computed from the rows, labels, centers and
prices that are written, or compared with an option; one that is not known here is refused.

`judge_folder`
    Of ``dualclust cluster`` and ``dualclust assign``: result.json, sizes.csv, model.npz. Means are
    O, or the sum of squared distances, over the sum of the weights. Bounds on means and the gap are
    those of `judge_assignment` at the prices in model.npz.
`judge_table`
    Of ``--table``, and rows.csv of a report: margins, runners-up, free choices, losses and how near
    rows are to their centers.
`judge_page`
    report.html: the means with and without bounds, what balance costs, sizes, gap, rows that moved.
`judge_choice`
    choice.csv: no share that is proven is above the one found, sizes and silhouettes fit.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.judge import judge_assignment, require
from tests.judge_centers import scores_of

OPTIONS = {"metric", "lower", "upper", "seed", "init", "labels", "input", "notes"}
"""Options that the command repeats, and what it says of reading its input."""

COUNTED = {
    "n_samples",
    "n_clusters",
    "min_count",
    "max_count",
    "smallest_cluster",
    "largest_cluster",
    "violation",
    "fixed_rows",
    "forbidden_pairs",
    "passes",
    "converged",
    "files",
}
PROVEN = {
    "relative_gap",
    "mean_similarity_bound",
    "mean_squared_distance_bound",
    "mean_distance_bound",
}
MEANS = {"mean_similarity", "mean_squared_distance", "mean_distance"}
FIELDS = OPTIONS | COUNTED | PROVEN | MEANS
SIZES = ["cluster", "size", "min_count", "max_count", "price"]
CHOICES = ["cluster", "margin", "runner_up", "free_choice"]
NOTABLE = {"kind", "loss", "similarity", "squared_distance", *CHOICES}


class Rows(SimpleNamespace):
    """What a command has read: `x`, `weights`, `barred` (n, k) or None, `centers`, `prices`, `eps`.

    Rows are unit vectors for "cosine"; `metric` says so. Scores are counted from `middle`, and
    prices are known to `price_error`. Of rows that were dropped none is here: `numbers` are those
    of the others in the input.
    """

    middle: Any = None
    price_error = 0.0
    numbers: Any = None


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the lines of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def labels_of(folder: Path, rows: Rows) -> Any:
    """Return the labels of the rows that were clustered; that of a dropped one is -1."""
    labels = np.load(folder / "labels.npy", allow_pickle=False)
    if rows.numbers is None:
        return labels
    others = np.delete(labels, rows.numbers)
    require((others == -1).all(), "dropped rows have no label", others)
    return labels[rows.numbers]


def judge_folder(folder: Path, rows: Rows) -> None:
    """Judge result.json and the files of labels, sizes and centers beside it."""
    result = json.loads((folder / "result.json").read_text())
    labels = labels_of(folder, rows)
    if rows.numbers is not None:
        whole = len(np.load(folder / "labels.npy", allow_pickle=False))
        told = {name: result["input"][name] for name in ("rows", "dropped_rows")}
        true = {"rows": len(labels), "dropped_rows": whole - len(labels)}
        require(told == true, "dropped rows", told, true)
        numbers = np.setdiff1d(np.arange(whole), rows.numbers).tolist()
        first = result["input"]["dropped"]
        require(first == numbers[: len(first)], "numbers of dropped rows", first, numbers)
    unknown = set(result) - FIELDS
    require(not unknown, "each field of result.json has a judge", unknown)
    found = {path.name for path in folder.iterdir()}
    require(set(result["files"]) == found, "files", result["files"], found)
    sizes = read_csv(folder / "sizes.csv")
    require(list(sizes[0]) == SIZES, "each column of sizes.csv has a judge", list(sizes[0]))
    n, k = rows.x.shape[0], len(rows.centers)
    counts = np.bincount(labels, minlength=k)
    columns = {name: np.asarray([float(row[name]) for row in sizes]) for name in SIZES}
    require(np.array_equal(columns["cluster"], np.arange(k)), "a line for each cluster", sizes)
    require(np.array_equal(columns["size"], counts), "sizes", columns["size"], counts)
    low, high = (columns[name].astype(np.int64) for name in ("min_count", "max_count"))
    away = np.abs(columns["price"] - rows.prices).max() if rows.prices is not None else 0.0
    require(away <= 5.1e-7 + 1e-15 * np.abs(columns["price"]).max(), "prices of sizes.csv", away)
    _judge_counts(result, n, k, counts, (low, high), rows)
    _judge_figures(result, labels, counts, (low, high), rows)


def _judge_counts(
    result: dict[str, Any], n: int, k: int, counts: Any, bounds: tuple[Any, Any], rows: Rows
) -> None:
    (low, high), barred = bounds, rows.barred
    outside = max([0, *(low - counts), *(counts - high)])
    true: dict[str, Any] = {
        "n_samples": n,
        "n_clusters": k,
        "metric": rows.metric,
        "min_count": low.min(),
        "max_count": high.max(),
        "smallest_cluster": counts.min(),
        "largest_cluster": counts.max(),
        "violation": outside,
        "fixed_rows": rows.n_fixed,
        "forbidden_pairs": rows.n_forbidden,
    }
    require(outside == 0 or "violation" not in result, "sizes are inside", outside)
    for name in true.keys() & result.keys():
        require(result[name] == true[name], name, result[name], true[name])
    require(barred is None or not barred.all(axis=1).any(), "each row may join a cluster")


def _judge_figures(
    result: dict[str, Any], labels: Any, counts: Any, bounds: tuple[Any, Any], rows: Rows
) -> None:
    """Judge the mean and, where sizes are bounded, what is proven of it."""
    x, centers = np.asarray(rows.x, np.float64), np.asarray(rows.centers, np.float64)
    scores, w, doubt = scores_of(x, centers, rows.weights, rows.metric, rows.eps, rows.middle)
    own, weight = w * scores[np.arange(len(x)), labels], w.sum()
    size = np.abs(own).sum()
    if rows.metric == "cosine":
        name, value = "mean_similarity", own.sum() / weight
    else:
        name = "mean_squared_distance"
        value = (w * ((x - centers[labels]) ** 2).sum(axis=1)).sum() / weight
    off = 2 * doubt / weight + 2.0**-40 * abs(value)
    require(abs(result[name] - value) <= off, name, result[name], value)
    if "relative_gap" not in result:
        if result["labels"] == "nearest":
            lost = (w * scores.max(axis=1) - own).sum()
            require(lost <= 2 * doubt, "labels are of the nearest centers", lost, doubt)
        return
    bound, gap = result[name + "_bound"], result["relative_gap"]
    lost = (bound - result[name]) * weight * (1.0 if rows.metric == "cosine" else -0.5)
    require(lost >= -doubt - 2.0**-40 * size, "a mean is at most its bound", result[name], bound)
    if rows.metric == "euclidean" and bound == 0.0:  # squares are not negative
        lost = gap * size
    if rows.prices is None:
        return
    shift = (abs(value) + abs(bound)) * weight * 2.0**-50 + 2 * rows.price_error * len(x)
    found = SimpleNamespace(
        labels=labels,
        counts=counts,
        prices=rows.prices,
        objective=own.sum(),
        upper_bound=own.sum() + max(lost, 0.0),
        rounding=2.0**-45 * size,
        violation=0,
        gap=gap,
        status="optimal" if gap == 0.0 else "within gap",
    )
    scores = scores if rows.barred is None else np.where(rows.barred, -np.inf, scores)
    weights = None if rows.weights is None else w
    judge_assignment(scores, weights, *bounds, found, doubt=doubt + shift)


def judge_table(lines: list[dict[str, str]], labels: Any, rows: Rows, key: str = "row") -> None:
    """Judge a table of rows; without ids, `key` holds their numbers."""
    unknown = set(lines[0]) - NOTABLE - {key, "id", "word"} if lines else set()
    require(not unknown, "each column of a table of rows has a judge", unknown)
    scores, w, _ = scores_of(rows.x, rows.centers, rows.weights, rows.metric, rows.eps)
    scores = w[:, None] * scores
    scores = scores if rows.barred is None else np.where(rows.barred, -np.inf, scores)
    priced, x = scores + rows.prices, np.asarray(rows.x, np.float64)
    c = np.asarray(rows.centers, np.float64)
    reach = (np.abs(x).max() + np.abs(c).max()) ** 2 * x.shape[1] * w.max()
    off = 64 * rows.eps * (reach + np.abs(rows.prices).max()) + 1e-8 * reach
    for place, line in enumerate(lines):
        i = int(line["row"]) if "row" in line else place
        if rows.numbers is not None:
            at = int(np.searchsorted(rows.numbers, i))
            if at == len(rows.numbers) or rows.numbers[at] != i:
                require(line["cluster"] == "", "a dropped row has no cluster", line)
                continue
            i = at
        j = int(line["cluster"])
        require(labels[i] == j, "cluster of a row", i, j, labels[i])
        others = np.where(np.arange(len(c)) == j, -np.inf, priced[i])
        if line["runner_up"] == "":
            require(not np.isfinite(others).any(), "a row has no other cluster", i)
        else:
            second, margin = int(line["runner_up"]), priced[i, j] - others.max()
            require(others[second] >= others.max() - off, "runner-up", i, second)
            require(abs(float(line["margin"]) - margin) <= off, "margin", i, line, margin)
        free, loss = int(line["free_choice"]), scores[i].max() - scores[i, j]
        require(scores[i, free] >= scores[i].max() - off, "free choice", i, free)
        if "loss" in line:
            require(abs(float(line["loss"]) - loss) <= off, "loss", i, line["loss"], loss)
        near = {
            "similarity": x[i] @ c[j],
            "squared_distance": ((x[i] - c[j]) ** 2).sum(),
        }
        for name in near.keys() & line.keys():
            require(abs(float(line[name]) - near[name]) <= 2 * off, name, i, line[name], near[name])


def judge_page(page: str, result: dict[str, Any], labels: Any, rows: Rows) -> None:
    """Judge what a report prints: six digits of the means, the cost of balance, rows that moved."""
    scores, w, doubt = scores_of(rows.x, rows.centers, rows.weights, rows.metric, rows.eps)
    allowed = scores if rows.barred is None else np.where(rows.barred, -np.inf, scores)
    loss = allowed.max(axis=1) - scores[np.arange(len(labels)), labels]
    similar = rows.metric == "cosine"
    name = "mean_similarity" if similar else "mean_squared_distance"
    value, lost = result[name], (w * loss).sum() / w.sum()
    free = value + lost if similar else max(0.0, value - 2 * lost)
    table = re.findall(r"<tr><th scope=row>([A-Z][^<]*)</th><td>([^<]*)</td></tr>", page)
    printed = {text.split()[0]: float(number) for text, number in table if number}
    true = {"Every": free, "These": value, "Proven:": result[f"{name}_bound"]}
    for text, number in true.items():
        off = 4 * doubt / w.sum() + 1e-5 * abs(number)
        require(abs(printed[text] - number) <= off, f"row of a report: {text}", printed, number)
    cost = 100 * abs(free - value) / abs(free) if free else 0.0
    [told] = re.findall(r"Balance costs <b>([\d.]+)%</b>", page)
    require(abs(float(told) - cost) <= 0.0051 + 1e-3 * cost, "cost of balance", told, cost)
    tiles = dict(re.findall(r"<dt>([^<]*)</dt><dd><b>([^<]*)</b>", page))
    near, moved = (loss > 0).sum(), (loss > 4 * doubt / len(labels)).sum()
    told = int(tiles["Moved rows"].replace(",", ""))
    require(moved <= told <= near, "rows that moved", told, moved, near)
    require(float(tiles["Proven gap"]) == float(f"{result['relative_gap']:.1e}"), "gap", tiles)
    sizes = f"{result['smallest_cluster']:,} to {result['largest_cluster']:,}"
    require(tiles["Sizes"] == sizes, "sizes of a report", tiles["Sizes"], sizes)


def judge_choice(lines: list[dict[str, str]], n: int) -> None:
    """Judge choice.csv for what its figures say of each other."""
    for line in lines:
        value = {name: float(text) for name, text in line.items()}
        free = value["lower"] == 0.0 and value["upper"] == np.inf
        k = value["k"]
        require(not free or value["gap"] == value["price_percent"] == 0.0, "no bounds cost", line)
        proven, price = value["price_proven_percent"], value["price_percent"]
        require(0.0 <= proven <= price + 1e-9, "proven price at most the price", line)
        require(value["gap"] >= 0.0, "gap", line)
        small, large = value["smallest"], value["largest"]
        require(0 <= small * k <= n <= large * k, "sizes around the mean", line)
        low, high = np.floor(value["lower"] * n / k), np.ceil(min(value["upper"], k) * n / k)
        require(free or low <= small <= large <= high, "sizes inside the shares", line)
        for name in ("silhouette", "reference_silhouette", "all_silhouette", "stability"):
            require(-1.0 <= value[name] <= 1.0, name, line)
