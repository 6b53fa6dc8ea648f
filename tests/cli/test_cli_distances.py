"""`dualclust cluster` of places, of matrices of distances, and of wide sparse rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sparse

from dualclust import ConstrainedKMeans, ConstrainedKMedoids
from dualclust.cli.main import main
from tests.cli.cluster_files import cluster, error_of
from tests.judge_medoid_files import haversine

RNG = np.random.default_rng(0)
PLACES = np.stack([RNG.normal(-17.0, 0.5, 120), RNG.normal(180.0, 2.0, 120)], axis=1)
MATRIX = haversine(PLACES)
# 21 words a row; the first of each is one of 90, which it may hold twice.
WORDS = np.sort(RNG.integers(0, 100_000, (700, 21)), axis=1)
WORDS[:, 0] = np.arange(700) % 90
COUNTS = RNG.uniform(0.0, 1.0, WORDS.shape).astype(np.float32) + (np.arange(21) == 0)
WIDE = sparse.csr_array(
    (COUNTS.astype(np.float32).ravel(), WORDS.ravel(), 21 * np.arange(701)), shape=(700, 100_000)
)
WIDE.sum_duplicates()


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distances")
    lines = [f"place {i},{a:.6f},{b:.6f}" for i, (a, b) in enumerate(PLACES)]
    (folder / "places.csv").write_text("\n".join(["name,lat,lon", *lines, ""]))
    np.save(folder / "D.npy", MATRIX)
    np.save(folder / "w.npy", RNG.uniform(0.5, 2.0, size=120))
    (folder / "known.csv").write_text("row,cluster\n3,1\n4,2\n")
    sparse.save_npz(folder / "wide.npz", WIDE)
    return folder


def result(folder):
    return json.loads((folder / "result.json").read_text())


def test_places_and_their_matrix_are_one(work, tmp_path, capsys) -> None:
    common = ["--max-count", "33", "--gap", "0", "--weights", work / "w.npy"]
    more = ["--seeds", work / "known.csv"]
    out = [tmp_path / "places", tmp_path / "matrix"]
    place = ["--metric", "haversine", "--columns", "lat,lon", "--out", out[0]]
    assert cluster(work / "places.csv", *place, *common, *more) == 0
    said = capsys.readouterr().out
    matrix = ["--metric", "precomputed", "--out", out[1]]
    assert cluster(work / "D.npy", *matrix, *common, *more) == 0
    for name in ("labels.npy", "medoids.npy"):
        assert (out[0] / name).read_bytes() == (out[1] / name).read_bytes()
    labels = np.load(out[0] / "labels.npy")
    assert (labels[3], labels[4]) == (1, 2)
    report = result(out[0])
    assert f"mean distance       {report['mean_distance']:.6f} km\n" in said
    assert f"are below {report['mean_distance_bound']:.6f} km for these medoids (gap 0.0" in said
    assert report["mean_distance"] == pytest.approx(result(out[1])["mean_distance"], rel=1e-5)
    assert report["largest_cluster"] <= 33
    capsys.readouterr()
    assert "label new rows by ConstrainedKMedoids.predict" in error_of(
        capsys, 66, "assign", out[0], work / "places.csv"
    )
    model = ConstrainedKMedoids(
        4, metric="precomputed", lower=0.9, max_count=33, init=np.load(out[1] / "medoids.npy")
    )
    weights, fixed = np.load(work / "w.npy"), np.full(120, -1)
    fixed[[3, 4]] = [1, 2]
    model.fit(np.load(work / "D.npy"), sample_weight=weights, fixed=fixed)
    assert model.inertia_ / weights.sum() == pytest.approx(result(out[1])["mean_distance"])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_wide_sparse_rows_are_those_of_the_estimator(work, tmp_path, metric) -> None:
    out = tmp_path / "out"
    options = ["--metric", metric, "--gap", "0", "--tol", "0", "--out", out]
    assert cluster(work / "wide.npz", *options) == 0
    assert {p.name for p in out.iterdir()} == {
        "labels.npy", "centers.npy", "sizes.csv", "model.npz", "result.json"
    }  # fmt: skip
    labels, centers, report = np.load(out / "labels.npy"), np.load(out / "centers.npy"), result(out)
    same = ConstrainedKMeans(
        4, metric=metric, lower=0.9, upper=1.1, gap=0.0, init=centers, max_iter=0
    ).fit(WIDE)
    assert (same.labels_ == labels).mean() > 0.99
    assert (report["smallest_cluster"], report["largest_cluster"]) == (
        np.bincount(labels).min(),
        np.bincount(labels).max(),
    )
    assert np.bincount(labels).min() >= 157
    if metric == "euclidean":
        apart = np.asarray(
            [np.linalg.norm(WIDE[[i]].toarray() - centers[j]) for i, j in enumerate(labels)]
        )
        assert report["mean_squared_distance"] == pytest.approx((apart**2).mean(), rel=1e-5)
    else:
        unit = WIDE.toarray() / sparse.linalg.norm(WIDE, axis=1)[:, None]
        value = (unit * centers[labels]).sum(axis=1).mean()
        assert report["mean_similarity"] == pytest.approx(value, rel=1e-5)
    new = tmp_path / "new.npy"
    np.save(new, WIDE[:50].toarray())
    assert main(["assign", str(out), str(new), "--prices", "--out", str(tmp_path / "l.npy")]) == 0
    assert (np.load(tmp_path / "l.npy") == labels[:50]).mean() > 0.95


@pytest.mark.parametrize(
    ("file", "options", "text"),
    [
        ("D.npy", ["--metric", "haversine"], "must have two columns, latitude and longitude in"),
        ("w.npy", ["--metric", "precomputed"], "w.npy"),
        ("D.npy", ["--metric", "precomputed", "--report"], "--report does not go with --metric p"),
        ("D.npy", ["--metric", "precomputed", "--graph"], "--graph does not go with --metric pre"),
        ("D.npy", ["--metric", "precomputed", "--init", "random"], "--init random does not go"),
        ("D.npy", ["--metric", "precomputed", "--invalid", "drop"], "--invalid drop does not go"),
        ("D.npy", ["--metric", "precomputed", "--dry-run"], "--dry-run does not go with"),
        ("D.npy", ["--metric", "precomputed", "--table", "t.csv"], "--table does not go with"),
        ("wide.npz", ["--report"], "--report does not go with a sparse matrix that is too large"),
        ("wide.npz", ["--checkpoint", "s"], "--checkpoint does not go with a sparse matrix"),
    ],
)
def test_what_does_not_go_together(work, capsys, monkeypatch, file, options, text) -> None:
    monkeypatch.chdir(work)
    code = 65 if text.startswith(("must", "w.npy")) else 2
    place = [work / file, "-k", "4", *options, "--out", work / "none"]
    try:
        found = error_of(capsys, code, "cluster", *place)
    finally:
        assert not (work / "none").exists()
    assert text in found


def test_several_numbers_of_clusters_are_none_of_medoids(work, capsys) -> None:
    place = [work / "D.npy", "--k-range", "2:4", "--metric", "precomputed"]
    found = error_of(capsys, 2, "cluster", *place)
    assert "--metric precomputed clusters one number of clusters, and --k-range compares" in found
    assert "but for k-means of 'dualclust cluster'" in error_of(
        capsys, 65, "cluster", work / "wide.npz", "--k-range", "2:4"
    )


@pytest.mark.parametrize("what", ["asymmetric", "negative", "similarities", "cut", "nan"])
def test_matrices_with_mistakes(tmp_path, capsys, what) -> None:
    matrix = MATRIX[:30, :30].copy()
    texts = {
        "asymmetric": "D.npy must be symmetric, got entries (i, j) and (j, i) that differ by",
        "negative": "D.npy must lie in [0, 1e+100], got -1 in row 5",
        "similarities": "D.npy must be 0 on its diagonal, got 1",
        "cut": "D.npy must be a square matrix of dissimilarities of at least one row, got shape",
        "nan": "D.npy holds NaN or infinity in row 5",
    }
    if what == "asymmetric":
        matrix[3, 9] += 1.0
    if what == "negative":
        matrix[5, 7] = matrix[7, 5] = -1.0
    if what == "nan":
        matrix[5, 7] = np.nan
    matrix = np.exp(-matrix) if what == "similarities" else matrix[:, : 30 - (what == "cut")]
    np.save(tmp_path / "D.npy", matrix)
    place = [tmp_path / "D.npy", "-k", "3", "--metric", "precomputed"]
    assert texts[what] in error_of(capsys, 65, "cluster", *place)
    assert not (tmp_path / "D-clusters").exists()


def test_sparse_matrices_with_mistakes(tmp_path, capsys) -> None:
    def said(matrix, *options):
        sparse.save_npz(tmp_path / "X.npz", matrix)
        return error_of(capsys, 65, "cluster", tmp_path / "X.npz", "-k", "2", *options)

    wrong = WIDE.copy()
    wrong.data[7] = np.inf
    assert "X.npz holds NaN or infinity" in said(wrong)
    wrong = sparse.csr_array((WIDE.data, WIDE.indices, WIDE.indptr), shape=WIDE.shape)
    wrong.indices = wrong.indices.copy()
    wrong.indices[7] = WIDE.shape[1]
    assert "cannot be unpacked" in said(wrong)
    assert "complex" in said(WIDE.astype(np.complex64))
    none = sparse.vstack([WIDE, sparse.csr_array((2, WIDE.shape[1]), dtype=np.float32)])
    assert "holds only zeros in 2 rows, the first of them row 700" in said(none.tocsr())
    sparse.save_npz(tmp_path / "Y.npz", none.tocsr())
    assert cluster(tmp_path / "Y.npz", "--metric", "euclidean") == 0
