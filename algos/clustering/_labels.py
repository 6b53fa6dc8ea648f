r"""Labels of one iteration of constrained k-means, as good as they have to be.

Problem: for given centers find labels whose sizes are inside the bounds. `offline.assign_source`
proves how far they can be from the best. How much of its work an iteration needs depends on it:

1. *Free*: where no bound binds, the best clusters are optimal, at prices of 0: a pass over the
   scores finds them (`_free_labels`).
2. *Rough*: at first and while many labels change, centers and prices move on anyway. Labels prove
   a gap of `ROUGH`, from prices that are learned on few rows. Those are the first labels and those
   of the first iteration, unless few labels changed at the end of a sample, and those after an
   iteration that changed more than the share `MANY`.
3. *Near*: afterwards they prove a gap of `NEAR`; prices come from the last iteration.
4. *Final* labels prove what the caller asks for; the last ones often do.

==============  ============  =======  =====================================
paper           here          shape    meaning
==============  ============  =======  =====================================
:math:`c_k`     ``centers``   (k, d)   in the coordinates of the features
:math:`\mu_i`   ``labels``    (n,)     cluster of each sample
:math:`\pi_k`   ``prices``    (k,)     in units of score of the features
==============  ============  =======  =====================================
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.reads import read
from ..core.segments import segment_counts
from ..core.types import Array
from ..offline import DEFAULT_OPTIONS, SolverOptions, bounds_may_be_inactive
from ..offline.assignment import OfflineAssignment, assign_source
from ..scores.blocks import block_rows
from ..scores.deadline import Deadline, is_over
from ..scores.sources import ScoreSource
from ._frame import Frame, scores_of
from ._restrictions import Restrictions
from ._state import KMeansState
from .lloyd import nearest_labels

__all__ = ["MANY", "NEAR", "Labeler", "at_no_prices", "next_drifts"]

NEAR = 1e-3  # proven gap of the labels while centers still move
ROUGH = 1e-2  # the same while more than this share of the labels change in an iteration:
MANY = 0.1
ROUNDING = 64.0 * 2.0**-52  # of a sum, relative to its terms

# Prices change less and less from one iteration to the next. So the trust region of the next ones
# is known without samples: `REACH` times the root mean square change of the last, or `OWN` times
# that of its cluster where that is more, since prices that went far go on. A region that is too
# small for some prices costs a pass, one too large many candidates. The mean is too small where a
# few of many prices move, and the largest change too large (benchmarks/results/kmeans.md). What
# counts as the last change falls to `LEAST` of it at most, so that prices which happen to stay
# leave a region in which they can move again.
REACH, OWN, LEAST = 4.0, 3.0, 0.25

LAST_PASSES = 2.5
"""What two online passes take, in units of products (benchmarks/results/time_limits.md)."""

FARTHEST_PRICE = 1e300
"""Largest price in the unit of the scores: float64 holds what is added to it."""

# Prices of the next centers are other ones. So those of an iteration may stand at the edge of their
# region, as long as labels prove their gap; and rough ones are learned on the first sample alone.
BETWEEN = replace(DEFAULT_OPTIONS, pass_width=8, edge_share=0.3, max_stranded=5.0)
AT_FIRST = replace(BETWEEN, pass_width=4, sample_entries=0, deviations=2.0)


class Labeler(NamedTuple):
    """Rows, bounds and rules of the labels, for any centers; and when to end."""

    frame: Frame
    bounds: SizeBounds
    restrictions: Restrictions | None
    deadline: Deadline | None = None

    def is_over(self) -> bool:
        """Whether the time is up, the same on all ranks, which call this together."""
        return is_over(self.deadline, self.frame.raw.group, like=self.bounds.lower)

    def in_time(self, centers: Array) -> Labeler:
        """Return it with so much time left over as labels take that a search has not found.

        A search that ends without labels makes two online passes, which `time_limit` counts.
        """
        deadline, group = self.deadline, self.frame.raw.group
        if deadline is None or not deadline.is_timed or not self.is_large:
            return self
        source = scores_of(self.frame, self.frame.inside(centers))
        rows = min(group.n_local, block_rows(self.bounds.n_clusters, like=centers))
        for _ in range(2):  # the first time, rows may come from a disk
            begun = deadline.clock()
            read(compat.array_namespace(centers).sum(source.block(0, rows)))
            seconds = deadline.clock() - begun
        left = LAST_PASSES * seconds * group.n_local / max(rows, 1)
        return self._replace(deadline=deadline.earlier(left))

    @property
    def is_large(self) -> bool:
        """Whether there are so many scores that labels are not found at once."""
        n_scores = self.frame.source.group.n_total * self.bounds.n_clusters
        return n_scores > DEFAULT_OPTIONS.full_entries

    def near_labels(
        self, centers: Array, prices: Array | None, drifts: Array | None, changed: float
    ) -> OfflineAssignment:
        """Return labels of an iteration; rough ones where the last has changed many labels."""
        if changed > MANY:
            return self.labels(centers, prices, ROUGH, drifts, AT_FIRST)
        return self.labels(centers, prices, NEAR, drifts, BETWEEN)

    def labels(
        self,
        centers: Array,
        prices: Array | None,
        gap: float,
        drifts: Array | None = None,
        options: SolverOptions = DEFAULT_OPTIONS,
    ) -> OfflineAssignment:
        """Return the best labels for these centers, to a proven gap.

        `drifts` say about how far each of the prices is from the best one, if that is known.
        """
        frame, unit = self.frame, self.frame.score_unit
        source = scores_of(frame, frame.inside(centers))
        if self.restrictions is not None:
            source = self.restrictions.of_scores(source)
        elif self.is_large and _is_zero(prices):
            free = self._free_labels(source, centers)
            if free is not None:
                return free
        reach = None
        if prices is not None:
            most = FARTHEST_PRICE * unit  # a larger one is no start, in any unit
            prices = compat.array_namespace(prices).clip(prices, min=-most, max=most) / unit
            reach = _reach(drifts, unit)
        found = assign_source(
            source,
            self.bounds,
            prices=prices,
            price_radius=reach,
            tol=gap,
            time_limit=self.deadline,
            options=options,
        )
        return found._replace(
            prices=found.prices * unit,
            objective=found.objective * unit,
            upper_bound=found.upper_bound * unit,
            rounding=found.rounding * unit,
        )

    def _free_labels(self, source: ScoreSource, centers: Array) -> OfflineAssignment | None:
        """Return the best clusters if bounds do not bind: then they are optimal, at prices of 0."""
        if not bounds_may_be_inactive(source, self.bounds):  # mostly, a pass is not worth it
            return None
        labels, value, size = nearest_labels(self.frame, self.frame.inside(centers))
        xp, counts = compat.array_namespace(labels), self._counts(labels)
        is_outside = (counts < self.bounds.lower) | (counts > self.bounds.upper)
        (some,) = read(xp.any(is_outside))
        return None if some else at_no_prices(labels, counts, value, size)

    def proven(self, state: KMeansState, gap: float) -> OfflineAssignment | None:
        """Return the labels of a state for its centers, if they prove this gap already."""
        if not state.upper_bound < math.inf or state.gap > gap:
            return None
        return OfflineAssignment(
            labels=state.labels,
            counts=self._counts(state.labels),
            prices=state.prices,
            objective=state.objective,
            upper_bound=state.upper_bound,
            rounding=state.rounding,
            violation=0,
            gap=state.gap,
        )

    def _counts(self, labels: Array) -> Array:
        """Return the sizes of the clusters over all ranks."""
        xp = compat.array_namespace(labels)
        own = segment_counts(labels, n_segments=self.bounds.n_clusters)
        return xp.sum(self.frame.source.group.gather(own[None, :]), axis=0)


def next_drifts(state: KMeansState, prices: Array) -> Array | None:
    """About how far each of the next prices can be from these; None where that is not known.

    The first change, from centers that are mere rows, says nothing of the next.
    """
    if not state.n_iter and state.changed == 1.0:
        return None
    xp = compat.array_namespace(prices)
    moves = xp.abs(prices - state.prices)
    common = _root_mean_square(moves)
    if state.drifts is not None:  # the smallest of them is the common one of the last iteration
        common = xp.maximum(common, LEAST * xp.min(state.drifts))
    return xp.maximum(OWN / REACH * moves, common)


def _reach(drifts: Array | None, unit: float) -> Array | None:
    """Return the radius of the trust region, in this unit; None where a price is not to move."""
    if drifts is None:
        return None
    reach = REACH * drifts / unit
    (least,) = read(compat.array_namespace(reach).min(reach))
    return reach if least > 0.0 else None


def _root_mean_square(values: Array) -> Array:
    """Return it as one number, also where squares would overflow or vanish."""
    xp = compat.array_namespace(values)
    largest = xp.max(xp.abs(values))
    shares = values / xp.where(largest == 0.0, xp.ones_like(largest), largest)
    return largest * xp.sqrt(xp.mean(shares * shares))


def _is_zero(prices: Array | None) -> bool:
    """Whether no price is known yet, or all of them are 0."""
    if prices is None:
        return True
    (some,) = read(compat.array_namespace(prices).any(prices != 0.0))
    return not some


def at_no_prices(
    labels: Array, counts: Array, value: float, size: float | None = None
) -> OfflineAssignment:
    """Return best clusters whose sizes are inside the bounds as the optimum, at prices of 0.

    `size` is the sum of the absolute values of the terms of `value`, which rounding goes by.
    """
    xp = compat.array_namespace(counts)
    return OfflineAssignment(
        labels=labels,
        counts=counts,
        prices=xp.zeros_like(counts, dtype=xp.float64),
        objective=value,
        upper_bound=value,
        rounding=ROUNDING * (abs(value) if size is None else size),
        violation=0,
        gap=0.0,
        phase="ties",
    )
