r"""Rows whose cluster is known, and pairs of row and cluster that are forbidden, as scores.

A forbidden pair has the score minus infinity, and a fixed row has it in all clusters but its own.
So the solver's labels respect both, its certificate holds for the restricted problem, and so does
a proof that no labels exist. No n x k mask is kept: the pairs are sorted by row, those of a block
lie between two places that are found once, and those of single rows by binary search. Neither makes
the host wait for a device.

=====================  =============  =======  ====================================================
symbol                 here           shape    meaning
=====================  =============  =======  ====================================================
:math:`f_i`            ``fixed``      (n,)     cluster of row i, of all rows of all ranks; -1: free
:math:`(i, k)`         ``forbidden``  (m, 2)   row, of all rows of all ranks, and cluster
:math:`i K + k`        ``keys``       (m,)     the same pairs as ascending numbers
=====================  =============  =======  ====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.farkas import FarkasVector
from ..bounds.infeasibility import explain
from ..bounds.sizes import SizeBounds
from ..core.checks import check_integral, check_same_place, check_shape, check_values
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.reads import entries, read
from ..core.segments import segment_counts, segment_sum
from ..core.types import Array
from ..scores.blocks import block_rows
from ..scores.sources import ScoreSource

__all__ = ["Restrictions", "check_fixed", "counts_of_fixed", "restrictions_of"]


class Restrictions(NamedTuple):
    """Fixed rows and forbidden pairs of all ranks; the same on all of them.

    Attributes
    ----------
    n_clusters : int
    fixed : (n,) int64 array, or None
        -1 for a free row.
    keys : (m,) int64 array, or None
        ``row * n_clusters + cluster`` of the forbidden pairs, ascending.
    n_rows : int
        Rows of all ranks; 0 without pairs, as what follows.
    edges : tuple of int
        How many pairs come before each block of `block_rows` rows, and after the last one.
    most : int
        Most pairs of a row.
    """

    n_clusters: int
    fixed: Array | None
    keys: Array | None
    n_rows: int = 0
    edges: tuple[int, ...] = ()
    most: int = 0

    def of_scores(self, source: ScoreSource) -> ScoreSource:
        """Return scores that are minus infinity wherever a row must not go."""
        first = source.group.first_row
        return source._replace(
            block=lambda start, stop: self._block(
                source.block(start, stop), first + start, first + stop
            ),
            take=lambda ids: self._rows(source.take(ids), ids),
        )

    def relocatable(self, movable: Array, n: int) -> Array:
        """Return which of n rows may be the new center of any movable cluster, (n,) bool.

        Parameters
        ----------
        movable : (k,) bool array
        n : int
            Rows of all ranks.
        """
        xp, device = compat.array_namespace(movable), compat.device(movable)
        free = xp.ones((n,), dtype=xp.bool, device=device) if self.fixed is None else self.fixed < 0
        if self.keys is None:
            return free
        moves = xp.take(xp.astype(movable, xp.int64), self.keys % self.n_clusters)
        barred = segment_sum(moves[:, None], self.keys // self.n_clusters, n_segments=n)[:, 0]
        return free & (barred == 0)

    def _block(self, scores: Array, start: int, stop: int) -> Array:
        """Restrict consecutive rows, counted over all ranks."""
        xp, k = compat.array_namespace(scores), self.n_clusters
        if self.fixed is not None:
            scores = _only(scores, self.fixed[start:stop])
        if self.keys is None or start == stop:
            return scores
        rows = block_rows(k)
        if start % rows or (stop % rows and stop != self.n_rows):  # no whole blocks
            ids = xp.arange(start, stop, dtype=xp.int64, device=compat.device(scores))
            return self._without_rows(scores, ids)
        low, high = self.edges[start // rows], self.edges[-(-stop // rows)]
        return _without(scores, self.keys[low:high] - start * k)

    def _rows(self, scores: Array, ids: Array) -> Array:
        """Restrict rows in any order, also repeated ones, by their ids."""
        xp = compat.array_namespace(scores)
        if self.fixed is not None:
            scores = _only(scores, xp.take(self.fixed, ids))
        return scores if self.keys is None else self._without_rows(scores, ids)

    def _without_rows(self, scores: Array, ids: Array) -> Array:
        """Forbid the pairs of rows by their ids.

        As many places for each row as any row has pairs: how many pairs these rows have would be a
        read.
        """
        assert self.keys is not None
        xp, k, b = compat.array_namespace(scores), self.n_clusters, ids.shape[0]
        if not b:
            return scores
        device = compat.device(scores)
        first = xp.searchsorted(self.keys, ids * k)
        n_pairs = xp.searchsorted(self.keys, ids * k + k) - first
        pair = xp.arange(self.most, dtype=xp.int64, device=device)
        place = xp.clip(first[:, None] + pair, max=self.keys.shape[0] - 1)
        key = xp.reshape(xp.take(self.keys, xp.reshape(place, (-1,))), (b, self.most))
        row = xp.arange(b, dtype=xp.int64, device=device)
        place = key + ((row - ids) * k)[:, None]
        place = xp.where(pair < n_pairs[:, None], place, xp.full_like(place, b * k))  # to nowhere
        return _without(scores, xp.reshape(place, (-1,)))


def restrictions_of(
    fixed: Array | None, forbidden: Array | None, bounds: SizeBounds
) -> Restrictions | None:
    """Check fixed rows and forbidden pairs, alone and against each other and the bounds.

    Parameters
    ----------
    fixed : (n,) integer array, optional
    forbidden : (m, 2) integer array, optional
    bounds : SizeBounds
        Of a known number of samples.

    Returns
    -------
    Restrictions or None
        None if every row may join every cluster.

    Raises
    ------
    InfeasibleBoundsError
        If more rows are fixed in a cluster than it takes, or too few are left for others; whether
        forbidden pairs leave labels is found by the solver.
    InvalidValueError
        For rows, clusters and shapes that do not exist, and a row fixed where it is forbidden.
    """
    n, k = bounds.n_samples or 0, bounds.n_clusters
    check_same_place(bounds=bounds.lower, fixed=fixed, forbidden=forbidden)
    xp = compat.array_namespace(bounds.lower)
    if fixed is not None:
        fixed = check_fixed("fixed", fixed, n, k)
    keys = None
    if forbidden is not None:
        check_values("forbidden", forbidden)
        check_integral("forbidden", forbidden)
        m, _ = check_shape("forbidden", forbidden, ("m", 2))
        if m:
            rows, clusters = (xp.astype(forbidden[:, side], xp.int64) for side in (0, 1))
            _check_range("forbidden", "rows", rows, n)
            _check_range("forbidden", "clusters", clusters, k)
            if fixed is not None:
                _check_not_forbidden(fixed, rows, clusters)
            keys = xp.sort(rows * k + clusters)
    if fixed is not None:
        _check_counts(fixed, keys, bounds)
    if keys is None:
        return None if fixed is None else Restrictions(k, fixed, None)
    return _with_pairs(fixed, keys, n, k)


def _with_pairs(fixed: Array | None, keys: Array, n: int, k: int) -> Restrictions:
    """Count the pairs of blocks and rows, which are then never counted again."""
    xp, rows = compat.array_namespace(keys), block_rows(k)
    blocks = xp.arange(-(-n // rows) + 1, dtype=xp.int64, device=compat.device(keys))
    own = keys // k
    n_pairs = xp.searchsorted(own, own, side="right") - xp.searchsorted(own, own)
    most = xp.reshape(xp.max(n_pairs), (1,))
    counted = xp.concat([xp.searchsorted(keys, blocks * (rows * k)), most])
    *edges, largest = entries("counted", xp.astype(counted, xp.int64))
    return Restrictions(k, fixed, keys, n, tuple(edges), largest)


def check_fixed(name: str, fixed: Array, n: int, k: int) -> Array:
    """Return labels of fixed rows as int64 if they are n clusters, or -1 where a row is free."""
    check_values(name, fixed)
    xp = check_integral(name, fixed)
    check_shape(name, fixed, (n,))
    fixed = xp.astype(fixed, xp.int64)
    low, high = (int(edge) for edge in read(xp.min(fixed), xp.max(fixed)))
    if low < -1 or high >= k:
        msg = (
            f"{name} must hold clusters from 0 to {k - 1}, or -1 for a free row, got values from "
            f"{low} to {high}"
            ". To fix this, number rows and clusters from 0"
        )
        raise InvalidValueError(msg)
    return fixed


def counts_of_fixed(fixed: Array, n_clusters: int) -> Array:
    """Return how many rows are fixed in each cluster, (k,) int64."""
    xp = compat.array_namespace(fixed)
    own = xp.where(fixed < 0, xp.full_like(fixed, n_clusters), fixed)
    return segment_counts(own, n_segments=n_clusters + 1)[:n_clusters]


def _only(scores: Array, own: Array) -> Array:
    """Keep the own cluster of each fixed row, (b,) of (b, k) scores."""
    xp = compat.array_namespace(scores)
    cluster = xp.arange(scores.shape[1], dtype=xp.int64, device=compat.device(scores))
    barred = (own[:, None] >= 0) & (own[:, None] != cluster)
    return xp.where(barred, xp.full_like(scores, -math.inf), scores)


def _without(scores: Array, places: Array) -> Array:
    """Put minus infinity at places of the flattened scores; the place after the last is none."""
    xp, (b, k) = compat.array_namespace(scores), scores.shape
    if not places.shape[0]:
        return scores
    barred = segment_counts(places, n_segments=b * k + 1)[: b * k]
    return xp.where(xp.reshape(barred, (b, k)) > 0, xp.full_like(scores, -math.inf), scores)


def _check_range(name: str, what: str, values: Array, length: int) -> None:
    xp = compat.array_namespace(values)
    low, high = (int(edge) for edge in read(xp.min(values), xp.max(values)))
    if low < 0 or high >= length:
        pairs = "; a pair is a row and a cluster, not two rows" if name == "forbidden" else ""
        msg = (
            f"{name} must hold {what} from 0 to {length - 1}, got {low if low < 0 else high}. "
            f"To fix this, number rows and clusters from 0{pairs}"
        )
        raise InvalidValueError(msg)


def _check_not_forbidden(fixed: Array, rows: Array, clusters: Array) -> None:
    xp = compat.array_namespace(fixed)
    both = xp.take(fixed, rows) == clusters
    (found,) = read(xp.any(both))
    if found:
        first = int(xp.argmax(xp.astype(both, xp.int8)))
        row, cluster = int(rows[first]), int(clusters[first])
        msg = (
            f"forbidden must leave fixed rows their cluster, got the pair ({row}, {cluster}), and "
            f"row {row} is fixed in cluster {cluster}. To fix this, drop one of the two"
        )
        raise InvalidValueError(msg)


def _n_barred(which: tuple[int, ...], fixed: Array, keys: Array | None) -> int:
    """Return how many free rows may join none of the clusters whose entry is 1."""
    if keys is None:
        return 0
    xp, k, device = compat.array_namespace(fixed), len(which), compat.device(fixed)
    of_them = xp.take(xp.asarray(which, dtype=xp.int64, device=device), keys % k)
    is_first = xp.concat([xp.ones_like(keys[:1], dtype=xp.bool), keys[1:] != keys[:-1]])
    of_them = xp.where(is_first, of_them, xp.zeros_like(of_them))  # a pair may be there twice
    barred = segment_sum(of_them[:, None], keys // k, n_segments=fixed.shape[0])[:, 0]
    return int(xp.count_nonzero((fixed < 0) & (barred == sum(which))))


def _check_counts(fixed: Array, keys: Array | None, bounds: SizeBounds) -> None:
    """Raise if the fixed rows alone leave no labels inside the bounds.

    The proof counts what the free rows may join, by all pairs: of a row that may join nothing the
    solver tells.
    """
    k = bounds.n_clusters
    counts = entries("fixed", counts_of_fixed(fixed, k))
    low, high = entries("lower", bounds.lower), entries("upper", bounds.upper)
    n, none = bounds.n_samples or 0, (0,) * len(counts)
    for j, (count, most) in enumerate(zip(counts, high, strict=True)):
        if count > most and not _n_barred((1,) * k, fixed, keys):
            msg = (
                f"fixed puts {count} rows into cluster {j}, which takes at most {most}. "
                f"To fix this, fix fewer rows there, or raise its upper bound"
            )
            one = tuple(int(i == j) for i in range(k))
            beside = _n_barred(tuple(1 - i for i in one), fixed, keys)
            vector = FarkasVector(none, one, -most, -count - beside)
            raise InfeasibleBoundsError(msg, clusters=(j,), excess=vector.excess, vector=vector)
    needy = tuple(int(least > count) for least, count in zip(low, counts, strict=True))
    required = sum(least for least, needs in zip(low, needy, strict=True) if needs)
    elsewhere = sum(count for count, needs in zip(counts, needy, strict=True) if not needs)
    if required > n - elsewhere and not _n_barred((1,) * k, fixed, keys):
        vector = FarkasVector(needy, none, required, n - elsewhere - _n_barred(needy, fixed, keys))
        msg = (
            f"no labels are inside the bounds: {explain(vector)}, since {elsewhere} rows are "
            f"fixed in other clusters. To fix this, fix fewer rows, or lower the lower bounds"
        )
        raise InfeasibleBoundsError(
            msg, clusters=vector.clusters, excess=vector.excess, vector=vector
        )
