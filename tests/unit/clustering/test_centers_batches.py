"""Sums of a batch for several heads, and centers that are normalized at every batch, by loops."""

import numpy as np
import pytest

from dualclust.algos.clustering.centers import (
    CenterSums,
    add_to_sums,
    init_sums,
    mean_centers,
    merge_sums,
    renormalized_centers,
    running_average,
    sum_batch,
)
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.core.exact_sums import FRACTION_BITS
from tests.compare import assert_equal, to_numpy
from tests.libraries import ONE_EACH
from tests.problems import unit_rows
from tests.refusals import assert_refused

B, D, K = 7, 3, 5
RNG = np.random.default_rng(0)
# Quarters: on the grid, so that sums are exact.
X = RNG.integers(-4, 5, size=(B, D)) / 4.0
HEADS = RNG.integers(0, K - 1, size=(2, 3, B))  # nothing in the last cluster


def sums_by_loops(labels):
    sums, counts = np.zeros((K, D)), np.zeros(K, np.int64)
    for row, y in zip(X, labels, strict=True):
        sums[y] += row
        counts[y] += 1
    return sums, counts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("heads", [HEADS, HEADS[0], HEADS[1, 2]])
def test_a_batch_is_summed_for_each_head(xp, heads, dtype):
    batch = sum_batch(xp.asarray(X, dtype), xp.asarray(heads), n_clusters=K)
    flat = [sums_by_loops(labels) for labels in heads.reshape(-1, B)]
    sums = np.stack([s for s, _ in flat]).reshape(*heads.shape[:-1], K, D)
    counts = np.stack([c for _, c in flat]).reshape(*heads.shape[:-1], K)
    assert_equal(batch.sums, xp.asarray((sums * 2.0**FRACTION_BITS).astype(np.int64)))
    assert_equal(batch.counts, xp.asarray(counts))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_renormalized_centers_by_loops(xp, dtype):
    """``Pi(n c + sum x)`` for each head; a cluster without a sample keeps its center to the bit."""
    centers = unit_rows(RNG.normal(size=(2, K, D)).reshape(-1, D)).reshape(2, K, D).astype(dtype)
    counts = np.asarray([[0, 3, 1, 2, 4], [5, 0, 2, 0, 7]])
    heads = HEADS[:, 0]
    batch = sum_batch(xp.asarray(X, dtype), xp.asarray(heads), n_clusters=K)
    found = renormalized_centers(xp.asarray(centers), xp.asarray(counts), batch)
    assert found.dtype == xp.asarray(centers).dtype
    for head in range(2):
        sums, present = sums_by_loops(heads[head])
        assert 0 in present
        for j in range(K):
            own = to_numpy(found)[head, j]
            if present[j] == 0:
                np.testing.assert_array_equal(own, centers[head, j])
                continue
            moved = counts[head, j] * centers[head, j].astype(float) + sums[j]
            np.testing.assert_allclose(own, moved / np.linalg.norm(moved), rtol=3e-7, atol=1e-7)


def test_a_sum_that_cancels_keeps_the_center(xp):
    batch = sum_batch(xp.asarray([[-0.6, 0.8], [0.6, -0.8]]), xp.asarray([0, 0]), n_clusters=1)
    center = xp.asarray([[0.28, 0.96]])
    found = renormalized_centers(center, xp.asarray([0]), batch)
    np.testing.assert_allclose(to_numpy(found), [[0.28, 0.96]], rtol=1e-15)


def test_what_does_not_fit_is_refused(xp):
    x, y = xp.asarray(X), xp.asarray(HEADS[0, 0])
    batch = sum_batch(x, y, n_clusters=K)
    centers, counts = xp.asarray(np.eye(K, D)), xp.asarray(np.ones(K, np.int64))
    other = next(library for library in ONE_EACH if library.namespace is not xp.namespace)
    cases = [
        (InvalidTypeError, "features", sum_batch, (y, y), {"n_clusters": K}),
        (InvalidValueError, "n_clusters must be at least 1", sum_batch, (x, y), {"n_clusters": 0}),
        (InvalidValueError, r"shape \(b, d\)", sum_batch, (x[0, :], y), {"n_clusters": K}),
        (
            InvalidValueError,
            r"labels must have shape \(7,\)",
            sum_batch,
            (x, y[:3]),
            {"n_clusters": K},
        ),
        (
            DeviceMismatchError,
            "same",
            sum_batch,
            (x, other.asarray(HEADS[0, 0])),
            {"n_clusters": K},
        ),
        (InvalidTypeError, "centers", renormalized_centers, (counts, counts, batch), {}),
        (
            InvalidValueError,
            r"centers must have shape \(5, 3\)",
            renormalized_centers,
            (centers[:4, :], counts, batch),
            {},
        ),
        (
            InvalidValueError,
            r"counts must have shape \(5,\)",
            renormalized_centers,
            (centers, counts[:4], batch),
            {},
        ),
        (
            DeviceMismatchError,
            "same",
            renormalized_centers,
            (centers, other.asarray(np.ones(K, np.int64)), batch),
            {},
        ),
        (InvalidTypeError, "init_sums", merge_sums, ((batch.sums, batch.counts), batch), {}),
        (InvalidTypeError, "init_sums", merge_sums, (batch, (batch.sums, batch.counts)), {}),
        (
            InvalidValueError,
            r"second.sums must have shape \(5, 3\)",
            merge_sums,
            (batch, CenterSums(batch.sums[:, :2], batch.counts)),
            {},
        ),
        (InvalidTypeError, "init_sums", mean_centers, ((batch.sums, batch.counts), centers), {}),
        (InvalidTypeError, "previous", mean_centers, (batch, counts), {}),
        (InvalidTypeError, "value", running_average, (centers, counts, 2), {}),
        (InvalidTypeError, "average", running_average, (counts, centers, 2), {}),
        (
            InvalidValueError,
            "average must have shape",
            running_average,
            (centers[:4, :], centers, 2),
            {},
        ),
        (InvalidTypeError, "xp", init_sums, (2, 2), {"xp": "numpy"}),
    ]
    for error, words, call, arguments, options in cases:
        assert_refused(error, words, call, *arguments, **options)


def test_the_first_value_is_its_own_average(xp):
    value = xp.asarray([1.0, 2.0])
    assert running_average(None, value, 1) is value


def test_each_array_must_be_where_the_others_are(xp):
    other = next(library for library in ONE_EACH if library.namespace is not xp.namespace)

    def states(library):
        y = library.asarray(HEADS[0, 0])
        batch = sum_batch(library.asarray(X), y, n_clusters=K)
        centers = library.asarray(np.eye(K, D))
        return {
            add_to_sums: (batch, library.asarray(X), y),
            merge_sums: (batch, batch),
            mean_centers: (batch, centers),
            renormalized_centers: (centers, library.asarray(np.ones(K, np.int64)), batch),
        }

    here, there = states(xp), states(other)
    for call, arguments in here.items():
        call(*arguments)
        for i in range(len(arguments)):
            mixed = [*arguments[:i], there[call][i], *arguments[i + 1 :]]
            assert_refused(DeviceMismatchError, "same array library", call, *mixed)
