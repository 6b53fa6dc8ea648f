"""k-means from sources: rows in blocks, shared out over ranks, and continued from a state."""

import itertools
import threading

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import KMeansState, constrained_kmeans, kmeans
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.scores.blocks import MOST_ROWS, block_rows
from dualclust.algos.scores.sources import (
    FeatureSource,
    Group,
    alone,
    feature_source,
)
from tests.libraries import LIBRARIES
from tests.problems import unit_rows
from tests.refusals import assert_refused

METRICS = ["cosine", "euclidean"]
N, D, K = 3 * MOST_ROWS + 500, 3, 6


def data(metric, n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D)) + np.array([2.0, 0.0, 0.0]) * (rng.random((n, 1)) < 0.7)
    return (unit_rows(x) if metric == "cosine" else 30.0 * x - 7.0).astype(np.float32)


def bits(state):
    """A nested tuple with arrays as bytes, so that equality is equality of bits."""
    if isinstance(state, tuple):
        return tuple(bits(part) for part in state)
    return state.tobytes() if hasattr(state, "tobytes") else state


def bounds_for(n):
    return SizeBounds.from_ratios(K, n_samples=n, lower=0.8, upper=1.2)


def run(method, source, n, start, **options):
    if method == "plain":
        return kmeans(source, start, **options)
    return constrained_kmeans(source, bounds_for(n), start, **options)


# Ranks -----------------------------------------------------------------------------------------


def on_ranks(x, edges, work):
    """Call ``work(source)`` in one thread per rank, whose arrays meet at a barrier."""
    n_ranks = len(edges) - 1
    slots, results, errors = [None] * n_ranks, [None] * n_ranks, [None] * n_ranks
    barrier = threading.Barrier(n_ranks, timeout=1200)

    def gather_of(rank):
        def gather(array):
            slots[rank] = array
            barrier.wait()
            joined = np.concatenate(slots)
            barrier.wait()
            return joined

        return gather

    def one(rank):
        first, last = edges[rank], edges[rank + 1]
        own = x[first:last].copy()
        group = Group(first, last - first, len(x), gather_of(rank))
        source = FeatureSource(D, lambda a, b: own[a:b], lambda ids: x[ids], group)
        try:
            results[rank] = work(source)
        except Exception as error:
            errors[rank] = error
            if not isinstance(error, InvalidValueError):
                barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, errors


EDGES = {
    "two": [0, 2 * MOST_ROWS, N],
    "four": [0, MOST_ROWS, 2 * MOST_ROWS, 3 * MOST_ROWS, N],
    "one without rows": [0, MOST_ROWS, MOST_ROWS, 2 * MOST_ROWS, N],
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["plain", "constrained"])
@pytest.mark.parametrize(
    "ranks", [pytest.param("two", marks=pytest.mark.slow), "four", "one without rows"]
)
def test_ranks_change_no_bit(ranks, method, metric, weighted):
    x = data(metric)
    w = np.random.default_rng(1).uniform(0.0, 3.0, size=N) if weighted else None

    def work(source):
        start = start_centers(source, K, seed=4, metric=metric, weights=w)
        return run(method, source, N, start, metric=metric, weights=w, max_iter=3)

    expected = work(feature_source(x))
    results, errors = on_ranks(x, EDGES[ranks], work)
    assert errors == [None] * len(errors)

    def labels(found):
        return found.labels if method == "plain" else found.assignment.labels

    np.testing.assert_array_equal(np.concatenate([labels(r) for r in results]), labels(expected))
    for found in results:
        if method == "plain":
            assert bits(found[1:]) == bits(expected[1:])
        else:
            assert bits(found.centers) == bits(expected.centers)
            assert bits(found.assignment[1:]) == bits(expected.assignment[1:])
            assert found[2:] == expected[2:]


def test_relocation_is_the_same_on_all_ranks():
    x = data("euclidean")
    x[[5, MOST_ROWS + 9, 2 * MOST_ROWS + 1]] += 1000.0
    start = np.concatenate([x[:1], np.full((K - 1, D), 1e6, np.float32)])
    expected = kmeans(x, start, metric="euclidean", max_iter=2)
    results, _ = on_ranks(
        x, EDGES["four"], lambda source: kmeans(source, start, metric="euclidean", max_iter=2)
    )
    for found in results:
        assert bits(found[1:]) == bits(expected[1:])


