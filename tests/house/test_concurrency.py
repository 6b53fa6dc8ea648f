"""Eight threads at once, and processes that share one cache: the answers of one call alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.baselines.sinkhorn_transport import sinkhorn
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.workers import map_in_order, workers
from dualclust.algos.scores.sources import feature_source
from tests.house.test_layering import ROOT

THREADS, PROCESSES, N, K, D = 8, 4, 60, 4, 3


def rows(seed: int) -> Any:
    """Rows around four centers."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, D))[np.arange(N) % K] * 3.0 + rng.normal(size=(N, D))


def bounds() -> dc.SizeBounds:
    return dc.SizeBounds.from_ratios(K, n_samples=N, lower=0.5, upper=1.5)


def scored(seed: int) -> Any:
    return rows(seed) @ np.random.default_rng(seed + 100).normal(size=(D, K))


CALLS: dict[str, Callable[[int], Any]] = {
    "assign": lambda seed: dc.assign(scored(seed), bounds()),
    "assign_offline": lambda seed: dc.assign_offline(scored(seed), bounds()),
    "kmeans": lambda seed: dc.kmeans(rows(seed), rows(seed)[:K], metric="euclidean")[:3],
    "constrained": lambda seed: dc.constrained_kmeans(
        rows(seed), bounds(), rows(seed)[:K], metric="euclidean", max_iter=3
    )[:3],
    "start": lambda seed: start_centers(feature_source(rows(seed)), K, seed=seed, metric="cosine"),
    "sinkhorn": lambda seed: sinkhorn(scored(seed)),
    "pseudo_labels": lambda seed: dc.pseudo_labels(
        np.full((4, 2), 0.5), fairness_weight=1.0 + seed
    ),
    "in workers": lambda seed: in_workers(seed),
}


def in_workers(seed: int) -> Any:
    """A pass with threads of its own, inside one of the eight."""
    with workers(2):
        return list(map_in_order(lambda i: seed * 100 + i, range(9), like=np.empty(0)))


def leaves(found: Any) -> list[Any]:
    """Arrays and numbers of a nested result."""
    if isinstance(found, tuple | list):
        return [leaf for part in found for leaf in leaves(part)]
    return [found]


@pytest.mark.parametrize("name", CALLS)
def test_eight_threads_get_what_each_gets_alone(name: str) -> None:
    call, gate = CALLS[name], threading.Barrier(THREADS)
    alone = [leaves(call(seed)) for seed in range(THREADS)]

    def at_once(seed: int) -> Any:
        gate.wait()
        return leaves(call(seed))

    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(at_once, range(THREADS)))
    for ours, theirs in zip(together, alone, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_error_in_one_thread_is_that_thread_s() -> None:
    gate = threading.Barrier(2)

    def call(wrong: bool) -> Any:
        gate.wait()
        if wrong:
            with pytest.raises(InvalidValueError):
                dc.assign(scored(0)[:, :2], bounds())
        return dc.assign(scored(0), bounds()).labels

    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(call, [True, False])
    np.testing.assert_array_equal(ours, theirs)


def test_a_call_leaves_no_state_behind() -> None:
    first = [leaves(call(0)) for call in CALLS.values()]
    for call in CALLS.values():
        call(1)
    again = [leaves(call(0)) for call in CALLS.values()]
    for ours, theirs in zip(again, first, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


CODE = """
import sys
import numpy as np
import dualclust as dc
from dualclust.backends import select
scores = np.random.default_rng(0).normal(size=(2000, 10))
bounds = dc.SizeBounds.from_ratios(10, n_samples=2000, lower=0.9)
labels = dc.assign(scores, bounds).labels
print(select("assign_stream", scores), int(labels @ np.arange(2000)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("home", ["shared cache", "nothing can be written"])
def test_processes_compile_at_the_same_time(tmp_path: Path, home: str) -> None:
    """They fill one cache of kernels, or find no place for one."""
    cache = tmp_path / "cache"
    if home != "shared cache":
        cache.touch()  # no folder can be made there, also by an administrator
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "HOME": str(tmp_path / "none")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CODE], cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]  # fmt: skip
    said = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * PROCESSES, said
    assert len({out for out, _ in said}) == 1
    assert "numba" in said[0][0]
