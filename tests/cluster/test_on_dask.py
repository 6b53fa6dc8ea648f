"""Rows in a Dask cluster: the bytes of one process, errors where they are called for."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError, MissingExtraError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cluster.embeddings import embedding_source
from dualclust.cluster.on_dask import cluster_on_dask
from dualclust.cluster.threads import products_on
from dualclust.common.formats.in_memory import HeldRows
from dualclust.common.ranks import RankLostError
from tests.problems import unit_rows

N, D, K = 3 * MOST_ROWS + 777, 8, 12

missing = [name for name in ("torch", "dask", "distributed") if find_spec(name) is None]
needs_dask = pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def points(dtype=np.float16):
    rng = np.random.default_rng(0)
    x = unit_rows(rng.normal(size=(K, D)))[rng.integers(K, size=N) ** 2 // K]
    return (x + 0.3 * rng.normal(size=(N, D))).astype(dtype)


def bounds_of(n=N):
    return SizeBounds.from_ratios(K, n_samples=n, lower=0.9, upper=1.1)


def alone(x, metric, **options):
    """The result of one process with all rows in one chunk."""
    with products_on(1) as multiply:
        rows = HeldRows("rows", [x], 0, N, D, x.dtype)
        source = embedding_source(rows, metric, multiply=multiply)
        start = start_centers(source, K, seed=3, metric=metric)
        return constrained_kmeans(source, bounds_of(), start, metric=metric, **options)


# Rows in memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8])
def test_held_rows_are_those_of_one_array(dtype) -> None:
    x = np.arange(60).reshape(20, 3).astype(dtype)
    held = HeldRows("rows", [x[5:9], x[9:9], x[9:16]], 5, 20, 3, x.dtype)
    assert held.dtype == (np.float64 if dtype is np.float64 else np.float32)
    for start in range(5, 17):
        for stop in range(start, 17):
            found = held.rows(start, stop)
            np.testing.assert_array_equal(found, x[start:stop])
            assert found.dtype == held.dtype
            assert found.flags.c_contiguous
    ids = np.asarray([15, 5, 8, 9, 9])
    np.testing.assert_array_equal(held.take(ids), x[ids])
    assert held.take(ids[:0]).shape == (0, 3)
    assert HeldRows("rows", [], 20, 20, 3, x.dtype).rows(20, 20).shape == (0, 3)


# A cluster on this machine -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two processes, on loopback, without a dashboard; the workers see what this process sees."""
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    import distributed

    path = os.pathsep.join(dict.fromkeys([os.getcwd(), *filter(None, sys.path)]))
    with (
        pytest.MonkeyPatch.context() as patch,
        distributed.LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # by None it takes 8787, which another suite may have
            worker_dashboard_address=None,
        ) as cluster,
    ):
        patch.setenv("PYTHONPATH", path)
        cluster.scale(2)
        yield cluster


@pytest.fixture
def client(cluster):
    import distributed

    with distributed.Client(cluster, timeout="600s") as client:
        client.wait_for_workers(2, timeout=600)
        yield client


@needs_dask
@pytest.mark.parametrize(
    ("metric", "chunks", "dtype"),
    [("cosine", (5000, 3), np.float16), ("euclidean", (N, D), np.float64)],
)
def test_the_bytes_of_one_process(client, metric, chunks, dtype) -> None:
    import dask.array as da

    x = points(dtype)
    options = {"metric": metric, "max_iter": 2, "tol": 0.0}
    found = cluster_on_dask(da.from_array(x, chunks), bounds_of(), seed=3, **options)
    expected = alone(x, **options)
    assert found.labels.chunks == ((2 * MOST_ROWS, MOST_ROWS + 777),)
    np.testing.assert_array_equal(found.labels.compute(), expected.labels)
    assert found.centers.tobytes() == expected.centers.tobytes()
    for ours, theirs in zip(found.assignment[1:], expected.assignment[1:], strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    assert found[2:] == expected[2:]


@needs_dask
def test_fewer_rows_than_a_block_are_on_one_worker(client) -> None:
    import dask.array as da

    x = points()[:500]
    bounds = SizeBounds.from_ratios(K, n_samples=500, lower=0.5)
    found = cluster_on_dask(da.from_array(x, 100), bounds, client=client, max_iter=1)
    assert np.bincount(found.labels.compute(), minlength=K).tolist() == found.counts.tolist()


@needs_dask
def test_an_error_of_a_rank_is_raised_here(client) -> None:
    import dask.array as da

    x = points()
    x[2 * MOST_ROWS + 9, 1] = np.nan  # on the second rank
    with pytest.raises(InvalidValueError, match=f"NaN or infinity in row {2 * MOST_ROWS + 9}"):
        cluster_on_dask(da.from_array(x, 5000), bounds_of(), client=client)


def _bad_chunk(chunk):
    raise ZeroDivisionError


@needs_dask
def test_an_error_in_making_the_rows_is_raised_here(client) -> None:
    import dask.array as da

    rows = da.zeros((N, D), chunks=(5000, D)).map_blocks(_bad_chunk, dtype=float)
    with pytest.raises(ZeroDivisionError):
        cluster_on_dask(rows, bounds_of(), client=client)


@needs_dask
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda da: np.zeros((N, D)), InvalidTypeError, "rows must be a Dask array, got ndarray"),
        (lambda da: da.zeros(N), InvalidValueError, r"rows must be \(n, d\) real numbers"),
        (lambda da: da.zeros((N, D), dtype=complex), InvalidValueError, "got complex128"),
        (lambda da: da.zeros((N - 1, D)), InvalidValueError, f"bounds must be of the {N - 1} rows"),
        (lambda da: da.zeros((N, D))[da.ones(N) > 0], InvalidValueError, "compute_chunk_sizes"),
    ],
)
def test_what_does_not_fit_is_refused(client, change, error, words) -> None:
    import dask.array as da

    with pytest.raises(error, match=words):
        cluster_on_dask(change(da), bounds_of(), client=client)


@needs_dask
@pytest.mark.slow
def test_a_worker_that_dies_ends_the_call(cluster, client, monkeypatch) -> None:
    """The last test: it leaves the cluster with another worker."""
    import dask.array as da

    from dualclust.cluster import on_dask

    plain = on_dask._rank_task

    def rank_task(rank, plan, chunks):
        def die(*arguments, **options):
            os._exit(9)

        if rank == 1:
            on_dask.start_centers = die
        return plain(rank, plan, chunks)

    monkeypatch.setattr(on_dask, "_rank_task", rank_task)
    with pytest.raises(RankLostError, match=r"lost rank 1: its process or its machine has ended"):
        cluster_on_dask(da.from_array(points(), 5000), bounds_of(), client=client)


# Without Dask ------------------------------------------------------------------------------------


def test_without_dask_the_extra_is_named(monkeypatch) -> None:
    bounds = bounds_of()
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dualclust\[dask\]'"):
        cluster_on_dask(None, bounds)
