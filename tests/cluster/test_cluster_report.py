"""`--report`: the pictures say what the result says, and the page needs nothing else."""

from __future__ import annotations

import argparse
import base64
import io
import re

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.cluster import report
from dualclust.cluster.output import Clusters, result_of
from dualclust.cluster.report import draw_report
from tests.problems import unit_rows

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")


def clusters(k, n, lower=0.7, upper=1.3, metric="cosine", d=6):
    rng = np.random.default_rng(0)
    centers = unit_rows(rng.normal(size=(k, d)))
    x = unit_rows(centers[rng.integers(k, size=n) ** 2 // k] + 0.3 * rng.normal(size=(n, d)))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper)
    offsets = None if metric == "cosine" else -0.5 * (centers**2).sum(axis=1)
    found = assign_source(product_source(feature_source(x), centers, offsets=offsets), bounds)
    options = argparse.Namespace(metric=metric, lower=lower, upper=upper, seed=0)
    whole = Clusters(
        found.labels,
        centers,
        found.counts,
        bounds.lower,
        bounds.upper,
        found.prices,
        found.objective,
        found.upper_bound,
        found.gap,
        3,
        True,
    )
    squared = None if metric == "cosine" else 1.0
    return feature_source(x), whole, result_of(whole, options, weight=n, squared=squared)


@pytest.mark.parametrize(
    ("k", "n", "options"),
    [
        (8, 400, {}),
        (100, 3000, {"lower": 0.9, "upper": np.inf}),
        (1, 20, {}),
        (5, 5, {"lower": 0.0, "upper": np.inf, "metric": "euclidean"}),
        (3, 40, {"d": 1}),
    ],
    ids=str,
)
def test_picture_and_page(k, n, options) -> None:
    source, found, result = clusters(k, n, **options)
    files = draw_report(source, found, result, title="<X & Y>.npy")
    assert list(files) == ["report.png", "report.html"]
    picture = Image.open(io.BytesIO(files["report.png"]))
    assert picture.size == (2200, 1500)
    pixels = np.asarray(picture.convert("L"))
    for half in (pixels[:750], pixels[750:]):  # nothing is cut off at the edges
        assert (half < 128).any()
    assert (pixels[:, :8] == 255).all()
    assert (pixels[:, -8:] == 255).all()
    page = files["report.html"].decode()
    [inside] = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert base64.b64decode(inside) == files["report.png"]
    assert not re.findall(r"(?:https?:)?//|<script|<link", page.replace(inside, ""))
    assert "<X & Y>" not in page
    assert "&lt;X &amp; Y&gt;.npy" in page
    lines = re.findall(r"<tr[^>]*><td>(\d+)</td><td>([\d,]+)</td>", page)
    assert [(int(i), int(size.replace(",", ""))) for i, size in lines] == list(
        enumerate(found.counts.tolist())
    )


def test_equal_results_are_equal_files() -> None:
    source, found, result = clusters(8, 400)
    first, again = (draw_report(source, found, result, title="X") for _ in range(2))
    assert first == again
    assert draw_report(source, found._replace(prices=-found.prices), result, title="X") != first


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_margins_are_those_of_the_rows(metric, weighted) -> None:
    source, found, _ = clusters(5, 60, metric=metric)
    x = source.rows(0, 60)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=60) if weighted else None
    ids = np.arange(0, 60, 7)
    got = report._margins(x[ids], ids, found, metric, weights)
    for margin, i in zip(got, ids, strict=True):
        scores = x[i] @ found.centers.T
        if metric == "euclidean":
            scores = -0.5 * ((x[i] - found.centers) ** 2).sum(axis=1)
        priced = np.sort((1.0 if weights is None else weights[i]) * scores + found.prices)
        assert margin == pytest.approx(priced[-1] - priced[-2], abs=1e-12)


def test_the_map_is_the_plane_of_most_spread() -> None:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(200, 2)) * [3.0, 1.0]
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    points = flat @ turn + 7.0
    at, centers, share = report._project(points, points[:3])
    assert share == pytest.approx(1.0)
    np.testing.assert_allclose(centers, at[:3], atol=1e-9)
    between = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(at[:, None] - at[None], axis=2), between, atol=1e-9)
    assert at[:, 0].var() > at[:, 1].var()


def test_a_sample_of_many_rows(monkeypatch) -> None:
    monkeypatch.setattr(report, "SAMPLE", 100)
    monkeypatch.setattr(report, "DOTS", 30)
    monkeypatch.setattr(report, "LISTED", 3)
    source, found, result = clusters(8, 450)
    asked: list[int] = []

    def take(ids):
        asked.append(len(ids))
        return source.take(ids)

    page = draw_report(source._replace(take=take), found, result, title="X")["report.html"]
    assert asked == [90]
    lines = re.findall(r"<tr[^>]*><td>(\d+)</td><td>[\d,]+</td>", page.decode())
    assert len(lines) == 3
    largest = np.argsort(-np.abs(found.prices))[:3]
    assert sorted(map(int, lines)) == sorted(largest.tolist())
