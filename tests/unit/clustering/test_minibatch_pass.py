"""Mini-batches of the rows of a source, on one rank and on several."""

import threading

import numpy as np
import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.clustering.minibatch_pass import minibatch_pass
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.core.workers import workers
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


@pytest.mark.parametrize(("metric", "weighted"), [("cosine", False), ("euclidean", True)])
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
    with pytest.raises(InvalidTypeError, match="state must be a MiniBatchState, got an array"):
        minibatch_pass(source, x[:K, :], bounds)
    short = xp.asarray(np.ones(N - 1))
    with pytest.raises(InvalidValueError, match="weights"):
        minibatch_pass(source, state, bounds, weights=short)


def test_weights_of_another_library_are_refused_before_the_first_batch():
    x, bounds = problem_of_numpy()
    words = "^weights must be of the same array library as features, got torch and numpy"
    with pytest.raises(DeviceMismatchError, match=words):
        minibatch_pass(
            feature_source(x), init_minibatch(x[:K], bounds), bounds, weights=torch.ones(N)
        )


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


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_batch_without_weight_leaves_the_centers(xp, metric):
    x, bounds = problem(xp, metric)
    options = {"metric": metric, "batch_size": BATCH}
    w = np.ones(N)
    w[2 * BATCH : 4 * BATCH] = 0.0
    start = init_minibatch(x[:K, :], bounds)
    before = minibatch_pass(
        feature_source(x[: 2 * BATCH, :]),
        start,
        bounds,
        weights=xp.asarray(w[: 2 * BATCH]),
        **options,
    ).state
    found = minibatch_pass(
        feature_source(x[: 4 * BATCH, :]),
        start,
        bounds,
        weights=xp.asarray(w[: 4 * BATCH]),
        **options,
    )
    for name in ("centers", "means", "weight"):
        np.testing.assert_array_equal(
            to_numpy(getattr(found.state, name)), to_numpy(getattr(before, name))
        )
    assert found.labels.shape == (4 * BATCH,)
    assert found.state.assignment.seen == 4 * BATCH  # sizes count samples
    whole = minibatch_pass(feature_source(x), start, bounds, weights=xp.asarray(w), **options)
    assert to_numpy(whole.state.weight).sum() == pytest.approx(w.sum())


def test_weights_of_no_meaning_are_still_refused(xp):
    x, bounds = problem(xp, "cosine")
    start = init_minibatch(x[:K, :], bounds)
    for bad in (np.full(N, np.nan), np.full(N, -1.0)):
        with pytest.raises(InvalidValueError, match="weights must be finite, at least 0"):
            minibatch_step(x, start, bounds, weights=xp.asarray(bad))
    with pytest.raises(InvalidValueError, match="weights"):
        minibatch_step(x, start, bounds, weights=xp.asarray(np.zeros(N - 1)))


@pytest.mark.parametrize("row", [5, 200])
def test_all_ranks_raise_what_one_has_met(row, monkeypatch):
    """Each rank catches its own error: one that is told of none waits for ever."""
    monkeypatch.setattr(turns, "TURN_ROWS", 64)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    bounds = SizeBounds.for_stream(K, lower=0.8)
    start = init_minibatch(x[:K].copy(), bounds)
    x[row, 1] = np.nan
    edges = EDGES["two"]

    def work(group):
        last = group.first_row + group.n_local
        own = feature_source(x[group.first_row : last])._replace(group=group)
        with pytest.raises(InvalidValueError) as caught:
            minibatch_pass(own, start, bounds, metric="euclidean", batch_size=BATCH)
        return str(caught.value)

    first = row // BATCH * BATCH
    words = f"the batch of rows {first} to {first + BATCH - 1} cannot be added: features must be"
    texts = groups_on_threads(edges, work)
    assert texts[0] == texts[1] == work(alone(N))
    assert texts[0].startswith(words)


def test_a_wrong_argument_is_told_by_every_rank():
    x, bounds = problem_of_numpy()
    start = init_minibatch(x[:K], bounds)

    def work(group):
        own = feature_source(x[group.first_row : group.first_row + group.n_local])
        with pytest.raises(InvalidValueError, match=r"^metric must be") as caught:
            minibatch_pass(own._replace(group=group), start, bounds, metric="manhattan")
        return str(caught.value)

    texts = groups_on_threads(EDGES["two"], work)
    assert texts[0] == texts[1]


def problem_of_numpy():
    x = np.random.default_rng(0).normal(size=(N, D))
    return x, SizeBounds.for_stream(K, lower=0.8)


def test_threads_read_ahead_and_change_no_bit():
    x, bounds = problem_of_numpy()
    start, names = init_minibatch(x[:K], bounds), set()

    def rows(first, last):
        names.add(threading.current_thread().name)
        return x[first:last]

    source = feature_source(x)._replace(rows=rows)
    expected = minibatch_pass(source, start, bounds, metric="euclidean", batch_size=BATCH)
    assert names == {threading.current_thread().name}
    for n_threads in (1, 2, 4, 16):
        with workers(n_threads):
            found = minibatch_pass(source, start, bounds, metric="euclidean", batch_size=BATCH)
        assert_same_bits(found, expected)
    assert any(name.startswith("dualclust") for name in names)
