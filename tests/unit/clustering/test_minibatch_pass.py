"""Mini-batches of the rows of a source, on one rank and on several."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.clustering.minibatch_pass import minibatch_pass
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.scores import turns
from dualclust.algos.scores.sources import alone, feature_source
from tests.compare import assert_same_kind, to_numpy
from tests.problems import unit_rows
from tests.refusals import assert_refused
from tests.thread_ranks import groups_on_threads

N, D, K, BATCH = 300, 3, 4, 32
EDGES = {
    "two": [0, 128, N],
    "one has all": [0, N, N],
    "some without rows": [0, 0, 64, 64, 192, N, N],
}


def problem(xp, metric):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) + np.array([1.5, 0.0, 0.0])
    x = unit_rows(x) if metric == "cosine" else 20.0 * x - 3.0
    bounds = SizeBounds.for_stream(K, lower=0.8, xp=xp.namespace, device=xp.device)
    return xp.asarray(x.astype(np.float32)), bounds


def leaves(state):
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in leaves(part)]
    return [to_numpy(state) if hasattr(state, "shape") else state]


def assert_same_bits(state, expected):
    for ours, theirs in zip(leaves(state), leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_pass_is_its_batches_on_any_number_of_ranks(xp, metric, weighted, monkeypatch):
    monkeypatch.setattr(turns, "TURN_ROWS", 64)
    x, bounds = problem(xp, metric)
    w = xp.asarray(np.random.default_rng(1).uniform(0.1, 3.0, size=N)) if weighted else None
    start = init_minibatch(x[:K, :], bounds)
    state, labels = start, []
    for first in range(0, N, BATCH):
        rows = slice(first, min(first + BATCH, N))
        own = None if w is None else w[rows]
        part, state = minibatch_step(x[rows, :], state, bounds, metric=metric, weights=own)
        labels.append(to_numpy(part))

    def work(group):
        last = group.first_row + group.n_local
        own = feature_source(x[group.first_row : last, :])._replace(group=group)
        options = {"metric": metric, "weights": w, "batch_size": BATCH}
        return minibatch_pass(own, start, bounds, **options)

    for edges in ([0, N], *EDGES.values()):
        found = [work(alone(N))] if len(edges) == 2 else groups_on_threads(edges, work)
        joined = np.concatenate([to_numpy(one.labels) for one in found])
        np.testing.assert_array_equal(joined, np.concatenate(labels))
        for one in found:
            assert_same_bits(one.state, state)
            assert_same_kind(one.labels[:0], part[:0])


def test_a_second_pass_goes_on_from_the_first(xp):
    x, bounds = problem(xp, "cosine")
    state = init_minibatch(x[:K, :], bounds)
    for n_passes in (1, 2):
        state = minibatch_pass(feature_source(x), state, bounds, batch_size=BATCH).state
        assert state.assignment.seen == n_passes * N


def test_what_does_not_fit_is_refused(xp):
    x, bounds = problem(xp, "cosine")
    state = init_minibatch(x[:K, :], bounds)
    source = feature_source(x)
    words = "batch_size must divide 8192"
    assert_refused(InvalidValueError, words, minibatch_pass, source, state, bounds, batch_size=1000)
    with pytest.raises(InvalidTypeError, match="source"):
        minibatch_pass(x, state, bounds)
    short = xp.asarray(np.ones(N - 1))
    with pytest.raises(InvalidValueError, match="weights"):
        minibatch_pass(source, state, bounds, weights=short)


def test_the_steps_travel_with_the_state(xp):
    """The first rank measures the dual step; the others must not measure their own."""
    x, bounds = problem(xp, "cosine")
    rules = groups_on_threads(
        [0, 128, N],
        lambda group: (
            minibatch_pass(
                feature_source(x[group.first_row : group.first_row + group.n_local, :])._replace(
                    group=group
                ),
                init_minibatch(x[:K, :], bounds),
                bounds,
                batch_size=BATCH,
            ).state.steps
        ),
    )
    assert rules[0] == rules[1]
    assert (
        rules[0]
        == minibatch_pass(
            feature_source(x), init_minibatch(x[:K, :], bounds), bounds, batch_size=BATCH
        ).state.steps
    )
