r"""Rows choose clusters that take no more than a capacity: deferred acceptance, in rounds.

Each row wants its `top_k` best clusters, each cluster takes at most c rows, and both rank each
other by the score of the pair, ties in favor of the lower index. Labels are *stable* if no row and
cluster would both rather have each other than what they have. Deferred acceptance (Gale and
Shapley, 1962) finds the stable labels that are best for rows:

1. Each row asks for its `top_k` best clusters among those that have not rejected it.
2. Each cluster keeps the c best of all that ask, and rejects the others for good.

A rejected row asks the next one, so that second choices come before anything is dropped; a cluster
that was full may give up a row for a better one. It ends when nobody is rejected, after n k rounds
at most and a few usually. Here the number of rounds is fixed, and nothing is read; what the last
round rejects is dropped. A row asks no more than its ``2 top_k + n_rounds`` best clusters, so that
a round costs as much for 256 clusters as for 32.

==========  ==========  =====================================================
symbol      shape       meaning
==========  ==========  =====================================================
``scores``  (n, k)      of pairs; minus infinity where a row must not go
c           ()          ``capacity``, rows of a cluster
==========  ==========  =====================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.checks import check_count, check_real, check_shape
from ..core.types import Array

__all__ = ["capped_choices"]


def capped_choices(
    scores: Array,
    capacity: Array | int,
    *,
    top_k: int = 1,
    counted: Array | None = None,
    n_rounds: int = 16,
) -> tuple[Array, Array]:
    """Choose up to `top_k` clusters for each row, so that no cluster has more than its capacity.

    Parameters
    ----------
    scores : (n, k) real array
        Higher is better, for the row and for the cluster. NaN counts as minus infinity.
    capacity : int, or () integer array
        Rows that a cluster takes at most.
    top_k : int in [1, k]
    counted : (n,) boolean array, optional
        Whether a row takes part: False for padding.
    n_rounds : int >= 1
        More rounds drop less, as does a longer list of choices, of ``2 top_k + n_rounds``.

    Returns
    -------
    clusters : (n, top_k) int64 array
        The best one first; where a row has fewer than `top_k`, the rest are -1.
    n_asked : (k,) int64 array
        How many rows have each cluster among their `top_k` best, whatever the capacity.

    Notes
    -----
    Guarantee: at most `capacity` rows for each cluster, whatever the number of rounds; stable
    labels if the last round rejects nobody and no row was rejected by all of its choices.
    Cost: a sort of each row, two sorts of all choices, and about ten passes over the choices for
    each round.

    Examples
    --------
    Three rows prefer cluster 0, which takes one; the second choice of one of the others is free.

    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.2]])
    >>> capped_choices(scores, 1)[0].T
    array([[ 0,  1, -1]])
    """
    xp, (n, k) = check_real("scores", scores), check_shape("scores", scores, ("n", "k"))
    check_count("top_k", top_k, 1)
    check_count("n_rounds", n_rounds, 1)
    scores = xp.where(scores == scores, scores, -math.inf)
    if counted is not None:
        check_shape("counted", counted, (n,))
        scores = xp.where(xp.astype(counted, xp.bool)[:, None], scores, -math.inf)
    choices = xp.argsort(scores, axis=1, descending=True, stable=True)
    choices = choices[:, : min(k, 2 * top_k + n_rounds)]
    liked = xp.take_along_axis(scores, choices, axis=1)
    # The queue of a cluster after that of the one before, rows that score it higher first.
    order = xp.argsort(xp.reshape(liked, (-1,)), descending=True, stable=True)
    flat = xp.reshape(choices, (-1,))
    order = order[xp.argsort(flat[order], stable=True)]
    places, ids = xp.argsort(order), xp.arange(k + 1, dtype=xp.int64, device=compat.device(scores))
    starts = xp.searchsorted(flat[order], ids)
    begins = starts[flat[order]]

    def ahead(asked: Array) -> tuple[Array, Array]:
        """Whether each place of the queue is asked for, and how many before it are, and are 0."""
        in_queue = xp.reshape(asked, (-1,))[order]
        return in_queue, xp.cumulative_sum(xp.astype(in_queue, xp.int64), include_initial=True)

    first: Array = None  # what is asked for before anybody is rejected
    open_ones = kept = liked > -math.inf
    for _ in range(n_rounds):
        asked = open_ones & (xp.cumulative_sum(xp.astype(open_ones, xp.int64), axis=1) <= top_k)
        in_queue, running = ahead(asked)
        first = running[starts] if first is None else first
        taken = in_queue & (running[1:] - running[begins] <= capacity)
        kept = xp.reshape(taken[places], asked.shape)
        open_ones = open_ones & (kept | ~asked)
    best = xp.argsort(xp.astype(~kept, xp.int8), axis=1, stable=True)[:, :top_k]
    clusters = xp.take_along_axis(choices, best, axis=1)
    clusters = xp.where(xp.take_along_axis(kept, best, axis=1), clusters, -1)
    return clusters, first[1:] - first[:-1]
