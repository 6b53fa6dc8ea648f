"""Everything that a pass over rows gives is the same to the last bit for 1, 2, 4 and 16 threads.

The instances are such that sums would differ if threads added up what they have: `naive_sums` does.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import lloyd
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores import blocks
from dualclust.algos.scores.blocks import block_rows, row_blocks
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.cluster.distances import nearest_centers, squared_distances
from dualclust.cluster.threads import products_on
from tests.problems import unit_rows

THREADS = (1, 2, 4, 16)
# Rows, columns, clusters: many blocks, a last one that is short, odd columns, a cluster more than a
# power of two.
SHAPES = [(20_001, 13, 7), (5_003, 33, 513), (3_000, 513, 20)]


def problem(n, d, k, dtype="float32"):
    """Rows of unequal lengths in unequal groups, weights, and bounds that bind."""
    rng = np.random.default_rng(n + d)
    member = (k * rng.random(n) ** 2).astype(np.int64)
    x = 2.0 * rng.normal(size=(k, d))[member] + rng.normal(size=(n, d)) + 3.0
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1, rounding="outward")
    return x.astype(dtype), rng.uniform(0.1, 3.0, size=n), bounds


def bits(value):
    """Arrays of a result as bytes; other fields as they are."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(bits(field) for field in value)
    return value


def on_all(run):
    """The result of `run`, after a check that it has the same bits for any number of threads."""
    found = []
    for threads in THREADS:
        with products_on(threads):
            found.append(run())
    for other in found[1:]:
        assert bits(other) == bits(found[0])
    return found[0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_assignments_from_features(shape):
    (n, _, k), (x, _, bounds) = shape, problem(*shape)
    x = unit_rows(x).astype(np.float32)
    source = product_source(feature_source(x), x[:: n // k][:k])

    def run():
        return assign_source(source, bounds, tol=1e-3)

    found = on_all(run)
    assert found.violation == 0
    assert np.count_nonzero(found.prices)


@pytest.mark.parametrize(("metric", "weighted"), [("cosine", False), ("euclidean", True)])
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_free_kmeans_and_its_start(shape, metric, weighted):
    (x, weights, _), k = problem(*shape), shape[2]
    weights = weights if weighted else None
    x = unit_rows(x).astype(np.float32) if metric == "cosine" else x

    def run():
        source = feature_source(x)
        start = start_centers(source, k, seed=1, metric=metric, weights=weights, candidates=1)
        found = kmeans(source, start, metric=metric, weights=weights, max_iter=4)
        own = nearest_centers(product_source(source, found.centers))
        return found, own, squared_distances(source, found.labels, found.centers, weights)

    found, _, _ = on_all(run)
    assert found.n_iter == 4


@pytest.mark.parametrize("shape", [SHAPES[0], (3_001, 9, 129)], ids=str)
def test_constrained_kmeans(shape):
    (n, _, k), (x, weights, bounds) = shape, problem(*shape, dtype="float64")

    def run():
        start = x[:: n // k][:k]
        return constrained_kmeans(
            x, bounds, start, metric="euclidean", weights=weights, max_iter=2, tol=0.0
        )

    assert on_all(run).n_iter == 2


def test_a_cluster_that_is_empty_moves_to_the_same_row():
    x, _, _ = problem(9_000, 5, 3)
    start = np.concatenate([x[:6], np.full((2, 5), 1e3, np.float32)])
    found = on_all(lambda: kmeans(x, start, metric="euclidean", max_iter=2))
    assert (found.counts > 0).all()


# -- what would go wrong


def naive_sums(x, k, labels, threads):
    """Sums of clusters and of all, as threads add them up that take every t-th block each."""
    parts = np.zeros((threads, k, x.shape[1]), dtype=x.dtype)
    values = np.zeros(threads)
    for turn, (start, stop) in enumerate(row_blocks(len(x), 64)):
        np.add.at(parts[turn % threads], labels[start:stop], x[start:stop])
        values[turn % threads] += float((x[start:stop].astype(np.float64) ** 2).sum())
    return parts.sum(axis=0).tobytes(), float(values.sum())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_that_each_thread_adds_up_would_differ(shape):
    (n, _, k), (x, _, _) = shape, problem(*shape)
    labels = np.random.default_rng(0).integers(0, k, size=n)
    found = [naive_sums(x, k, labels, threads) for threads in THREADS]
    assert len({sums for sums, _ in found}) > 1
    assert len({value for _, value in found}) > 1


@pytest.mark.unjudged(reason="it plants an error")
def test_an_error_in_the_order_of_the_blocks_is_noticed(monkeypatch):
    x, _, _ = problem(*SHAPES[0])
    start = x[:: len(x) // 7][:7]

    def run():
        return kmeans(x, start, metric="euclidean", max_iter=1)

    right, real = on_all(run), blocks.map_in_order

    def reversed_order(function, items, *, like):
        return iter(list(real(function, items, like=like))[::-1])

    monkeypatch.setattr(blocks, "map_in_order", reversed_order)
    assert bits(run()) != bits(right)


def test_the_blocks_really_run_on_several_threads(monkeypatch):
    x, _, _ = problem(*SHAPES[0])
    seen, real = [], lloyd.best_clusters
    both = threading.Barrier(2, timeout=30.0)  # broken, unless two threads meet at it

    def spying(scores, offsets):
        seen.append(threading.get_ident())
        if len(seen) <= 2:
            both.wait()
        return real(scores, offsets)

    monkeypatch.setattr(lloyd, "best_clusters", spying)
    with products_on(2):
        kmeans(x, x[:7], metric="euclidean", max_iter=8)
    assert len(set(seen)) == 2
    assert threading.get_ident() in seen
    assert block_rows(7) < len(x)


FAULTS = """
import resource, sys
import numpy as np
from dualclust.algos.core.workers import map_in_order
from dualclust.cluster import threads
if sys.argv[2] == "not kept":
    threads.FREED_BYTES = 1
scores = np.ones((1024, 1000), dtype=np.float32)  # the size of a block
with threads.products_on(int(sys.argv[1])):
    def temporaries(i):
        return float(((scores + 1.0) * 2.0 - scores)[0, 0])
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        list(map_in_order(temporaries, range(40), like=scores))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(threads, kept):
    """Pages that the third of three like passes faults in, in a process of its own."""
    command = [sys.executable, "-c", FAULTS, str(threads), kept]
    # Settings of the allocator, which Dask leaves in the environment, fix what it would learn.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return int(found.stdout.split()[-1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator, other rules")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_pass_works_in_memory_that_those_before_have_freed(threads):
    """In the first pass pages have to come; a block has about a thousand, and there are 40."""
    if faults(threads, "not kept") < 10_000:
        pytest.skip("this allocator keeps what is freed by itself")
    assert faults(threads, "kept") < 3_000
