r"""The pseudo-label update as an interior-point problem: its data, its iterate, and its blocks.

For M samples and K clusters, with all weights scaled so that they add up to about 1 per sample,

``min_y  - sum_ik a_ik ln y_ik - sum_k c_k ln sum_i y_ik   s.t.  y >= 0, sum_k y_ik = 1``

with ``a = beta sigma`` and ``c = lambda M u`` (supplement, Lemma B.1, times M). Its optimality
conditions are products with linear constraints, as interior-point methods like them:

``y_ik g_ik = a_ik``,  ``t_k p_k = c_k``,  ``g_ik = nu_i - p_k >= 0``,  ``t_k = sum_i y_ik``

A zero of sigma is a target of 0, as in linear programming. The difference ``nu - p`` would cancel,
so the iterate holds ``s_i = nu_i - max p`` and ``d_k = max p - p_k``, whose sum g is.

=======================  =============  =======  ================================================
paper, or derivation     here           shape    meaning
=======================  =============  =======  ================================================
:math:`y_i^k`            ``labels``     (m, k)   soft pseudo-labels, a tuple of blocks of rows
:math:`\beta\sigma_i^k`  ``targets``    (b, k)   targets a of the products y g, made by block
:math:`\nu_i - p_k`      ``gaps``       (b, k)   g, reduced costs of the labels, made by block
:math:`\lambda M u^k`    ``shares``     (k,)     targets c of the products t p
:math:`p_k`              ``prices``     (k,)     what a unit of mass of the cluster is worth
:math:`\max p - p_k`     ``drops``      (k,)     smallest is 0
:math:`\nu_i - \max p`   ``slack``      (m,)     multiplier of the row sum, above all prices
:math:`t_k`              ``mass``       (k,)     mass of the cluster
=======================  =============  =======  ================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array

__all__ = ["NEIGHBORHOOD", "TINY", "Block", "Problem", "State", "blocks", "mass_of"]

TINY = 1e-140  # below every quantity that matters; its square does not underflow
NEIGHBORHOOD = 0.02  # products stay above this part of their targets


class Problem(NamedTuple):
    """``sigma`` (m, k) as given, its weight beta, the shares c, and how to work through the rows.

    Attributes
    ----------
    sigma : (m, k) real array
    weight : 0-d float64 array
        beta, scaled.
    shares : (k,) float64 array
    least : 0-d float64 array
        Centering that is always kept: a product whose target is 0 ends about here.
    block_rows : int
        Rows that are worked on at a time.
    fixed : bool
        Whether the number of steps is fixed, so that no value may be read back.
    """

    sigma: Array
    weight: Array
    shares: Array
    least: Array
    block_rows: int
    fixed: bool

    @property
    def lowest(self) -> Array:
        """Least slack, and least price that is not fixed at 0.

        A product far below its target may leave them at a rounding error, whose inverse overflows
        in the next step. They multiply masses of 1 per sample, so that this is nothing in the gap.
        """
        return NEIGHBORHOOD * self.least

    def rows(self) -> Iterator[slice]:
        """Yield the rows of each block."""
        m = self.sigma.shape[0]
        for i in range(0, m, self.block_rows):
            yield slice(i, min(i + self.block_rows, m))

    def targets(self, rows: slice) -> Array:
        """``beta sigma`` of a block, float64; sigma outside [0, 1] is rounding and is clipped."""
        xp = compat.array_namespace(self.sigma)
        sigma = xp.clip(xp.astype(self.sigma[rows, :], xp.float64), min=0.0, max=1.0)
        return self.weight * sigma


class State(NamedTuple):
    """An interior point: blocks of labels, and whether the last step was short (`cautious`)."""

    labels: tuple[Array, ...]
    slack: Array
    drops: Array
    prices: Array
    cautious: Array


class Block(NamedTuple):
    """What a block of rows multiplies: targets a, labels y and gaps g, each (b, k)."""

    targets: Array
    labels: Array
    gaps: Array


def blocks(problem: Problem, state: State) -> Iterator[Block]:
    """Work through an iterate, a block of rows at a time."""
    for rows, labels in zip(problem.rows(), state.labels, strict=True):
        yield Block(problem.targets(rows), labels, state.slack[rows][:, None] + state.drops)


def mass_of(labels: tuple[Array, ...]) -> Array:
    """Mass of each cluster, ``t_k = sum_i y_ik``, (k,)."""
    xp = compat.array_namespace(*labels)
    return sum(xp.sum(block, axis=0) for block in labels)
