"""A survey against scikit-learn's silhouette, the definitions, and the best labels there are."""

import math

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import feature_source
from dualclust.algos.selection import Candidate, survey
from tests.compare import to_numpy
from tests.problems import unit_rows
from tests.unit.clustering.test_kmeans_sources import EDGES, D, N, on_ranks


def plain(x, centers, metric):
    """Scores and distances by their definitions."""
    x, centers = np.asarray(x, np.float64), np.asarray(centers, np.float64)
    distances = np.linalg.norm(x[:, None, :] - centers[None, :, :], axis=2)
    if metric == "cosine":
        return x @ centers.T, distances
    return 0.5 * ((x**2).sum(axis=1)[:, None] - distances**2), distances


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_silhouette_is_that_of_scikit_learn_where_samples_coincide(xp, metric):
    """Then the mean distance to a cluster is the distance to its center."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 3))
    centers = unit_rows(centers) if metric == "cosine" else centers
    labels = np.arange(4).repeat(3)
    rows = centers[labels]
    # Not all on their centers: a wrong label makes a silhouette below 1.
    labels[0] = 1
    candidate = Candidate(xp.asarray(centers), labels=xp.asarray(labels))
    [found] = survey(feature_source(xp.asarray(rows)), (candidate,), metric=metric)
    # scikit-learn's mean distance of row 0 to "its" cluster leaves row 0 out; ours is to a center.
    own = np.linalg.norm(rows[0] - centers[1])
    expected = (11.0 + (0.0 - own) / own) / 12.0
    assert found.silhouette == pytest.approx(expected, abs=1e-6)
    [right] = survey(
        feature_source(xp.asarray(rows)), (Candidate(xp.asarray(centers)),), metric=metric
    )
    assert right.silhouette == pytest.approx(
        silhouette_score(rows, np.arange(4).repeat(3)), abs=1e-6
    )


def test_a_silhouette_between_scikit_learn_s_in_general():
    """Two points a cluster, far apart: the mean of two distances is nearly that to the middle."""
    x = np.asarray([[-100.0, 0.5], [-100.0, -0.5], [100.0, 0.5], [100.0, -0.5]])
    [found] = survey(
        feature_source(x),
        (Candidate(np.asarray([[-100.0, 0.0], [100.0, 0.0]])),),
        metric="euclidean",
    )
    labels = np.asarray([0, 0, 1, 1])
    assert found.silhouette == pytest.approx(1.0 - 0.5 / 200.0, abs=1e-5)
    assert silhouette_score(x, labels) == pytest.approx(1.0 - 1.0 / 200.0, abs=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_values_by_their_definitions(xp, metric):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    x = unit_rows(x) if metric == "cosine" else x
    prices = rng.normal(size=4) * 0.2
    bounds = SizeBounds.from_ratios(4, n_samples=50, lower=0.8, upper=1.2)
    scores, distances = plain(x, x[:4], metric)
    candidates = (
        Candidate(xp.asarray(x[:4])),
        Candidate(
            xp.asarray(x[:4]),
            xp.asarray(prices),
            SizeBounds.from_ratios(
                4, n_samples=50, lower=0.8, upper=1.2, xp=xp.namespace, device=xp.device
            ),
        ),
    )
    free, bound = survey(feature_source(xp.asarray(x)), candidates, metric=metric)
    for found, labels in ((free, scores.argmax(1)), (bound, (scores + prices).argmax(1))):
        rows = np.arange(50)
        a = distances[rows, labels]
        others = distances.copy()
        others[rows, labels] = math.inf
        b = others.min(axis=1)
        silhouettes = (b - a) / np.maximum(a, b)
        assert found.silhouette == pytest.approx(silhouettes.mean(), abs=1e-6)
        assert found.objective == pytest.approx(scores[rows, labels].sum(), rel=1e-6)
        assert found.free == pytest.approx(scores.max(axis=1).sum(), rel=1e-6)
        assert to_numpy(found.counts).tolist() == np.bincount(labels, minlength=4).tolist()
    assert free.upper_bound == free.free
    best = assign_exact(scores, bounds)
    assert bound.upper_bound >= best.objective - 1e-6
    # At the best prices the bound is the value of the best labels.
    [tight] = survey(feature_source(x), (Candidate(x[:4], best.prices, bounds),), metric=metric)
    assert tight.upper_bound == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.unjudged(reason="it counts how often rows are read")
def test_rows_are_read_once_for_all_candidates():
    x = np.random.default_rng(0).normal(size=(2 * MOST_ROWS + 10, 2))
    source, reads = feature_source(x), []
    counted = source._replace(rows=lambda a, b: reads.append((a, b)) or source.rows(a, b))
    survey(counted, tuple(Candidate(x[:k]) for k in (2, 3, 40)), metric="euclidean")
    reads = [(a, b) for a, b in reads if b > a]
    assert [a for a, _ in reads[1:]] == [b for _, b in reads[:-1]]
    assert (reads[0][0], reads[-1][1]) == (0, len(x))


@pytest.mark.parametrize("ranks", EDGES)
def test_ranks_change_no_bit(ranks):
    x = np.random.default_rng(0).normal(size=(N, D))
    bounds = SizeBounds.from_ratios(5, n_samples=N, lower=0.8)
    candidates = (Candidate(x[:3]), Candidate(x[:5], np.linspace(0.0, 0.1, 5), bounds))

    def work(source):
        found = survey(source, candidates, metric="euclidean")
        return [(*part[:4], part.counts.tolist()) for part in found]

    results, errors = on_ranks(x, EDGES[ranks], work)
    assert not any(errors)
    assert all(result == work(feature_source(x)) for result in results)


def test_no_candidate_and_equal_rows():
    x = np.ones((5, 2))
    assert survey(feature_source(x), (), metric="euclidean") == ()
    [found] = survey(feature_source(x), (Candidate(x[:2]),), metric="euclidean")
    assert found.silhouette == 0.0
    assert found.counts.tolist() == [5, 0]


def test_errors():
    source = feature_source(np.ones((5, 2)))
    bounds = SizeBounds.from_ratios(2, n_samples=4)
    for candidate, text in (
        (Candidate(np.ones((1, 2))), "at least two"),
        (Candidate(np.ones((2, 3))), "centers"),
        (Candidate(np.ones((2, 2)), np.ones(3)), "prices"),
        (Candidate(np.ones((2, 2)), np.ones(2), bounds), "bounds must be of 5 samples"),
        (Candidate(np.ones((2, 2)), labels=np.full(5, 2)), "labels must lie"),
    ):
        with pytest.raises(InvalidValueError, match=text):
            survey(source, (candidate,), metric="euclidean")
    far = feature_source(np.asarray([[0.0], [1e300]]))
    with pytest.raises(InvalidValueError, match="that do not overflow"):
        survey(far, (Candidate(np.asarray([[0.0], [1.0]])),), metric="euclidean")
