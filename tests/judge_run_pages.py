"""Judges report.html of a finished training run by its labels, features, prices and records.

`judge_run_page`
    Sizes, prices, margins, moved samples, second choices and the table of classes are computed here
    from the prediction; curves are the figures of metrics.jsonl, and tiles those of its last line.
    `WITHOUT` names what is no figure of these: places on the map, pictures, names, and the sizes
    that the labels of training have, of which the folder holds no labels.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from tests.judge import require
from tests.judge_files import read_csv

LISTS = ("exemplars", "random", "doubtful", "moved")
COLUMNS = {"row", "cluster", "second", "free", "near", "margin", "loss"}
JUDGED = {*LISTS, "counts", "lower", "upper", "held", "prices", "movedIn", "movedOut"} | {
    *("margins", "next", "classes", "rows", "gap", "moved_total", "epoch", "curves", "alike"),
}
WITHOUT = {
    *("maps", "images", "pixels", "left_out", "trained", "metric", "table", "typical", "shown"),
}
MOST_ROWS = 20_000
"""Margins beyond these are shown of every second, third ... sample."""

FIELDS = {
    ("Sizes by the labels of training", "largest"): "size_max",
    ("Sizes by the labels of training", "smallest"): "size_min",
    ("Sizes without bounds", "largest"): "argmax_size_max",
    ("Sizes without bounds", "smallest"): "argmax_size_min",
    ("Agreement with the classes", "acc, training labels"): "stored_acc",
}
"""Fields of a record that a curve calls otherwise."""

PREFIXES = {"held out": "test_", "argmax": "argmax_", "in bounds": ""}


def near(told: Any, true: Any, digits: int, size: float = 0.0) -> Any:
    """Whether numbers agree but for their printed digits, and what float32 loses of a size."""
    told, true = (np.asarray(v, np.float64).reshape(-1) for v in (told, true))
    if told.shape != true.shape:
        return False
    off = 5.1 * 10.0**-digits * np.abs(true) + 2e-6 * max(size, np.abs(true).max(initial=0.0))
    return (np.abs(told - true) <= off).all()


def judge_run_page(folder: Path, prediction: Any, scores: Any, bounds: tuple[int, int]) -> None:
    """Judge the page of a run that has ended, whose smallest and largest bounds are `bounds`."""
    page = (folder / "report.html").read_text()
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    data = json.loads(text)
    unknown = set(data) - JUDGED - WITHOUT
    require(not unknown, "each field of a run's page has a judge", unknown)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    _judge_clusters(data, prediction, bounds)
    table = read_csv(folder / "assignments.csv")
    _judge_samples(data, prediction, np.asarray(scores, np.float64), table)
    n = len(prediction.assignment.labels)
    _judge_curves(data["curves"], lines, bounds, n)
    _judge_words(page, data, lines, n)


def _judge_clusters(data: dict[str, Any], prediction: Any, bounds: tuple[int, int]) -> None:
    found, nearest = prediction.assignment, np.asarray(prediction.nearest)
    labels, prices = np.asarray(found.labels), np.asarray(found.prices)
    n, k = len(labels), len(found.counts)
    counts = np.bincount(labels, minlength=k)
    require(data["counts"] == counts.tolist(), "counts of a page", data["counts"], counts)
    low = np.asarray([0 if v is None else v for v in data["lower"]])
    high = np.asarray([n if v is None else v for v in data["upper"]])
    require(len(low) == len(high) == k, "bounds of each cluster", low, high)
    require(((low <= counts) & (counts <= high)).all(), "sizes inside the bounds", counts)
    for name, told, one in (("lower", low, bounds[0]), ("upper", high, bounds[1])):
        require((told == min(max(one, 0), n)).all(), f"{name} bounds of a page", told, one)
    require(near(data["prices"], prices, 6), "prices of a page", data["prices"], prices)
    size = 1e-9 * np.abs(prices).max(initial=0.0)
    held = ((prices > size) & (low > 0)).astype(int) - ((prices < -size) & (high < n))
    require(data["held"] == held.tolist(), "which bounds act", data["held"], held)
    moved = labels != nearest
    for name, of in (("movedIn", labels), ("movedOut", nearest)):
        true = np.bincount(of[moved], minlength=k).tolist()
        require(data[name] == true, name, data[name], true)
    require(data["moved_total"] == moved.sum(), "moved samples", data["moved_total"])
    require(data["gap"] == found.gap, "gap of a page", data["gap"], found.gap)
    margins = np.asarray(prediction.margins)[:: -(-n // MOST_ROWS)]
    margins = np.maximum(margins[np.isfinite(margins)], 0.0)
    shown = data["margins"]
    require((shown is None) == (len(margins) == 0), "margins are shown where there are any")
    if shown is not None:
        require(shown["n"] == len(margins) == sum(shown["counts"]), "number of margins", shown)
        require(near(shown["median"], np.median(margins), 8), "median margin", shown["median"])
        end, bars = shown["end"], len(shown["counts"])
        require((margins > end).sum() <= 1 + len(margins) // 100, "end of the margins", end)
        share = (margins < 0.01 * end).mean()
        require(abs(shown["near"] - share) <= 1e-9, "margins near 0", shown["near"], share)
        ends = np.searchsorted(np.sort(margins), end * np.arange(1, bars) / bars)
        told = np.cumsum(shown["counts"])[:-1]
        require((np.abs(told - ends) <= 1).all(), "bars of margins", told, ends)


def _judge_samples(
    data: dict[str, Any], prediction: Any, scores: Any, table: list[dict[str, str]]
) -> None:
    """Judge lists of samples, second choices, and clusters against classes."""
    labels, counts = (np.asarray(v) for v in prediction.assignment[:2])
    n, k = scores.shape
    place = {int(line["id"]): i for i, line in enumerate(table)}
    own, size = scores[np.arange(n), labels], float(np.abs(scores).max())
    columns = {
        "cluster": labels,
        "second": np.asarray(prediction.runner_up),
        "free": np.asarray(prediction.nearest),
        "near": own,
        "margin": np.asarray(prediction.margins),
        "loss": scores.max(axis=1) - own,
    }
    for name in LISTS:
        shown = data[name]
        require(set(shown) == COLUMNS, "each column of a list has a judge", set(shown))
        at = [place[row] for row in shown["row"]]
        require(len(set(at)) == len(at), "samples are listed once", name)
        for column, values in columns.items():
            if column in ("cluster", "second", "free"):
                require(shown[column] == values[at].tolist(), f"{column} of {name}")
                continue
            told = [math.inf if v is None else v for v in shown[column]]
            same = np.isfinite(told) == np.isfinite(values[at])
            told, true = (np.where(np.isfinite(v), v, 0.0) for v in (told, values[at]))
            require(same.all() and near(told, true, 4, size), f"{column} of {name}", told, true)
    moved = [place[row] for row in data["moved"]["row"]]
    require((labels[moved] != columns["free"][moved]).all(), "moved samples have moved")
    for i, nexts in enumerate(data["next"]):
        second = columns["second"][(labels == i) & (columns["second"] >= 0)]
        shares = np.bincount(second, minlength=k) / max(counts[i], 1)
        most, told = np.sort(shares[shares > 0])[::-1][:3], [share for _, share in nexts]
        require(len(told) == len(most), "three clusters are next", i, nexts)
        for true in (most, shares[[int(j) for j, _ in nexts]]):
            require(np.allclose(told, true, rtol=0, atol=5.1e-4), "shares that are next", i, nexts)
    _judge_alike(data["alike"], place)
    classes = np.asarray([int(line.get("class") or -1) for line in table])
    _judge_classes(data, labels, classes, place, k)


def _judge_alike(shown: dict[str, Any] | None, place: dict[int, int]) -> None:
    """Judge groups of near-duplicates; their cosines are of features that the folder lacks."""
    if shown is None:
        return
    groups, alone, n = shown["groups"], shown["alone"], len(place)
    listed = [row for group in groups for row in group] + alone
    require(set(listed) <= set(place), "near-duplicates are samples", listed)
    require(len(set(listed)) == len(listed), "near-duplicates are listed once", listed)
    require(len(alone) <= n // 20, "samples like no other are few", alone)
    require(len(groups) == len(shown["sizes"]) == len(shown["least"]), "groups have sizes", shown)
    for group, size in zip(groups, shown["sizes"], strict=True):
        require(2 <= len(group) <= size, "a group has two samples", group, size)
    in_groups = sum(shown["sizes"])
    require(in_groups <= shown["copies"] + 2 * (shown["copies"] + n // 20), "groups are few", shown)


def _judge_classes(
    data: dict[str, Any], labels: Any, classes: Any, place: dict[int, int], k: int
) -> None:
    known, shown = classes >= 0, data["classes"]
    require((shown is None) == (not known.any()), "classes are shown where there are any")
    if shown is None:
        return
    true = np.zeros((k, len(shown["names"])), np.int64)
    np.add.at(true, (labels[known], classes[known]), 1)
    best, size = true.max(axis=1), np.maximum(true.sum(axis=1), 1)
    majority = np.asarray(shown["majority"])
    require((true[np.arange(k), majority] == best).all(), "majorities", majority)
    require(np.allclose(shown["share"], best / size, atol=5.1e-5), "their shares", shown["share"])
    if "table" in shown:
        require(sorted(shown["order"]) == list(range(k)), "order of clusters", shown["order"])
        require(np.array_equal(shown["table"], true[shown["order"]]), "table of classes")
    for i, j, amount in shown.get("mixed", ()):
        require(true[i, j] == amount > 0 and j != majority[i], "largest entries", i, j, amount)
    for row, entry in data["rows"].items():
        at = place[int(row)]
        if "class" in entry:
            require(entry["class"] == shown["names"][classes[at]], "class of a sample", row)
            require(entry["odd"] == (classes[at] != majority[labels[at]]), "odd samples", row)


def _judge_curves(
    panels: list[Any], records: list[dict[str, Any]], bounds: tuple[int, int], n: int
) -> None:
    """Judge each point of each curve by the record of its epoch."""
    marks = [["lower bound", bounds[0]]] if bounds[0] > 0 else []
    marks += [["upper bound", bounds[1]]] if bounds[1] < n else []
    for panel in panels:
        title, _, of_another = panel["title"].partition(" (head")
        require((panel.get("low", 0), panel.get("high", 1)) == (0, 1), "ends of an axis", title)
        if "marks" in panel and not of_another:
            require(panel["marks"] == marks, "bounds across a curve", panel["marks"], marks)
        for line in panel["lines"]:
            name = line["name"]
            if head := re.fullmatch(r"k = (\d+)", name):
                of = {r["epoch"]: r["heads"]["judged"] for r in records if "heads" in r}
                true = {
                    epoch: one["agreement"]
                    for epoch, heads in of.items()
                    for one in heads
                    if one["n_clusters"] == int(head[1])
                }
            else:
                score, _, kind = name.partition(", ")
                field = FIELDS.get((title, name), PREFIXES.get(kind, "") + score.replace(" ", "_"))
                true = {r["epoch"]: r[field] for r in records if r.get(field) is not None}
                true = {epoch: value for epoch, value in true.items() if math.isfinite(value)}
            require(line["x"] == list(true), "epochs of a curve", title, name, line["x"])
            told = np.asarray(line["y"])
            off = 5.1e-5 * np.abs(list(true.values()))
            require((np.abs(told - list(true.values())) <= off).all(), "curve", title, name)
    drawn = {panel["title"].partition(" (head")[0] for panel in panels}
    require("Loss" in drawn or not any("loss" in r for r in records), "the loss has a curve")


def _judge_words(page: str, data: dict[str, Any], records: list[dict[str, Any]], n: int) -> None:
    """Judge the tiles, and what the advice says of samples that would move."""
    last = records[-1]
    tiles = dict(re.findall(r"<dt>([^<]*)</dt><dd><b>([^<]*)</b>", page))
    loss = last["loss"]
    sizes = f"{min(data['counts']):,} to {max(data['counts']):,}"
    true = {
        "Epoch": f"{last['epoch']:,} of {last['epoch']:,}",
        "Loss": "–" if loss is None else f"{loss:.4g}",
        "Sizes": sizes,
    }
    require(("Churn" in tiles) == ("churn" in last), "a tile of churn", tiles)
    if "churn" in last:
        true["Churn"] = "–" if last["churn"] is None else f"{last['churn']:.1%}"
    for name, value in true.items():
        require(tiles[name] == value, f"tile {name}", tiles[name], value)
    figures = {
        "Samples": {f"{n:,}"},
        "In use": {f"{r['effective_clusters']:.1f}" for r in records if "effective_clusters" in r},
        "ACC": {f"{r[f]:.3f}" for r in records for f in ("test_acc", "argmax_acc") if f in r},
    }
    told = figures.keys() & tiles.keys()
    require(len(told) == 1, "a tile of agreement", tiles)
    for name in told:
        require(tiles[name] in figures[name] | {"–"}, f"tile {name}", tiles[name])
    for share in re.findall(r"(\d+)% of the samples would choose another cluster", page):
        require(f"{data['moved_total'] / n:.0%}" == f"{share}%", "samples that would move", share)
    bounds = [v for v in (*data["lower"], *data["upper"]) if v is not None]
    words = re.findall(r"[\d,]+", tiles["Bounds"])
    allowed = {min(bounds), max(bounds)} if bounds else set()
    require({int(w.replace(",", "")) for w in words} <= allowed, "tile Bounds", tiles["Bounds"])
    require(bool(words) == bool(bounds), "bounds are told where there are any", tiles["Bounds"])
