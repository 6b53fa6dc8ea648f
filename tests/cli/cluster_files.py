"""Runs of `dualclust cluster` in tests: their input, and what they wrote, read and checked."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.problems import unit_rows

OUTPUTS = {"labels.npy", "centers.npy", "sizes.csv", "model.npz", "result.json"}


def groups(n=200, k=4, d=8, spread=0.3, seed=0):
    rng = np.random.default_rng(seed)
    directions = unit_rows(rng.normal(size=(k, d)))
    member = np.arange(n) % k
    lengths = rng.uniform(0.1, 10.0, size=(n, 1))
    return lengths * (directions[member] + spread * rng.normal(size=(n, d)) / np.sqrt(d)), member


def save(path, array=None):
    np.save(path, groups()[0] if array is None else array)
    return path


def listing(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def cluster(path, *options, k=4):
    return main(["cluster", str(path), "-k", str(k), *map(str, options)])


def outputs(folder):
    """The files, read."""
    assert {path.name for path in folder.iterdir()} == OUTPUTS
    with (folder / "sizes.csv").open() as file:
        sizes = list(csv.DictReader(file))
    return (
        np.load(folder / "labels.npy", allow_pickle=False),
        np.load(folder / "centers.npy", allow_pickle=False),
        sizes,
        json.loads((folder / "result.json").read_text()),
    )


def dual_of(scores, prices, lower, upper):
    """What no labels inside the bounds are worth more than, by weak duality at these prices."""
    paid = np.where(prices > 0.0, prices * lower, prices * upper)
    return (scores + prices).max(axis=1).sum() - paid.sum()


def check(folder, x, k, *, fixed=(), forbidden=()):
    """Everything that the files say, recomputed from the rows of the input.

    `fixed` and `forbidden` are pairs of a row and a cluster.
    """
    labels, centers, sizes, report = outputs(folder)
    x = unit_rows(np.asarray(x, np.float64))
    n = len(x)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert centers.shape == (k, x.shape[1])
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0, atol=1e-6)
    counts = np.bincount(labels, minlength=k)
    assert [int(row["cluster"]) for row in sizes] == list(range(k))
    assert [int(row["size"]) for row in sizes] == counts.tolist()
    for row in sizes:
        assert int(row["min_count"]) <= int(row["size"]) <= int(row["max_count"])
    value = (x * centers.astype(np.float64)[labels]).sum() / n
    assert report["mean_similarity"] == pytest.approx(value, abs=1e-6)
    with np.load(folder / "model.npz") as model:
        prices, lower, upper = (model[name] for name in ("prices", "lower", "upper"))
    scores = x @ centers.T.astype(np.float64)
    for row, cluster in fixed:
        assert labels[row] == cluster
        scores[row, np.arange(k) != cluster] = -np.inf
    for row, cluster in forbidden:
        assert labels[row] != cluster
        scores[row, cluster] = -np.inf
    dual = dual_of(scores, prices, lower, upper)
    assert report["mean_similarity_bound"] == pytest.approx(dual / n, abs=1e-6)
    assert report["relative_gap"] >= 0
    size = np.abs((x * centers[labels]).sum(axis=1)).sum()
    lost = report["relative_gap"] * max(size, abs(dual)) / n
    assert lost == pytest.approx(dual / n - value, abs=1e-6)
    assert (report["n_samples"], report["n_clusters"], report["violation"]) == (n, k, 0)
    assert report["smallest_cluster"] == counts.min() >= report["min_count"]
    assert report["largest_cluster"] == counts.max() <= report["max_count"]
    return labels, report


def error_of(capsys, code, *arguments):
    """Run and return the one line of the error."""
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualclust: error: ")
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert "Traceback" not in err
    return err
