"""Constrained k-means of rows that live in a Dask cluster: each rank is a task beside its rows.

Who computes embeddings with Dask has them as chunks in the memory of its workers. Writing them to
files and starting other processes for them would move all of them twice. Instead

1. the chunks are cut again into whole blocks of 8,192 rows, as many for each worker as it has to
   hold, and laid there; this is the only time that rows travel;
2. one task per worker runs the passes over the rows that it holds, as a rank among others
   (`shares`): the code is that of ``torchrun``'s ranks, and so are the bytes of the answer;
3. the tasks find each other through the scheduler and exchange their sums directly (gloo);
4. labels stay where their rows are, as a Dask array.

A task that fails ends all, and its error is raised where `cluster_on_dask` was called.
"""

from __future__ import annotations

import importlib
import uuid
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.constrained import ConstrainedKMeansResult, constrained_kmeans
from ..algos.clustering.start import start_centers
from ..algos.core.errors import InvalidTypeError, InvalidValueError, MissingExtraError
from ..algos.scores.blocks import MOST_ROWS
from ..common.extras import without_cuda
from ..common.formats import Rows
from ..common.formats.in_memory import HeldRows
from ..common.ranks import RankLostError, Ranks
from ..common.watch import watched
from .embeddings import check_embeddings, embedding_source
from .exchange import agree, row_group
from .threads import products_on

__all__ = ["cluster_on_dask"]

CHUNK_BYTES = 2**26
"""About the size of the chunks in which rows travel to their worker."""


class _Plan(NamedTuple):
    """What all ranks are told."""

    bounds: SizeBounds
    n_features: int
    seed: int
    metric: str
    options: dict[str, Any]
    hosts: tuple[str, ...]
    key: str
    timeout: float


