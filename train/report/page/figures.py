"""Curves of the epochs, lists of samples, the map and the confusion with classes, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ....common.page.numbers import held, histogram, maps_of, rounded
from .alike import Alike, groups_and_loners
from .heads import heads_curves
from .samples import choose_samples, thumbnails
from .state import Found, Ints, Pictures

__all__ = ["cluster_data", "curves_of", "found_parts"]

DOTS, SAMPLE, LISTED = 5_000, 20_000, 3_000
"""Dots on the map, samples behind the margins, and samples of each list."""

TILES = 12
"""Samples of a group of near-duplicates."""

MOST_NEIGHBORS = 2_000
"""Most clusters with a map of neighborhoods, whose time grows with their square."""

CELLS = 900
"""Most cells of a table of clusters and classes; of more, the largest entries are listed."""

SCORES = ("acc", "nmi", "ari", "ami")
KINDS = {"test_": "held out", "argmax_": "argmax", "": "in bounds"}
WORDS = {"size_min": "smallest", "size_max": "largest", "stored_acc": "acc, training labels"}


def found_parts(found: Found, pictures: Pictures | None) -> dict[str, Any]:
    """Return what the page shows of samples and clusters; it stands until the next pass.

    Parameters
    ----------
    found : Found
    pictures : Pictures or None
        None where samples are embeddings.

    Notes
    -----
    Makes a small image of each sample shown, at most `Pictures.most`; O(n) beside them, and
    O(k^2) for the map of neighborhoods.
    """
    chosen = choose_samples(found)
    alike = None if found.alike is None else groups_and_loners(*found.alike)
    beside = [] if alike is None else [*chain(*_tiles(alike)), *alike.alone]
    made = None if pictures is None else thumbnails(found, chosen, pictures, beside)
    moved = np.flatnonzero(found.labels != found.nearest)
    most = np.argsort(-found.loss[moved], kind="stable")[:LISTED]
    lists = {**chosen, "moved": moved[most][np.argsort(found.labels[moved[most]], kind="stable")]}
    return {
        **cluster_data(found.counts, found.lower, found.upper, found.prices, len(found.labels)),
        "movedIn": np.bincount(found.labels[moved], minlength=len(found.lower)).tolist(),
        "movedOut": np.bincount(found.nearest[moved], minlength=len(found.lower)).tolist(),
        "margins": histogram(found.margins[:: -(-len(found.margins) // SAMPLE)]),
        "maps": _maps(found),
        **{kind: _columns(found, some) for kind, some in lists.items()},
        "rows": _rows(found, np.unique(np.concatenate([*lists.values(), _ints(beside)])), made),
        "alike": None if alike is None else _alike(found, alike),
        "images": [] if made is None else made["images"],
        "pixels": made is not None and made["pixels"],
        "left_out": 0 if made is None else made["left_out"],
        "next": _next(found),
        "classes": _confusion(found),
        "epoch": found.epoch,
        "gap": found.gap,
        "moved_total": len(moved),
    }


def _ints(some: Sequence[int]) -> Ints:
    return np.asarray(some, dtype=np.int64)


def _tiles(alike: Alike) -> list[list[int]]:
    return [group[:TILES] for group in alike.groups]


def _alike(found: Found, alike: Alike) -> dict[str, Any]:
    """Ids of the samples in groups and alone, as the script takes them."""
    return {
        "groups": [found.ids[group].tolist() for group in _tiles(alike)],
        "sizes": [len(group) for group in alike.groups],
        "least": rounded(np.asarray(alike.least), 3),
        "alone": found.ids[_ints(alike.alone)].tolist(),
        "copies": alike.copies,
    }


def cluster_data(
    counts: Ints, lower: Ints, upper: Ints, prices: Any, n_samples: int
) -> dict[str, Any]:
    """Return sizes, bounds and prices, as the shared charts take them."""
    return {
        "counts": counts.tolist(),
        "lower": [int(low) if low > 0 else None for low in lower],
        "upper": [int(high) if high < n_samples else None for high in upper],
        "held": held(prices, lower, upper, n_samples).tolist(),
        "prices": rounded(prices, 6),
    }


def curves_of(records: Sequence[Mapping[str, Any]], bounds: tuple[int, int, int]) -> list[Any]:
    """Return panels of curves, each with its lines.

    Parameters
    ----------
    records : sequence of mappings
        The lines of ``metrics.jsonl``; a value may be missing.
    bounds : (smallest, largest, n)
        Sizes allowed; 0 and n are no bounds.

    Returns
    -------
    list of dict
        ``title``, ``lines`` of ``name``, ``x``, ``y``; ``marks`` with values to draw across;
        ``low`` and ``high``, ends of the axis, where they are fixed.
    """
    low, high, n = bounds
    marks = ([["lower bound", low]] if low > 0 else []) + (
        [["upper bound", high]] if high < n else []
    )
    keys = {key for record in records for key in record}
    scores = [f"{kind}{name}" for kind in KINDS for name in SCORES]
    panels: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Loss", sorted(key for key in keys if "loss" in key), {}),
        ("Learning rate", ["lr"], {"low": 0}),
        ("Churn: share of samples that changed cluster", ["churn"], {"low": 0}),
        ("Sizes by the labels of training", ["size_max", "size_min"], {"low": 0, "marks": marks}),
        ("Agreement with the classes", [*scores[:8], "stored_acc"], {"low": 0, "high": 1}),
        ("Sizes without bounds", ["argmax_size_max", "argmax_size_min"], {"low": 0}),
        ("Effective number of clusters", ["effective_clusters"], {"low": 0}),
        ("Spread of the features, 0 when collapsed", ["uniformity"], {}),
        ("Certificate of the labels", ["label_gap_max", "label_error_max"], {"low": 0}),
    ]
    found = []
    for title, wanted, options in panels:
        lines = [line for key in wanted if (line := _line(key, records)) is not None]
        if lines:
            found.append({"title": title, "lines": lines, **options})
    return [*found, *heads_curves(records)]


def _line(key: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    points = [
        (int(record["epoch"]), float(record[key]))
        for record in records
        if isinstance(record.get(key), int | float) and math.isfinite(record[key])
    ]
    if not points:
        return None
    x, y = zip(*points, strict=True)
    prefix = next(p for p in KINDS if key.startswith(p))
    rest = key.removeprefix(prefix)
    name = f"{rest}, {KINDS[prefix]}" if rest in SCORES else WORDS.get(key, key.replace("_", " "))
    name = name.replace("argmax size max", "largest").replace("argmax size min", "smallest")
    return {"name": name, "x": list(x), "y": [float(f"{v:.5g}") for v in y]}


def _maps(found: Found) -> dict[str, Any]:
    """Places of the clusters' mean features and of some samples."""
    every = -(-len(found.labels) // DOTS)
    counts, k = found.counts, len(found.lower)
    sums = np.zeros((k, found.features.shape[1]))
    np.add.at(sums, found.labels, found.features.astype(np.float64))
    means = sums / np.maximum(counts, 1)[:, None]
    means[counts == 0] = sums.sum(axis=0) / len(found.labels)
    return maps_of(
        means,
        counts,
        [found.features[::every].astype(np.float64)],
        labels=found.labels[::every],
        runner_up=found.runner_up[::every],
        margin=found.margins[::every],
        # The plane of a dozen clusters is not crowded: then distances are worth more.
        neighborhoods=12 < k <= MOST_NEIGHBORS,
    )


def _columns(found: Found, some: Ints) -> dict[str, list[Any]]:
    margins = rounded(found.margins[some], 4)
    return {
        "row": found.ids[some].tolist(),
        "cluster": found.labels[some].tolist(),
        "second": found.runner_up[some].tolist(),
        "free": found.nearest[some].tolist(),
        "near": rounded(found.near[some], 4),
        "margin": [value if math.isfinite(value) else None for value in margins],
        "loss": rounded(found.loss[some], 4),
    }


def _rows(found: Found, some: Ints, made: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """What is shown of each sample: its file, its class, its image."""
    majority = None if found.classes is None else _table(found).argmax(axis=1)
    rows: dict[str, dict[str, Any]] = {}
    for at in some.tolist():
        entry: dict[str, Any] = {}
        if found.names is not None:
            entry["text"] = _short(found.names[at])
        if found.classes is not None and majority is not None and found.classes[at] >= 0:
            code = int(found.classes[at])
            entry["class"] = class_name(found.class_names, code)
            entry["odd"] = int(code != majority[found.labels[at]])
        if made is not None and at in made["of"]:
            entry.setdefault("text", f"image {found.ids[at]}")
            entry["image"] = made["of"][at]
            if at in made["under"]:
                entry["under"] = made["under"][at]
        rows[str(int(found.ids[at]))] = entry
    return rows


def _short(name: str) -> str:
    """A file name of at most 80 letters: its end tells more than its beginning."""
    name = "".join(" " if letter < " " else letter for letter in name)
    return name if len(name) <= 80 else "…" + name[-79:]


def class_name(names: Sequence[str], code: int) -> str:
    """Return the name of a class, or its number."""
    return _short(names[code]) if code < len(names) else str(code)


def _next(found: Found) -> list[list[list[float]]]:
    """For each cluster up to three others that most of its samples would join next: [j, share]."""
    k, known = len(found.lower), found.runner_up >= 0
    pairs = found.labels[known] * k + found.runner_up[known]
    keys, amounts = np.unique(pairs, return_counts=True)
    counts, lists = found.counts, [list[list[float]]() for _ in range(k)]
    for at in np.lexsort((keys, -amounts)).tolist():
        i, j = divmod(int(keys[at]), k)
        if len(lists[i]) < 3:
            lists[i].append([j, round(float(amounts[at] / counts[i]), 3)])
    return lists


def _table(found: Found) -> Ints:
    """Samples of each cluster and class, (k, classes)."""
    assert found.classes is not None
    known = found.classes >= 0
    table = np.zeros((len(found.lower), int(found.classes.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(table, (found.labels[known], found.classes[known]), 1)
    return table


def _confusion(found: Found) -> dict[str, Any] | None:
    """Clusters against classes, clusters by their majority; of large tables the largest entries."""
    if found.classes is None or not (found.classes >= 0).any():
        return None
    table = _table(found)
    names = [class_name(found.class_names, code) for code in range(table.shape[1])]
    majority, best = table.argmax(axis=1), table.max(axis=1)
    order = np.lexsort((-best, majority))
    result: dict[str, Any] = {
        "names": names,
        "majority": majority.tolist(),
        "share": [round(float(s), 4) for s in best / np.maximum(table.sum(axis=1), 1)],
    }
    if table.size <= CELLS:
        return {**result, "order": order.tolist(), "table": table[order].tolist()}
    mixed = table.copy()
    mixed[np.arange(len(mixed)), majority] = 0
    largest = np.argsort(-mixed, axis=None, kind="stable")[:40]
    places = (divmod(int(at), mixed.shape[1]) for at in largest)
    entries = [[i, c, int(mixed[i, c])] for i, c in places]
    return {**result, "mixed": [entry for entry in entries if entry[2] > 0]}