def test_an_error_in_one_rank_is_raised_in_all():
    x = data("cosine")
    x[MOST_ROWS + 3, 0] = np.nan
    _, errors = on_ranks(x, EDGES["four"], lambda source: kmeans(source, np.eye(3)))
    assert [f"row {MOST_ROWS + 3}" in str(error) for error in errors] == [True] * 4


# Blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["plain", "constrained"])
@pytest.mark.unjudged(reason="it measures the blocks that are read")
def test_rows_are_read_in_blocks_never_all(method, metric):
    x, most, taken = data(metric), [0], [0]

    def rows(start, stop):
        most[0] = max(most[0], stop - start)
        return x[start:stop].copy()

    def take(ids):
        taken[0] = max(taken[0], len(ids))
        return x[ids]

    expected = run(method, x, N, x[:K], metric=metric, max_iter=2)
    source = FeatureSource(D, rows, take, alone(N))
    found = run(method, source, N, x[:K], metric=metric, max_iter=2)
    assert bits(found) == bits(expected)
    assert most[0] <= block_rows(K) < N
    assert taken[0] < N


@pytest.mark.parametrize("metric", METRICS)
def test_the_objective_of_many_rows_never_falls_by_more_than_the_gap(metric):
    x, values = data(metric), []
    found = run(
        "constrained",
        x,
        N,
        x[:K],
        metric=metric,
        max_iter=6,
        tol=0.0,
        progress=lambda s, c: values.append(s.objective),
    )
    assert all(b >= a - 1e-3 * abs(b) for a, b in itertools.pairwise(values))
    assert values[-1] > values[0]
    assert found.assignment.gap <= 1e-4
    assert found.objective >= values[-1] - 1e-4 * abs(values[-1])


# Resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [400, N])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["plain", "constrained"])
def test_a_resumed_run_is_the_uninterrupted_one(method, metric, n):
    x = data(metric, n=n)
    w = np.random.default_rng(1).uniform(0.5, 3.0, size=n)
    options = {"metric": metric, "weights": w, "max_iter": 5, "tol": 0.005}
    states = []
    whole = run(method, x, n, x[:K], progress=lambda s, c: states.append((s, c)), **options)
    assert len(states) == whole.n_iter > 2
    for turn in (0, len(states) // 2, len(states) - 1):
        again = []
        resumed = run(
            method,
            x,
            n,
            np.zeros((K, D), np.float32),  # not used
            state=states[turn][0],
            progress=lambda s, c, again=again: again.append((s, c)),
            **options,
        )
        assert bits(resumed) == bits(whole)
        assert bits(tuple(again)) == bits(tuple(states[turn + 1 :]))


@pytest.mark.parametrize("method", ["plain", "constrained"])
def test_a_converged_state_stays(method):
    x, states = data("euclidean", n=300), []
    options = {"metric": "euclidean", "max_iter": 100, "tol": 0.0}
    whole = run(method, x, 300, x[:K], progress=lambda s, c: states.append(s), **options)
    assert whole.converged
    resumed = run(method, x, 300, x[:K], state=states[-1], **options)
    assert bits(resumed) == bits(whole)


def test_states_refused(xp):
    x = data("cosine", n=40)
    start = xp.asarray(x[:K])
    labels, prices = xp.asarray(np.zeros(40, np.int64)), xp.asarray(np.zeros(K))
    good = KMeansState(start, prices, 0, labels, 0.0)
    cases = [
        (good._replace(centers=start[:2, :]), r"state.centers must have shape \(6, 3\)"),
        (good._replace(centers=start * np.nan), "state.centers must be finite"),
        (good._replace(prices=prices[:2]), r"state.prices must have shape \(6,\)"),
        (good._replace(labels=labels[:9]), r"state.labels must have shape \(40,\)"),
        (good._replace(labels=labels + K), r"state.labels must lie in \[0, 6\)"),
        (good._replace(drifts=prices[:2]), r"state.drifts must have shape \(6,\)"),
        (good._replace(drifts=prices - 1.0), r"state.drifts must lie in \[0, inf\), got -1"),
        (good._replace(n_iter=-1), "state.n_iter must be at least 0"),
    ]
    for state, message in cases:
        assert_refused(InvalidValueError, message, kmeans, xp.asarray(x), start, state=state)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(InvalidValueError, match="same array library"):
        kmeans(xp.asarray(x), start, state=good._replace(prices=other.asarray(np.zeros(K))))
