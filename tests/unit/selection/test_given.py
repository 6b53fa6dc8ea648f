"""choose_clustering: figures by their definitions, the rule on planted k, refusals."""

import math

import array_api_compat as compat
import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.scores.sources import feature_source
from dualclust.algos.selection import Candidate, choose_clustering, survey
from tests.libraries import ONE_EACH
from tests.problems import unit_rows

KS = (2, 3, 5)


def planted(seed=0, k=3, n=90):
    """Directions at right angles, with little noise."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(8, 8)))[0][:k]
    return unit_rows(directions[np.arange(n) % k] + 0.1 * rng.normal(size=(n, 8)))


def heads(x, library=None, ks=KS):
    """For each k, centers from its first rows, and labels inside bounds with their prices."""
    own = (lambda values: values) if library is None else library.asarray
    found = []
    for k in ks:
        centers = kmeans(x, x[:k], metric="cosine").centers
        bounds = SizeBounds.from_ratios(k, n_samples=len(x), lower=0.9, upper=1.1)
        labeled = assign_exact(x @ centers.T, bounds)
        like = own(centers)
        limits = SizeBounds.from_ratios(
            k,
            n_samples=len(x),
            lower=0.9,
            upper=1.1,
            xp=compat.array_namespace(like),
            device=compat.device(like),
        )
        found.append(Candidate(like, own(labeled.prices), limits, own(labeled.labels)))
    return found


AGREEMENTS = [[0.9, 0.8, 1.0], [0.95, 0.97, 0.96], [0.5, 0.7, 0.6]]


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda library: library.name)
def test_figures_by_their_definitions_on_every_library(library):
    x = planted()
    found = choose_clustering(library.asarray(x), heads(x, library), AGREEMENTS)
    assert (found.recommended, found.best) == (3, 3)
    words = "labels of two views of the same samples agree by 0.960 (adjusted Rand index)"
    assert found.reason.startswith(f"k = 3 stands out: {words}")
    assert [one.n_clusters for one in found.judged] == list(KS)
    for one, candidate, agreements in zip(found.judged, heads(x), AGREEMENTS, strict=True):
        scores = x @ candidate.centers.T
        value = scores[np.arange(len(x)), candidate.labels].sum()
        free = scores.max(axis=1).sum()
        assert one.price == pytest.approx(1.0 - value / free, abs=1e-9)
        assert 0.0 <= one.price_proven <= one.price + 1e-12
        assert one.price_proven == pytest.approx(one.price, abs=1e-9)  # the labels are optimal
        assert one.agreement == pytest.approx(np.mean(agreements))
        assert one.agreement_error == pytest.approx(np.std(agreements, ddof=1) / math.sqrt(3))
        sizes = np.bincount(candidate.labels)
        assert (one.smallest, one.largest) == (sizes.min(), sizes.max())
    (own,) = survey(feature_source(x), (heads(x)[1],), metric="cosine")
    assert found.judged[1].silhouette == pytest.approx(own.silhouette)
    assert found.judged[1].reference < found.judged[1].silhouette - 0.1


def test_bounds_against_the_data_have_a_price():
    x = planted(n=90)
    centers = unit_rows(np.stack([x[i::3].mean(axis=0) for i in range(3)]))
    uneven = np.concatenate([x[::3], x[::3], x[1::3], x[2:9:3]])
    bounds = SizeBounds.from_ratios(3, n_samples=len(uneven), lower=0.9, upper=1.1)
    labeled = assign_exact(uneven @ centers.T, bounds)
    candidate = Candidate(centers, labeled.prices, bounds, labeled.labels)
    found = choose_clustering(uneven, [candidate], [[1.0]])
    assert found.judged[0].price > 0.05
    assert found.judged[0].agreement_error == 0.0


def test_what_does_not_come_back_is_not_recommended():
    x = planted()
    found = choose_clustering(x, heads(x), [[0.7], [0.74], [0.6]], agreeing="views")
    assert (found.recommended, found.best) == (None, 3)
    words = "views agree by 0.740 (adjusted Rand index), and 0.75 is asked"
    assert found.reason == f"no k stands out: at k = 3, the best here, {words}"


def test_the_seed_draws_the_rows_without_clusters():
    x = planted()
    one, same, other = (
        choose_clustering(x, heads(x), AGREEMENTS, seed=seed).judged[0] for seed in (0, 0, 1)
    )
    assert one == same
    assert one.reference != other.reference
    assert one._replace(reference=0.0) == other._replace(reference=0.0)


@pytest.mark.parametrize(
    ("ks", "agreements", "words"),
    [
        ((), [], "at least one, got []"),
        ((3, 2), [[1.0]] * 2, "rising numbers of clusters"),
        ((3, 3), [[1.0]] * 2, "got [3, 3]"),
        ((2, 3), [[1.0]], "a list for each of the 2 candidates"),
        ((2, 3), [[1.0], []], "got [1, 0] entries"),
        ((2, 3), [[1.0], [1.5]], "agreements[1][0]"),
        ((2, 3), [[1.0], [math.nan]], "agreements[1][0]"),
        ((2, 46), [[1.0], [1.0]], "at least two rows per cluster"),
    ],
)
def test_refusals(ks, agreements, words):
    x = planted()
    candidates = [Candidate(x[:k]) for k in ks]
    with pytest.raises(InvalidValueError) as caught:
        choose_clustering(x, candidates, agreements)
    assert words in str(caught.value)


def spoiled(x, value):
    x = x.copy()
    x[1, 0] = value
    return x


@pytest.mark.parametrize(
    ("change_rows", "change_centers", "words"),
    [
        (
            lambda x: 10.0 * x,
            lambda c: c,
            "features must be finite unit rows, got one of length 10",
        ),
        (lambda x: spoiled(x, math.nan), lambda c: c, "features must be finite unit rows"),
        (lambda x: x, lambda c: 10.0 * c, "candidates[0].centers must be finite unit rows"),
        (lambda x: x, lambda c: 0.99 * c, "got one of length 0.99"),
        (lambda x: x, lambda c: spoiled(c, math.inf), "candidates[0].centers must be finite, got"),
    ],
)
def test_rows_and_centers_must_be_unit(change_rows, change_centers, words):
    x = planted()
    with pytest.raises(InvalidValueError) as caught:
        choose_clustering(change_rows(x), [Candidate(change_centers(x[:3]))], [[1.0]])
    assert words in str(caught.value)


def test_candidates_must_be_such():
    x = planted()
    with pytest.raises(InvalidTypeError, match=r"candidates\[0\] must be a Candidate"):
        choose_clustering(x, [x[:3]], [[1.0]])


def test_agreements_may_be_arrays():
    x = planted()
    found = choose_clustering(x, [Candidate(x[:3])], [np.asarray([0.0])])
    assert found.judged[0].agreement == 0.0
    two = choose_clustering(x, [Candidate(x[:3])], np.asarray([[0.5, 1.0]]))
    assert two.judged[0].agreement == 0.75
