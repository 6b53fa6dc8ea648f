"""`dualclust cluster --sizes`: bounds on loads, their files, and what is refused."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from dualclust import ConstrainedKMeans
from tests.cli.cluster_files import cluster, error_of

RNG = np.random.default_rng(0)
STOPS, DEMAND = RNG.random((80, 2)).astype(np.float32), RNG.integers(1, 21, 80)
TOTAL = int(DEMAND.sum())


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loads")
    lines = [f"{x:.9g},{y:.9g},{w}" for (x, y), w in zip(STOPS, DEMAND, strict=True)]
    (folder / "stops.csv").write_text("\n".join(["x,y,demand", *lines, ""]))
    np.save(folder / "X.npy", STOPS)
    np.save(folder / "demand.npy", DEMAND.astype(np.float64))
    return folder


def test_a_column_and_a_file_are_one(work, tmp_path, capsys) -> None:
    most = TOTAL // 8 + 6
    common = ["--metric", "euclidean", "--lower", "0", "--max-count", str(most)]
    out = [tmp_path / "column", tmp_path / "file"]
    assert cluster(work / "stops.csv", *common, "--sizes", "demand", "--out", out[0], k=8) == 0
    said = capsys.readouterr().out
    given = ["--sizes", work / "demand.npy", "--out", out[1]]
    assert cluster(work / "X.npy", *common, *given, k=8) == 0
    labels = np.load(out[0] / "labels.npy")
    np.testing.assert_array_equal(labels, np.load(out[1] / "labels.npy"))
    loads = np.bincount(labels, DEMAND, minlength=8)
    assert loads.max() <= most
    report = json.loads((out[0] / "result.json").read_text())
    assert (report["loads"], report["largest_overload"]) == ("inside", 0.0)
    assert (report["smallest_load"], report["largest_load"]) == (loads.min(), loads.max())
    assert f"loads               {loads.min():g} to {loads.max():g}, bounds 0 to {most}" in said
    assert report["mean_squared_distance_bound"] <= report["mean_squared_distance"]
    with (out[0] / "loads.csv").open() as file:
        lines = list(csv.DictReader(file))
    np.testing.assert_array_equal([float(line["load"]) for line in lines], loads)
    assert {float(line["max_load"]) for line in lines} == {most}
    assert not (out[0] / "model.npz").exists()  # its prices would be taken for those of counts


def test_shares_are_of_the_mean_load_as_in_the_estimator(work, tmp_path) -> None:
    given = ["--metric", "euclidean", "--lower", "0.9", "--upper", "1.1", "--sizes", "demand"]
    assert cluster(work / "stops.csv", *given, "--out", tmp_path / "o", k=5) == 0
    centers = np.load(tmp_path / "o" / "centers.npy")
    model = ConstrainedKMeans(5, lower=0.9, upper=1.1, init=centers, max_iter=1)
    model.fit(STOPS, sizes=DEMAND)
    loads = np.bincount(np.load(tmp_path / "o" / "labels.npy"), DEMAND, minlength=5)
    np.testing.assert_array_equal(np.sort(loads), np.sort(model.loads_))
    assert cluster(work / "stops.csv", *given, "--time", "1e-9", "--out", tmp_path / "t", k=5) == 0
    report = json.loads((tmp_path / "t" / "result.json").read_text())
    assert (report["passes"], report["converged"]) == (0, False)
    assert (loads >= 0.9 * TOTAL / 5).all()
    assert (loads <= 1.1 * TOTAL / 5).all()


def test_what_cannot_be_is_refused_before_anything_is_written(work, tmp_path, capsys) -> None:
    def said(code, *given):
        out = tmp_path / "none"
        text = error_of(capsys, code, "cluster", work / "stops.csv", *given, "--out", out, "-k", 3)
        assert not out.exists()
        return text

    sizes = ["--sizes", "demand", "--metric", "euclidean"]
    assert "upper bounds add up to" in said(65, *sizes, "--lower", 0, "--max-count", 10)
    assert "--sizes does not go with --max-out" in said(2, *sizes, "--max-out", 3)
    assert "--sizes does not go with --weights" in said(2, *sizes, "--weights", "x")
    assert "--sizes does not go with --report" in said(2, *sizes, "--report")
    np.save(tmp_path / "short.npy", np.ones(5))
    assert "80" in said(65, "--sizes", tmp_path / "short.npy", "--metric", "euclidean")
