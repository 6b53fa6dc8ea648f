"""Rows worth a look: typical ones, doubtful ones, and those that only the bounds moved.

One pass over the rows finds, of each cluster,

* its *exemplars*: the rows nearest to its center, by cosine or squared distance;
* its *doubtful* rows: those of smallest margin (`algos.clustering.choices`);
* its *moved* rows: those that would have chosen another cluster without prices, of largest loss.

Equal rows are told apart by their numbers, and the first of each cluster in blocks and on ranks are
merged in the order of the rows: the answer is the same for any number of ranks. Memory is O(k m)
for m rows of a cluster, and O(n) only if the table of all rows is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.choices import RowChoices, first_of_each, row_choices
from ..algos.scores.sources import FeatureSource, ScoreSource, product_source
from ..common.tables import csv_text
from .distances import blocks
from .output import Clusters

__all__ = ["Lines", "Notable", "Restricted", "find_notable", "rows_csv"]

Restricted = Callable[[ScoreSource], ScoreSource]

MOST = 10
"""Most rows of each kind that are kept of a cluster."""

ALL_MOVED = 10_000
"""Of fewer moved rows than this, all are kept."""


class Lines(NamedTuple):
    """Some rows, with what is known of them.

    Attributes
    ----------
    row : (m,) int64 array
        Number of the row in the input, from 0.
    cluster : (m,) int64 array
    runner_up, free : (m,) int64 arrays
        As in `RowChoices`.
    near : (m,) float64 array
        Cosine of row and center, or squared distance.
    margin, loss : (m,) float64 arrays
        As in `RowChoices`.
    """

    row: NDArray[np.int64]
    cluster: NDArray[np.int64]
    runner_up: NDArray[np.int64]
    free: NDArray[np.int64]
    near: NDArray[np.float64]
    margin: NDArray[np.float64]
    loss: NDArray[np.float64]

    def take(self, which: NDArray[Any]) -> Lines:
        """Return the lines of some places."""
        return Lines(*(column[which] for column in self))


class Notable(NamedTuple):
    """The rows worth a look of a result.

    Attributes
    ----------
    exemplars, doubtful, moved : Lines
        By cluster; inside one, the nearest, the least sure, the one of largest loss first.
    n_moved : int
        Number of all moved rows.
    moved_in, moved_out : (k,) int64 arrays
        Moved rows that are in a cluster, and those that would have chosen it.
    loss : float
        Sum of the losses of all rows: the objective without bounds minus that of the labels. A row
        of weight 0 loses nothing; it is moved if its own choice is another cluster all the same.
    choices : RowChoices or None
        Of all rows, as NumPy arrays, if they were wanted.
    """

    exemplars: Lines
    doubtful: Lines
    moved: Lines
    n_moved: int
    moved_in: NDArray[np.int64]
    moved_out: NDArray[np.int64]
    loss: float
    choices: RowChoices | None


def find_notable(
    source: FeatureSource,
    found: Clusters,
    metric: str,
    weights: Any | None = None,
    *,
    restricted: Restricted | None = None,
    most: int = MOST,
    all_rows: bool = False,
) -> Notable:
    """Find the rows worth a look, in one pass over the rows of all ranks.

    Parameters
    ----------
    source : FeatureSource
    found : Clusters
    metric : {"cosine", "euclidean"}
    weights : (n,) array or None
        Of all rows. Margins and losses are those of weighted scores; exemplars do not depend on it.
    restricted : callable, optional
        Returns scores that are minus infinity where a row must not go (`restricted_scores`).
    most : int
        Rows of each kind that are kept of a cluster.
    all_rows : bool
        Whether to return the choices of all rows, too.

    Returns
    -------
    Notable
        The same on all ranks.
    """
    group, k = source.group, len(found.counts)
    score = _Scores(source, found, metric, weights, restricted)
    kept, losses = _Kept(k, most), list[float]()
    parts = [RowChoices(*(np.empty(0, kind) for kind in ("f8", "i8", "i8", "f8")))]
    for start, stop in blocks(group.n_local, k, like=score.centers):
        first = group.first_row + start
        labels = found.labels[first : first + stop - start]
        choices, near = score.of_block(start, stop, labels)
        number = np.arange(first, first + stop - start)
        seconds, moves = (choices.runner_up, choices.free), (choices.margin, choices.loss)
        kept.add(
            Lines(number, labels, *seconds, near, *moves), near if metric == "euclidean" else -near
        )
        losses.append(math.fsum(choices.loss.tolist()))
        if all_rows:
            parts.append(choices)
    whole = None
    if all_rows:
        columns = zip(*parts, strict=True)
        whole = RowChoices(*(group.gather(np.concatenate(column)) for column in columns))
    total = math.fsum(group.gather(np.asarray(losses, dtype=np.float64)).tolist())
    return kept.result(group, total, whole)


def rows_csv(notable: Notable, metric: str, ids: dict[int, str] | None = None) -> str:
    """Return a CSV table with a line for each row worth a look.

    Parameters
    ----------
    notable : Notable
    metric : {"cosine", "euclidean"}
        Names the column of `Lines.near`.
    ids : dict, optional
        The ids of these rows; they get a column.
    """
    kinds = {"exemplar": notable.exemplars, "doubtful": notable.doubtful, "moved": notable.moved}
    lines = Lines(*(np.concatenate(parts) for parts in zip(*kinds.values(), strict=True)))
    others, margins = lines.runner_up.tolist(), lines.margin.tolist()
    columns: dict[str, Any] = {
        "kind": [kind for kind, some in kinds.items() for _ in some.row],
        "cluster": lines.cluster,
        "row": lines.row,
        **({} if ids is None else {"id": [ids[row] for row in lines.row.tolist()]}),
        "similarity" if metric == "cosine" else "squared_distance": lines.near,
        "margin": ["" if k < 0 else margin for k, margin in zip(others, margins, strict=True)],
        "runner_up": ["" if k < 0 else k for k in others],
        "free_choice": lines.free,
        "loss": lines.loss,
    }
    return csv_text(columns)


class _Scores:
    """Scores of blocks as the solver sees them, with what the rows choose.

    Squared distances are computed around the mean of all rows: far from the origin, float32 has no
    digits left for the difference of two scores.
    """

    def __init__(
        self,
        source: FeatureSource,
        found: Clusters,
        metric: str,
        weights: Any,
        restricted: Restricted | None,
    ) -> None:
        like = source.rows(0, 0)
        self.xp, self.device = compat.array_namespace(like), compat.device(like)
        self.source, self.metric, self.weights = source, metric, weights
        self.restricted = restricted
        centers = found.centers.astype(np.float64)
        origin = np.zeros(centers.shape[1])
        if metric == "euclidean":
            origin = found.counts @ centers / found.counts.sum()
        self.origin = self._like(origin, like.dtype)
        self.centers = self._like(centers, like.dtype) - self.origin
        self.prices = self._like(found.prices, self.xp.float64)
        squares = self.xp.sum(self.xp.astype(self.centers, self.xp.float64) ** 2, axis=1)
        self.length = float(self.xp.max(squares)) ** 0.5
        offsets = None
        if metric == "euclidean":
            offsets = -0.5 * self.xp.sum(self.centers * self.centers, axis=1)
        self.rounding = 8.0 * float(self.xp.finfo(like.dtype).eps)
        self._rows = like
        self.plain: ScoreSource | None = None
        if weights is not None and bool(self.xp.any(weights == 0.0)):
            self.plain = self._source(offsets, None)
        self.scores = self._source(offsets, weights)

    def _source(self, offsets: Any, weights: Any) -> ScoreSource:
        """Return the scores of the rows that were read last, under the restrictions."""
        scores = product_source(
            self.source._replace(rows=lambda _start, _stop: self._rows, largest=None),
            self.centers,
            offsets=offsets,
            weights=weights,
        )
        return scores if self.restricted is None else self.restricted(scores)

    def _like(self, array: NDArray[Any], dtype: Any) -> Any:
        return self.xp.asarray(array, dtype=dtype, device=self.device)

    def of_block(
        self, start: int, stop: int, labels: NDArray[np.int64]
    ) -> tuple[RowChoices, NDArray[np.float64]]:
        """Return the choices of the rows of a block, and how near they are to their centers."""
        xp = self.xp
        rows = self.source.rows(start, stop)
        if self.metric == "euclidean":
            rows = rows - self.origin
        self._rows = rows  # so that a block is read once
        unit = 2.0**self.scores.exponent
        first = self.source.group.first_row + start
        lengths = xp.sum(xp.astype(rows, xp.float64) ** 2, axis=1) ** 0.5
        ties = self.rounding * self.length * (lengths + self.length)
        own, plain_ties = self._like(labels, xp.int64), ties
        if self.weights is not None:
            weights = self.weights[first : first + stop - start]
            ties = ties * weights / unit
        found = row_choices(self.scores.block(start, stop), own, self.prices / unit, ties=ties)
        if self.plain is not None:
            zeros = xp.zeros_like(self.prices)
            free = row_choices(self.plain.block(start, stop), own, zeros, ties=plain_ties).free
            found = found._replace(free=xp.where(weights == 0.0, free, found.free))
        choices = RowChoices(*map(_numpy, found))
        choices = choices._replace(margin=choices.margin * unit, loss=choices.loss * unit)
        mine = xp.take(self.centers, own, axis=0)
        if self.metric == "cosine":
            near = xp.sum(xp.astype(rows * mine, xp.float64), axis=1)
        else:
            near = xp.sum(xp.astype(rows - mine, xp.float64) ** 2, axis=1)
        return choices, _numpy(near)


class _Best:
    """The lines of smallest keys of each cluster, so far."""

    def __init__(self, k: int, most: int) -> None:
        self.k, self.most = k, most
        self.lines = Lines(*(np.empty(0, kind) for kind in ("i8",) * 4 + ("f8",) * 3))
        self.keys = np.empty(0)
        self._full = np.full(k, np.inf)

    def add(self, lines: Lines, keys: NDArray[np.float64], where: NDArray[np.bool_]) -> None:
        """Add lines of larger row numbers than all before; most do not come near."""
        (some,) = np.nonzero(where & (keys < self._full[lines.cluster]))
        if len(some) == 0:
            return
        pairs = zip(self.lines, lines.take(some), strict=True)
        joined: list[Any] = [np.concatenate(pair) for pair in pairs]
        self._keep(Lines(*joined), np.concatenate([self.keys, keys[some]]))

    def of_all_ranks(self, gather: Any) -> Lines:
        """Return the lines of smallest keys of all ranks."""
        whole = _Best(self.k, self.most)
        columns: list[Any] = [gather(column) for column in self.lines]
        whole._keep(Lines(*columns), gather(self.keys))
        return whole.lines

    def _keep(self, lines: Lines, keys: NDArray[np.float64]) -> None:
        # Equal keys stay in the order of their places: earlier lines have smaller row numbers.
        first = first_of_each(lines.cluster, keys, self.most)
        self.lines, self.keys = lines.take(first), keys[first]
        last = np.bincount(self.lines.cluster, minlength=self.k).cumsum() - 1
        full = np.bincount(self.lines.cluster, minlength=self.k) == self.most
        self._full = np.full(self.k, np.inf)
        self._full[full] = self.keys[last[full]]


class _Kept:
    """What is kept of the blocks of this rank."""

    def __init__(self, k: int, most: int) -> None:
        self.exemplars, self.doubtful, self.moved = (_Best(k, most) for _ in range(3))
        self.all_moved: list[Lines] | None = []
        self.flows = np.zeros((2, k), dtype=np.int64)

    def add(self, lines: Lines, far: NDArray[np.float64]) -> None:
        everywhere = np.ones(len(far), dtype=bool)
        self.exemplars.add(lines, far, everywhere)
        self.doubtful.add(lines, lines.margin, lines.runner_up >= 0)
        moved = lines.free != lines.cluster
        self.moved.add(lines, -lines.loss, moved)
        k = self.flows.shape[1]
        self.flows += [
            np.bincount(column[moved], minlength=k) for column in (lines.cluster, lines.free)
        ]
        if self.all_moved is not None:
            self.all_moved.append(lines.take(moved))
            if self.flows[0].sum() > ALL_MOVED:
                self.all_moved = None

    def result(self, group: Any, loss: float, choices: RowChoices | None) -> Notable:
        gather, k = group.gather, self.flows.shape[1]
        flows = gather(self.flows.reshape(1, 2, k)).sum(axis=0)
        n_moved = int(flows[0].sum())
        moved = self.moved.of_all_ranks(gather)
        # Every rank decides by the count of all ranks, so that all of them gather or none.
        if n_moved <= ALL_MOVED and self.all_moved is not None:
            empty = moved.take(np.arange(0))
            parts = zip(empty, *self.all_moved, strict=True)
            joined: list[Any] = [gather(np.concatenate(columns)) for columns in parts]
            every = Lines(*joined)
            moved = every.take(first_of_each(every.cluster, -every.loss, max(1, n_moved)))
        return Notable(
            self.exemplars.of_all_ranks(gather),
            self.doubtful.of_all_ranks(gather),
            moved,
            n_moved,
            flows[0],
            flows[1],
            loss,
            choices,
        )


def _numpy(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu())
