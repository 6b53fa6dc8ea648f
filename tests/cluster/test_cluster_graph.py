"""``dualclust cluster --graph``: the result, its model file, and what does not go with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dualclust import SpectralConstrainedKMeans
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.cli.main import main
from dualclust.cluster.model import read_model

pytestmark = pytest.mark.unjudged(
    reason="centers are in coordinates of a graph, not in those of the rows"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "X.npy"
    np.save(path, load_digits().data[:900])
    return path


@pytest.fixture(scope="module")
def found(rows: Path) -> Path:
    out = rows.parent / "found"
    assert main(["cluster", str(rows), "-k", "10", "--graph", "--out", str(out), "--report"]) == 0
    return out


def labels(folder: Path) -> np.ndarray:
    return np.load(folder / "labels.npy")


def test_it_finds_what_the_estimator_finds(found: Path) -> None:
    digits = load_digits()
    result = json.loads((found / "result.json").read_text())
    assert (result["min_count"], result["max_count"]) == (27, 225)  # 0.3 and 2.5 of 90
    assert result["violation"] == 0
    assert result["relative_gap"] <= 1e-4
    assert result["graph"]["neighbors"] == 15
    assert result["graph"]["rows"] == 900
    assert result["graph"]["eigenvalues"][0] == pytest.approx(1.0, abs=1e-8)
    ours = clustering_scores(digits.target[:900], labels(found)).acc
    model = SpectralConstrainedKMeans(10, random_state=0).fit(digits.data[:900])
    assert ours > 0.8
    assert abs(ours - clustering_scores(digits.target[:900], model.labels_).acc) < 0.1
    assert (found / "report.html").stat().st_size > 10_000


def test_its_model_repeats_the_labels_and_places_other_rows(
    found: Path, rows: Path, tmp_path: Path
) -> None:
    again, more = tmp_path / "again", tmp_path / "more"
    assert main(["assign", str(found), str(rows), "--prices", "--out", str(again)]) == 0
    assert (labels(again) == labels(found)).mean() > 0.99
    np.save(tmp_path / "Y.npy", load_digits().data[900:].astype(np.float32))
    assert main(["assign", str(found), str(tmp_path / "Y.npy"), "--out", str(more)]) == 0
    assert clustering_scores(load_digits().target[900:], labels(more)).acc > 0.75


def test_the_model_file_holds_the_graph(found: Path, tmp_path: Path, capsys) -> None:
    model = read_model(found)
    assert model.graph is not None
    assert model.graph.rows.shape == (900, 64)
    assert model.centers.shape == (10, 10)
    with np.load(found / "model.npz") as archive:
        arrays = dict(archive)
    for change, message in (
        ({"graph_origin": None}, "a part of a graph"),
        ({"graph_vectors": arrays["graph_vectors"][:5]}, "graph_vectors"),
        ({"graph_neighbors": np.int64(900)}, "too many neighbors"),
        ({"format": np.int64(1)}, "has the format 1"),
        ({"graph_rows": arrays["graph_rows"] * np.nan}, "NaN or infinity"),
    ):
        changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
        np.savez(tmp_path / "model.npz", **changed)
        assert main(["assign", str(tmp_path), str(tmp_path / "no.npy")]) != 0
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-k", "10", "--graph", "0"], "--graph must be at least 1"),
        (["-k", "10", "--graph", "--metric", "euclidean"], "--metric euclidean"),
        (["-k", "10", "--graph", "--dry-run"], "--dry-run"),
        (["-k", "900", "--graph"], "no coordinates for 900 clusters"),
        (["--k-range", "5:10:5", "--graph"], "--k-range"),
    ],
)
def test_what_does_not_go_with_it(rows: Path, tmp_path: Path, capsys, words, message) -> None:
    assert main(["cluster", str(rows), *words, "--out", str(tmp_path / "out")]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_time_limit_leaves_labels_inside_their_bounds(rows: Path, tmp_path: Path) -> None:
    """The graph comes to its end; no update is begun."""
    out = tmp_path / "out"
    options = ["-k", "10", "--graph", "--time", "0", "--upper", "1.2", "--out", str(out)]
    assert main(["cluster", str(rows), *options]) == 0
    result = json.loads((out / "result.json").read_text())
    assert (result["passes"], result["converged"], result["violation"]) == (0, False, 0)
    assert 27 <= result["smallest_cluster"] <= result["largest_cluster"] <= 108
