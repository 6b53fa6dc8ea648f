"""Judges the folder of a training run by its labels, features, centers and prices.

assignments.csv has the labels of the prediction with their margins, runners-up and free choices;
the last record of metrics.jsonl has their sizes, spread and agreement with the classes, each
computed here by its definition. `WITHOUT` names the figures that nothing in the folder recomputes:
they are of the network, of held-out samples or of the epoch's own labels.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from tests.judge import require
from tests.judge_files import read_csv

COLUMNS = {"id", "cluster", "margin", "runner_up", "nearest", "class", "file"}
AGREEMENT = ("acc", "nmi", "nmi_geometric", "ari")
JUDGED = {f"{which}{name}" for which in ("", "argmax_") for name in AGREEMENT} | {
    "epoch",
    "part",
    "argmax_size_min",
    "argmax_size_max",
    "imbalance",
    "effective_clusters",
    "uniformity",
}
WITHOUT = re.compile(
    r"loss(_\w+)?|lr|size_(min|max)|churn|seconds|stored_acc|alarms|heads|knn|probe|(argmax_)?ami"
    r"|(test|head\d+)_\w+|center_gap|certified|interior|restarted|confident|parts|moved"
    r"|label_(gap|error)_(mean|max)"
)
"""Gaps are judged where `hardness_centers` and `pseudo_labels` return them, and `heads` where
`survey` does. AMI is scikit-learn's own."""


def agreement(labels: Any, classes: Any) -> dict[str, float]:
    """Return ACC, both kinds of NMI and ARI from the table of clusters and classes."""
    table = np.zeros((labels.max() + 1, classes.max() + 1))
    np.add.at(table, (labels, classes), 1)
    n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
    best = table[linear_sum_assignment(-table)].sum()

    def entropy(sizes: Any) -> float:
        share = sizes[sizes > 0] / n
        return float(-(share * np.log(share)).sum())

    own, true = entropy(rows), entropy(columns)
    mutual = own + true - entropy(table.ravel())
    pairs = [(sizes * (sizes - 1) / 2).sum() for sizes in (table, rows, columns)]
    expected = pairs[1] * pairs[2] / (n * (n - 1) / 2)
    most = (pairs[1] + pairs[2]) / 2
    return {
        "acc": best / n,
        "nmi": 2 * mutual / (own + true) if own + true else 1.0,
        "nmi_geometric": mutual / np.sqrt(own * true) if own * true else 0.0,
        "ari": (pairs[0] - expected) / (most - expected) if most != expected else 1.0,
    }


def judge_run(folder: Path, prediction: Any, scores: Any, *, evaluated: bool = True) -> None:
    """Judge a finished run, from its prediction on the host and the scores of its labels.

    `evaluated` says whether the figures of the last epoch are of the same head as the prediction.
    """
    lines, found = read_csv(folder / "assignments.csv"), prediction.assignment
    unknown = set(lines[0]) - COLUMNS
    require(not unknown, "each column of assignments.csv has a judge", unknown)
    labels, n = np.asarray(found.labels), len(found.labels)
    for name, of in (("cluster", labels), ("nearest", prediction.nearest)):
        require([int(line[name]) for line in lines] == np.asarray(of).tolist(), name)
    priced, k = np.asarray(scores, np.float64) + found.prices, scores.shape[1]
    off = 64 * 1.2e-7 * (np.abs(scores).max() + np.abs(found.prices).max())
    best = np.sort(priced, axis=1)
    margins = best[:, -1] - best[:, -2] if k > 1 else np.full(n, np.inf)
    told = np.asarray([float(line["margin"]) for line in lines])
    require((abs(margins - told)[margins < np.inf] <= off + 1e-6).all(), "margins", margins, told)
    free = np.asarray(scores, np.float64)
    nearest = free[np.arange(n), np.asarray(prediction.nearest)]
    require((nearest >= free.max(axis=1) - off).all(), "free choices", nearest)
    centers = np.load(folder / "centers.npy", allow_pickle=False)
    require(np.array_equal(centers, prediction.centers), "centers")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    require([r["epoch"] for r in records] == list(range(1, len(records) + 1)), "epochs", records)
    parts = [r.get("part", 1.0) for r in records]
    require(set(parts[:-1]) <= {1.0} and 0 < parts[-1] <= 1, "only a last epoch is cut", parts)
    unknown = {name for name in set(records[-1]) - JUDGED if not WITHOUT.fullmatch(name)}
    require(not unknown, "each figure of metrics.jsonl has a judge", unknown)
    if evaluated:
        judge_record(records[-1], prediction, lines)


def judge_record(record: dict[str, Any], prediction: Any, lines: list[dict[str, str]]) -> None:
    """Judge the figures of the last epoch."""
    counts = np.asarray(prediction.assignment.counts)
    nearest = np.asarray(prediction.nearest)
    share, sizes = counts[counts > 0] / counts.sum(), np.bincount(nearest, minlength=len(counts))
    x = np.asarray(prediction.features, np.float64)
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    true = {
        "argmax_size_min": sizes.min(),
        "argmax_size_max": sizes.max(),
        "imbalance": counts.min() / counts.max(),
        "effective_clusters": np.exp(-(share * np.log(share)).sum()),
        "uniformity": (x / np.where(lengths > 0, lengths, 1.0)).std(axis=0).mean(),
    }
    classes = np.asarray([int(line.get("class") or -1) for line in lines])
    if (known := classes >= 0).any():
        for which, labels in (("", np.asarray(prediction.assignment.labels)), ("argmax_", nearest)):
            figures = agreement(labels[known], classes[known])
            true |= {f"{which}{name}": value for name, value in figures.items()}
    for name in true.keys() & record.keys():
        off = 1e-6 * max(1.0, abs(true[name]))
        require(abs(record[name] - true[name]) <= off, name, record[name], true[name])