def cluster_on_dask(
    rows: Any,
    bounds: SizeBounds,
    *,
    client: Any = None,
    metric: str = "cosine",
    seed: int = 0,
    max_iter: int = 100,
    tol: float = 1e-3,
    gap: float = 1e-4,
    empty: str = "relocate",
    timeout: float = 600.0,
) -> ConstrainedKMeansResult:
    """Cluster the rows of a Dask array so that every cluster size lies between its bounds.

    Parameters
    ----------
    rows : dask array
        (n, d) real numbers, of known length, in any chunks. A data frame gives one by
        ``frame.to_dask_array(lengths=True)``. For "cosine" rows need not have unit length.
    bounds : SizeBounds
        NumPy bounds for all rows.
    client : distributed.Client, optional
        The current one by default. Each of its workers has one rank, at most one per 8,192 rows.
    metric, max_iter, tol, gap, empty
        As in `constrained_kmeans`.
    seed : int
        Of the starting centers.
    timeout : float
        Seconds that a rank waits for another.

    Returns
    -------
    ConstrainedKMeansResult
        `labels` are a Dask array, (n,) int64, on the workers; all else is in memory here.

    Raises
    ------
    MissingExtraError
        If dask or torch is not installed.
    InvalidTypeError, InvalidValueError, InfeasibleBoundsError
        As for ``dualclust cluster``: the error of the rank that met it.
    RankLostError
        If a worker ends.

    Notes
    -----
    Guarantee: labels, centers and prices are those of ``dualclust cluster`` with the same seed on a
    file of the rows, to the last bit, for any number of workers with processors of one kind. Memory
    of a worker: its rows as they are stored, and what a rank needs (docs/scale.md).
    """
    client = _client(client)
    n, d = _check_rows(rows, bounds)
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    workers = workers[: max(1, -(-n // MOST_ROWS))]
    if not workers:
        msg = "client must have workers, got none. To fix this, wait for them: wait_for_workers(1)"
        raise InvalidValueError(msg)
    hosts = tuple(urlsplit(address).hostname or "127.0.0.1" for address in workers)
    options = {"max_iter": max_iter, "tol": tol, "gap": gap, "empty": empty}
    plan = _Plan(bounds, d, seed, metric, options, hosts, f"dualclust-{uuid.uuid4()}", timeout)
    held = _laid_out(client, rows, workers)
    tasks = [
        client.submit(
            _rank_task, rank, plan, own, workers=[worker], allow_other_workers=False, pure=False
        )
        for rank, (worker, own) in enumerate(zip(workers, held, strict=True))
    ]
    try:
        _wait_for_all(tasks)
    except BaseException:
        client.cancel(tasks)  # a task whose worker has gone would wait for another
        raise
    return _joined(client, tasks, n)


def _client(client: Any) -> Any:
    """Return the client, or the current one; raise if a library is not there."""
    for library in ("torch", "dask.array", "distributed"):
        try:
            importlib.import_module(library)
        except ImportError as error:
            msg = (
                f"rows of a Dask cluster need dask, distributed and torch, and {library} is not "
                f"installed. To fix this: pip install 'dualclust[dask]'{without_cuda(library)}"
            )
            raise MissingExtraError(msg) from error
    import distributed

    return distributed.get_client() if client is None else client


def _check_rows(rows: Any, bounds: SizeBounds) -> tuple[int, int]:
    """Return the shape of the rows; raise if it is unknown or does not fit."""
    import dask.array

    if not isinstance(rows, dask.array.Array):
        msg = (
            f"rows must be a Dask array, got {type(rows).__name__}. To fix this, take "
            f"frame.to_dask_array(lengths=True), or dask.array.from_array"
        )
        raise InvalidTypeError(msg)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        msg = f"rows must be (n, d) real numbers, got {rows.dtype} of {rows.ndim} axes"
        raise InvalidValueError(msg)
    if any(np.isnan(length) for length in rows.shape):
        msg = (
            "rows must be of known length, got unknown chunks. To fix this, call "
            "rows.compute_chunk_sizes()"
        )
        raise InvalidValueError(msg)
    n, d = (int(length) for length in rows.shape)
    if bounds.n_samples != n:
        msg = (
            f"bounds must be of the {n} rows, got those of {bounds.n_samples} samples. "
            f"To fix this, make them with n_samples={n}"
        )
        raise InvalidValueError(msg)
    return n, d


def _laid_out(client: Any, rows: Any, workers: list[str]) -> list[list[Any]]:
    """Lay the rows of each rank on its worker, in chunks; return these as futures."""
    import dask
    import distributed

    n, d = rows.shape
    step = max(1, CHUNK_BYTES // (MOST_ROWS * d * rows.dtype.itemsize)) * MOST_ROWS
    edges, shares = [0], []
    for rank in range(len(workers)):
        start, stop = Ranks(rank, len(workers)).shard(n, unit=MOST_ROWS)
        edges += [*range(start + step, stop, step), stop] if stop > start else []
        shares.append(-(-(stop - start) // step))
    lengths = tuple(stop - start for start, stop in pairwise(edges))
    chunks = iter(rows.rechunk((lengths, (d,))).to_delayed().ravel().tolist())
    held = []
    for worker, n_chunks in zip(workers, shares, strict=True):
        with dask.annotate(workers=[worker], allow_other_workers=False):
            keep = dask.delayed(np.ascontiguousarray)
            held.append([keep(next(chunks)) for _ in range(n_chunks)])
    # One graph, so that a chunk which lies on two ranks is computed once.
    futures = iter(client.compute([c for own in held for c in own], optimize_graph=False))
    placed = [[next(futures) for _ in own] for own in held]
    flat = [future for own in placed for future in own]
    distributed.wait(flat)
    for future in flat:
        if future.status == "error":
            future.result()
    return placed


def _wait_for_all(tasks: list[Any]) -> None:
    """Return when all tasks have succeeded; raise the first error."""
    import distributed

    for task in distributed.as_completed(tasks):
        task.result()


def _joined(client: Any, tasks: list[Any], n: int) -> ConstrainedKMeansResult:
    """Return the result with the labels of all ranks."""
    import dask.array

    found: ConstrainedKMeansResult = client.submit(_all_but_labels, tasks[0]).result()
    parts = []
    for rank, task in enumerate(tasks):
        start, stop = Ranks(rank, len(tasks)).shard(n, unit=MOST_ROWS)
        labels = client.submit(_labels, task)
        parts.append(dask.array.from_delayed(labels, (stop - start,), np.int64))
    assignment = found.assignment._replace(labels=dask.array.concatenate(parts))
    return found._replace(assignment=assignment)


# On a worker -------------------------------------------------------------------------------------


def _labels(found: ConstrainedKMeansResult) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = found.labels
    return labels


def _all_but_labels(found: ConstrainedKMeansResult) -> ConstrainedKMeansResult:
    none = np.empty(0, np.int64)
    return found._replace(assignment=found.assignment._replace(labels=none))


class _TaskRanks(Ranks):
    """The ranks of tasks: a group of their own, so that a worker may be in others too."""

    def __init__(self, rank: int, hosts: tuple[str, ...], group: Any) -> None:
        super().__init__(rank, len(hosts), host=hosts[0])
        self.group = group

    def _all_gather(self, parts: list[Any], own: Any) -> None:
        self.group.allgather([parts], [own]).wait()


def _rank_task(rank: int, plan: _Plan, chunks: list[NDArray[Any]]) -> Any:
    """Run one rank; return its result, or None if another rank failed."""
    import distributed

    n, size = plan.bounds.n_samples or 0, len(plan.hosts)
    start, _ = Ranks(rank, size).shard(n, unit=MOST_ROWS)
    dtype = chunks[0].dtype if chunks else np.dtype(np.float32)
    rows = HeldRows("rows", chunks, start, n, plan.n_features, dtype)
    found: list[ConstrainedKMeansResult] = []
    threads = distributed.get_worker().state.nthreads

    def run() -> int:
        with products_on(threads) as multiply:
            found.append(_clustered(plan, ranks, rows, multiply))
        return 0

    ranks = _TaskRanks(rank, plan.hosts, _gloo(rank, plan)) if size > 1 else Ranks()
    with watched(ranks, ends_process=False):
        agree(ranks, run)
    return found[0] if found else None


def _clustered(plan: _Plan, ranks: Ranks, rows: Rows, multiply: Any) -> ConstrainedKMeansResult:
    group = row_group(ranks, rows.n_samples)
    check_embeddings(rows, plan.metric, group)
    source = embedding_source(rows, plan.metric, group, multiply=multiply)
    k = plan.bounds.n_clusters
    centers = start_centers(source, k, seed=plan.seed, metric=plan.metric)
    return constrained_kmeans(source, plan.bounds, centers, metric=plan.metric, **plan.options)


def _gloo(rank: int, plan: _Plan) -> Any:
    """Meet the other ranks: the first opens a port, and the scheduler tells the others."""
    import distributed
    from torch._C._distributed_c10d import ProcessGroupGloo
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # of C++

    limit, size = timedelta(seconds=plan.timeout), len(plan.hosts)
    with distributed.worker_client(separate_thread=False) as client:
        port = distributed.Variable(plan.key, client=client)
        try:
            if rank == 0:
                store = TCPStore(
                    plan.hosts[0], 0, size, is_master=True, timeout=limit, wait_for_workers=False
                )
                port.set(store.port)
            else:
                number = port.get(timeout=plan.timeout)
                store = TCPStore(plan.hosts[0], number, size, timeout=limit)
            options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
            options._timeout = limit
            options._devices = [ProcessGroupGloo.create_device(hostname=plan.hosts[rank])]
            group = ProcessGroupGloo(store, rank, size, options)
        except (RuntimeError, TimeoutError) as error:
            msg = f"rank {rank} of {size} found no others: {str(error).partition(chr(10))[0]}"
            raise RankLostError(msg) from error
    return group
