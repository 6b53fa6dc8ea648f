"""Judges the folder that ``dualclust cluster`` writes for medoids, from the file that it has read.

Distances are computed anew: those of places by the haversine formula. See `tests.judge_files`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.judge import require
from tests.judge_files import FIELDS, SIZES, read_csv

FILES = ["labels.npy", "medoids.npy", "sizes.csv", "result.json"]
NEAR = 1e-9


def judge_medoid_folder(folder: Path, options: Any) -> str:
    """Judge all numbers in the files; return how."""
    from dualclust.cluster.embeddings import open_embeddings
    from dualclust.cluster.options import selection_of
    from dualclust.cluster.problem import read_inputs

    stored = open_embeddings(options.input, selection_of(options))
    inputs, x = read_inputs(options, stored), stored.rows(0, stored.n_samples).astype(np.float64)
    pairs = haversine(x) if options.metric == "haversine" else x
    weights = np.ones(len(x)) if inputs.weights is None else np.asarray(inputs.weights)
    result = json.loads((folder / "result.json").read_text())
    require(not set(result) - FIELDS, "each field of result.json has a judge", set(result) - FIELDS)
    require(result["files"] == FILES, "files", result["files"])
    labels, medoids = (np.load(folder / name) for name in FILES[:2])
    k, n = len(medoids), len(x)
    sizes = read_csv(folder / "sizes.csv")
    require(list(sizes[0]) == SIZES, "columns of sizes.csv", list(sizes[0]))
    cluster, size, low, high, price = (np.asarray([float(r[c]) for r in sizes]) for c in SIZES)
    counts = np.bincount(labels, minlength=k)
    require(np.array_equal(cluster, np.arange(k)) and np.array_equal(size, counts), "sizes", size)
    require(((low <= counts) & (counts <= high)).all(), "sizes are inside", counts)
    true = {
        "n_samples": n,
        "n_clusters": k,
        "metric": options.metric,
        "min_count": low.min(),
        "max_count": high.max(),
        "smallest_cluster": counts.min(),
        "largest_cluster": counts.max(),
        "violation": 0,
    }
    for name, value in true.items():
        require(result[name] == value, name, result[name], value)
    scores = -weights[:, None] * pairs[:, medoids]
    own, weight = scores[np.arange(n), labels], weights.sum()
    value = own.sum() / weight
    scale = max(abs(value), NEAR * pairs.max())
    mean, bound = result["mean_distance"], result["mean_distance_bound"]
    require(abs(mean + value) <= NEAR * scale, "the mean distance", mean, -value)
    gap = (mean - bound) * weight / max(np.abs(own).sum(), bound * weight, 1e-300)
    require(abs(gap - result["relative_gap"]) <= NEAR, "the gap", result["relative_gap"], gap)
    if inputs.fixed is None and inputs.forbidden is None:
        paid = np.where(price > 0.0, price * low, price * high).sum()
        dual = ((scores + price).max(axis=1).sum() - paid) / weight
        off = NEAR * scale + 4 * n * 5e-7 / weight  # of the prices' digits
        require(-bound <= dual + off and dual <= -bound + off, "the bound", bound, -dual)
    return "interval"


def haversine(places: Any) -> Any:
    """Return great-circle distances in kilometers."""
    lat, lon = np.radians(places).T
    across = np.cos(lat)[:, None] * np.cos(lat)
    h = np.sin((lat[:, None] - lat) / 2) ** 2 + across * np.sin((lon[:, None] - lon) / 2) ** 2
    return 2 * 6371.0088 * np.arcsin(np.sqrt(np.clip(h, 0.0, 1.0)))
