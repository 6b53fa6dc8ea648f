"""choose_k: planted numbers of clusters, noise, prices of bounds, samples, ranks, refusals."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import feature_source
from dualclust.algos.selection import ChoiceOfK, choose_k
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH
from tests.problems import unit_rows
from tests.unit.clustering.test_kmeans_sources import EDGES, D, N, on_ranks

FAST = {"n_splits": 2, "n_init": 2}


def planted(k, n=400, d=3, seed=0, sizes=None):
    """Clusters on the corners of a grid, six standard deviations apart."""
    rng = np.random.default_rng(seed)
    corners = 6.0 * np.stack(np.meshgrid(*[np.arange(3)] * d), axis=-1).reshape(-1, d)
    labels = np.arange(n) % k if sizes is None else np.arange(k).repeat(sizes)
    at = rng.permutation(len(corners))[:k]
    return corners[at][labels] + rng.normal(size=(len(labels), d))


def arrays(found):
    return {name: v for name, v in found._asdict().items() if hasattr(v, "shape")}


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda library: library.name)
def test_figures_on_every_library(library):
    x = library.asarray(planted(3, n=60))
    found = choose_k(x, [2, 3, 4], shares=[(0.9, 1.1)], metric="euclidean", **FAST)
    assert found.recommended == 3
    assert found.recommended_shares == (0.9, 1.1)
    like = library.asarray(np.zeros((3, 2)))
    for name in ("objective", "gap", "silhouette", "stability", "price", "all_objective"):
        assert_same_kind(getattr(found, name), like)
    assert to_numpy(found.ks).tolist() == [2, 3, 4]
    assert to_numpy(found.shares).tolist() == [[0.0, math.inf], [0.9, 1.1]]
    assert to_numpy(found.smallest)[1].tolist() == [20, 20]


@pytest.mark.parametrize(("k", "seed"), [(3, 0), (5, 1), (8, 2)])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_planted_k_is_found(k, seed, metric):
    if metric == "cosine":
        rng = np.random.default_rng(seed)
        directions = np.linalg.qr(rng.normal(size=(16, 16)))[0][:k]
        x = unit_rows(directions[np.arange(400) % k] + 0.08 * rng.normal(size=(400, 16)))
    else:
        x = planted(k, seed=seed)
    found = choose_k(x, [2, 3, 4, 5, 6, 8, 10], metric=metric, seed=seed)
    assert found.recommended == k, found.reason
    assert found.reason.startswith(f"k = {k} stands out")


@pytest.mark.parametrize(("kind", "seed"), [("uniform", 0), ("normal", 1), ("rod", 2)])
def test_noise_has_no_k(kind, seed):
    rng = np.random.default_rng(seed)
    x = {
        "uniform": lambda: rng.uniform(size=(400, 2)),
        "normal": lambda: rng.normal(size=(400, 3)),
        "rod": lambda: rng.uniform(size=(400, 2)) * [4.0, 1.0],
    }[kind]()
    found = choose_k(x, [2, 3, 4, 6, 9], metric="euclidean", seed=seed)
    assert found.recommended is None
    assert found.reason.startswith("no k stands out")


def test_prices_are_certified():
    """Groups of unequal sizes: tight bounds must cost, loose ones nothing."""
    x = planted(4, sizes=[200, 100, 70, 30])
    shares = [(0.2, 4.0), (0.8, 1.25), (1.0, 1.0)]
    found = choose_k(x, [2, 4, 7], shares=shares, metric="euclidean", **FAST)
    assert np.all(found.price[:, 0] == 0.0)
    assert np.all(found.price_proven >= 0.0)
    assert np.all(found.price >= found.price_proven)
    assert np.all(found.price - found.price_proven <= 2e-4)  # the gap of the labels
    i = 1
    assert found.price[i, 1] == pytest.approx(0.0, abs=1e-12)
    assert 0.03 < found.price[i, 2] < found.price[i, 3]
    assert found.recommended == 4
    assert found.recommended_shares == (0.2, 4.0)
    assert (found.smallest[i, 3], found.largest[i, 3]) == (100, 100)
    # No labels inside the bounds that we can find are worth more than the proof allows.
    free = found.objective[i, 0] * len(x)
    bounds = SizeBounds.from_ratios(4, n_samples=len(x), lower=1.0, upper=1.0)
    for start in range(3):
        centers = x[start::100][:4] - x.mean(axis=0)
        other = constrained_kmeans(x - x.mean(axis=0), bounds, centers, metric="euclidean")
        assert other.objective <= free * (1.0 - 0.9 * found.price[i, 3])


def test_without_bounds_there_is_no_word_of_them():
    found = choose_k(planted(3), [3], metric="euclidean", **FAST)
    assert found.shares.tolist() == [[0.0, math.inf]]
    assert (found.recommended_shares, found.shares_reason) == (None, "")


@pytest.mark.unjudged(reason="it counts how often rows are read")
def test_the_sample_stands_for_all_rows_and_these_are_read_once():
    x = planted(4, n=3 * MOST_ROWS, seed=1)
    source, read = feature_source(x), []
    counted = source._replace(rows=lambda a, b: read.append(b - a) or source.rows(a, b))
    found = choose_k(counted, [2, 4], shares=[(0.9, 1.1)], metric="euclidean", n_drawn=800, **FAST)
    assert sum(read) == len(x)
    assert (found.n_samples, found.n_drawn) == (len(x), 800)
    whole = choose_k(x, [4], shares=[(0.9, 1.1)], metric="euclidean", n_drawn=len(x), **FAST)
    assert whole.n_drawn == len(x)
    assert whole.all_silhouette[0, 0] == whole.silhouette[0, 0]
    # Centers of 200 rows each: within-cluster squares about 1/200 above the best.
    total = 0.5 * ((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert total - found.all_objective[1, 0] < 1.02 * (total - whole.objective[0, 0])
    assert found.all_silhouette[1, 0] == pytest.approx(whole.silhouette[0, 0], abs=0.01)
    assert found.all_price_proven[1, 1] <= whole.price[0, 1] + 0.01


def test_directions_are_not_moved():
    """Near one pole of the sphere, every row has nearly the direction of its center."""
    rng = np.random.default_rng(0)
    poles = np.asarray([[5.0, 1.0, 0.0], [5.0, -1.0, 0.0]])
    x = unit_rows(poles[np.arange(60) % 2] + 0.05 * rng.normal(size=(60, 3)))
    found = choose_k(x, [2, 3], metric="cosine", **FAST)
    centers = unit_rows(np.stack([x[::2].mean(axis=0), x[1::2].mean(axis=0)]))
    assert found.objective[0, 0] == pytest.approx((x @ centers.T).max(axis=1).mean(), rel=1e-9)
    assert 0.999 < found.objective[0, 0] <= found.objective[1, 0] <= 1.0


def test_neither_unit_nor_place_matters():
    x = planted(3, n=120)
    one = choose_k(x, [2, 3], shares=[(0.5, 2.0)], metric="euclidean", **FAST)
    other = choose_k(2.0**20 * (x + 64.0), [2, 3], shares=[(0.5, 2.0)], metric="euclidean", **FAST)
    for name in ("silhouette", "stability", "price", "reference"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6)
    np.testing.assert_allclose(2.0**40 * one.objective, other.objective, rtol=1e-9)


def test_extreme_and_equal_rows_give_numbers():
    rng = np.random.default_rng(0)
    for x in (
        np.full((30, 2), 7.0),
        1e150 * rng.normal(size=(30, 2)),
        1e-150 * rng.normal(size=(30, 2)),
        np.repeat(np.eye(3), 10, axis=0),
    ):
        found = choose_k(x, [2, 3], shares=[(0.9, 1.1)], metric="euclidean", **FAST)
        assert all(np.isfinite(v).all() for name, v in arrays(found).items() if name != "shares")


@pytest.mark.parametrize("ranks", ["two", "one without rows"])
def test_ranks_change_no_bit(ranks):
    x = np.random.default_rng(0).normal(size=(N, D))

    def work(source):
        options = {"metric": "euclidean", "n_drawn": 200, **FAST}
        return choose_k(source, [2, 3], shares=[(0.9, 1.1)], **options)

    results, errors = on_ranks(x, EDGES[ranks], work)
    assert not any(errors), errors
    expected = arrays(work(feature_source(x)))
    for found in results:
        assert isinstance(found, ChoiceOfK)
        assert {n: v.tobytes() for n, v in arrays(found).items()} == {
            n: v.tobytes() for n, v in expected.items()
        }


def test_progress_and_seed():
    x, seen = planted(3, n=90), []
    one, same, other = (
        choose_k(
            x,
            [2, 3],
            metric="euclidean",
            seed=seed,
            progress=lambda done, total: seen.append((done, total)),
            **FAST,
        )
        for seed in (1, 1, 2)
    )
    assert seen == [(1, 2), (2, 2)] * 3
    assert np.array_equal(one.stability, same.stability)
    assert not np.array_equal(one.stability, other.stability)


@pytest.mark.parametrize(
    ("ks", "options", "error", "text"),
    [
        ([], {}, InvalidValueError, "ks must be rising numbers"),
        ([3, 2], {}, InvalidValueError, "ks must be rising numbers"),
        ([1, 2], {}, InvalidValueError, r"ks\[0\] must be at least 2, got 1"),
        ([2.0], {}, InvalidTypeError, r"ks\[0\] must be an int"),
        ("2", {}, InvalidTypeError, "ks must be a sequence"),
        ([6], {}, InvalidValueError, "two rows per cluster, got 10 rows for k=6"),
        ([2, 6], {}, InvalidValueError, "two rows per cluster, got 10 rows for k=6"),
        ([2, 3], {"n_drawn": 5}, InvalidValueError, "n_drawn must be at least 6, got 5"),
        (
            [2],
            {"shares": [(1.1, 2.0)]},
            InvalidValueError,
            r"shares\[0\]\[0\] must lie in \[0, 1\]",
        ),
        ([2], {"shares": [(0.5, 0.9)]}, InvalidValueError, r"shares\[0\]\[1\] must lie"),
        ([2], {"shares": [0.5]}, InvalidTypeError, r"shares\[0\] must be a pair"),
        ([2], {"metric": "taxi"}, InvalidValueError, "metric must be one of"),
        ([2], {"n_drawn": 3}, InvalidValueError, "n_drawn must be at least 4"),
        ([2], {"n_splits": 1}, InvalidValueError, "n_splits must be at least 2"),
        ([2], {"n_init": 0}, InvalidValueError, "n_init must be at least 1"),
        ([2], {"seed": 2**63}, InvalidValueError, "seed must be below"),
    ],
)
def test_refusals(ks, options, error, text):
    x = np.arange(20.0).reshape(10, 2)
    with pytest.raises(error, match=text):
        choose_k(x, ks, **{"metric": "euclidean", **options})


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_not_a_number_is_refused(metric):
    x = unit_rows(np.random.default_rng(0).normal(size=(20, 2)))
    x[3, 1] = math.nan
    with pytest.raises(InvalidValueError, match="features must be finite"):
        choose_k(x, [2], metric=metric)
