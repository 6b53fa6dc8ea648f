r"""The linear system of one Newton step of the pseudo-label update, assembled and solved.

``(L + diag(z)) x = r``,  ``L = diag(sum_i h_i) - sum_i h_i h_i^T / H_i``,  ``H_i = sum_k h_ik``

with h = y / g (m, k) and z = t / p positive: a graph Laplacian plus a positive diagonal, an
M-matrix. Its diagonal is formed as the sum of the other entries of the row plus z, which does not
cancel. The symbols are those of `_interior_point`.

1. *Sum up* the rows (`system`): the matrix, and the parts of every right-hand side.
2. *Ground* the nodes whose price is fixed at 0: their unknown is 0, and a link that leads to them
   becomes a part of the diagonal.
3. *Solve* (`solve`), in the way that the sizes call for:

===========  ===========================  ===============================================
method       when                         cost in addition to O(m k)
===========  ===========================  ===============================================
columns      k <= m, k <= `DENSE`         O(m k^2 + k^3)
rows         m < k, m <= `DENSE`          O(m^2 k + m^3), by the Woodbury identity
conjugate    else                         O(m k) per iteration, no matrix
gradients
===========  ===========================  ===============================================

Libraries read a solver's status back from an accelerator, so a step that must not do that
eliminates with plain array operations up to `UNROLLED` unknowns, and takes a fixed number of
conjugate gradients above.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..core.conjugate_gradients import conjugate_gradients
from ..core.types import Array
from ._interior_point import Problem, State, blocks

__all__ = ["DENSE", "UNROLLED", "System", "column_terms", "solve", "system"]

DENSE = 1024  # 8 MiB; above, conjugate gradients were faster
UNROLLED = 128
CG_FIXED = 64
CG_MOST = 500
CG_TOLERANCE = 1e-11


class System(NamedTuple):
    """Sums over the rows at one state; `links` and `anchors` are the matrix.

    A right-hand side is made of `b_target`, the column terms of the targets less the mass, and of
    `b_center`, the column terms of a centering of 1.

    The matrix is ``diag(anchors + links 1) - links``, with zeros on the diagonal of links, over
    clusters (`h` None), over samples (h scaled by the square roots of its row sums), or absent.
    """

    mass: Array
    excess: Array  # mean of (y g - a)+
    b_target: Array
    b_center: Array
    diagonal: Array  # of D = diag(sum_i h_i + z)
    links: Array | None
    anchors: Array
    h: Array | None
    state: State
    factors: Factors | None


class Factors(NamedTuple):
    """The matrix with its nodes eliminated one by one; one set serves both right-hand sides.

    `steps` holds for each node but the last what it passes on, and its pivot; `last` is the pivot
    of the last.
    """

    steps: list[tuple[Array, Array]]
    last: Array


def system(problem: Problem, state: State) -> System:
    """Assemble the matrix, and what a right-hand side is made of."""
    xp = compat.array_namespace(problem.shares)
    (m, k), priced = problem.sigma.shape, problem.shares > 0
    zero, one = xp.zeros_like(problem.shares), xp.ones_like(problem.shares)
    mass, b_target, b_center, total, loops = zero, zero, zero, zero, zero
    excess = xp.sum(zero)
    columns, by_rows = k <= m and k <= DENSE, m < k and m <= DENSE
    links, kept = None, []
    for a, y, g in blocks(problem, state):  # step 1
        q = 1.0 / g
        h = y * q
        mass = mass + xp.sum(y, axis=0)
        total = total + xp.sum(h, axis=0)
        excess = excess + xp.sum(xp.clip(y * g - a, min=0.0))
        b_target = b_target + column_terms(h, a * q, 1.0)
        b_center = b_center + column_terms(h, q)
        if by_rows:
            kept.append(h)
            continue
        scaled = h / xp.sqrt(xp.sum(h, axis=1, keepdims=True))
        if columns:
            part = xp.matmul(scaled.T, scaled)
            links = part if links is None else links + part
        else:
            loops = loops + xp.sum(scaled * scaled, axis=0)
    z = mass / xp.where(priced, state.prices, one)
    diagonal = total + z
    b_target, excess = b_target - mass, excess / (m * k)
    anchors, h = xp.where(priced, total - loops + z, one), None
    if columns:  # step 2
        links = _off_diagonal(links)
        free = xp.where(priced[:, None] & priced[None, :], links, xp.zeros_like(links))
        anchors = xp.where(priced, z + xp.sum(links - free, axis=1), one)
        links = free
    elif by_rows:
        h = xp.concat(kept, axis=0)
        inverse = xp.where(priced, 1.0 / diagonal, zero)
        links = _off_diagonal(xp.matmul(h * inverse, h.T))
        anchors = xp.matmul(h, xp.where(priced, z * inverse, one))
    factors = None
    if problem.fixed and links is not None and links.shape[0] <= UNROLLED:
        factors = _eliminate(links, anchors)
    return System(mass, excess, b_target, b_center, diagonal, links, anchors, h, state, factors)


def column_terms(h: Array, x: Array, row_sum: float = 0.0) -> Array:
    """Column sums of x (m, k) after the row multipliers are eliminated, (k,).

    ``sum_i [ x_i - h_i (sum_k x_ik - row_sum) / H_i ]``: the multiplier of a row takes from its
    entries, in proportion to h, what their sum exceeds `row_sum` by.
    """
    xp = compat.array_namespace(h)
    return xp.sum(x - h * ((xp.sum(x, axis=1) - row_sum) / xp.sum(h, axis=1))[:, None], axis=0)


def solve(problem: Problem, linear: System, right: Array) -> Array:
    """Step of the prices; `right` is 0 where a price is fixed, and so is the step."""
    xp = compat.array_namespace(right)
    if linear.links is None:
        scale = 1.0 / xp.sqrt(linear.anchors)
        return scale * conjugate_gradients(
            lambda v: scale * _product(problem, linear, scale * v),
            scale * right,
            tol=CG_TOLERANCE,
            max_iter=CG_FIXED if problem.fixed else CG_MOST,
            read_back=not problem.fixed,
        )
    if linear.h is None:
        return _solve_dense(problem, linear, right)
    inverse = xp.where(problem.shares > 0, 1.0 / linear.diagonal, xp.zeros_like(right))
    x = right * inverse
    return x + inverse * xp.matmul(
        linear.h.T, _solve_dense(problem, linear, xp.matmul(linear.h, x))
    )


def _solve_dense(problem: Problem, linear: System, right: Array) -> Array:
    xp = compat.array_namespace(right)
    n = right.shape[0]
    if linear.factors is not None:
        return _substitute(linear.factors, right)
    scale = 1.0 / xp.sqrt(linear.anchors + xp.sum(linear.links, axis=1))
    matrix = linear.links * scale[:, None] * scale
    if problem.fixed:
        return scale * conjugate_gradients(
            lambda v: v - xp.matmul(matrix, v),
            right * scale,
            tol=CG_TOLERANCE,
            max_iter=CG_FIXED,
            read_back=False,
        )
    one = xp.eye(n, dtype=matrix.dtype, device=compat.device(matrix))
    ridge = 1.0 + 4.0 * xp.finfo(matrix.dtype).eps
    return scale * xp.linalg.solve(ridge * one - matrix, (right * scale)[:, None])[:, 0]


def _eliminate(links: Array, anchors: Array) -> Factors:
    """Gaussian elimination that adds positive numbers only (Grassmann, Taksar and Heyman).

    A node that is eliminated passes its links and its anchor on to the nodes that it was linked to.
    """
    xp, n = compat.array_namespace(links), links.shape[0]
    index = xp.arange(n, device=compat.device(links))
    diagonal = index[:, None] == index[None, :]
    zero, steps = xp.zeros_like(links), []
    for left in range(n - 1, 0, -1):
        row = links[0, 1:]
        pivot = anchors[0] + xp.sum(row)
        part = row / pivot
        steps.append((part, pivot))
        links = links[1:, 1:] + part[:, None] * row
        links = xp.where(diagonal[:left, :left], zero[:left, :left], links)
        anchors = anchors[1:] + part * anchors[0]
    return Factors(steps, anchors)


def _substitute(factors: Factors, right: Array) -> Array:
    """Solve for a right-hand side: on to the last node, and back."""
    xp, passed = compat.array_namespace(right), []
    for part, pivot in factors.steps:
        passed.append((part, right[0] / pivot))
        right = right[1:] + part * right[0]
    x = right / factors.last
    for part, own in reversed(passed):
        x = xp.concat([xp.reshape(own + xp.sum(part * x), (1,)), x])
    return x


def _product(problem: Problem, linear: System, v: Array) -> Array:
    """The matrix times v, from the state."""
    xp, state = compat.array_namespace(v), linear.state
    v = xp.where(problem.shares > 0, v, xp.zeros_like(v))
    out = linear.diagonal * v
    for _, y, g in blocks(problem, state):
        h = y / g
        out = out - xp.matmul(h.T, xp.matmul(h, v) / xp.sum(h, axis=1))
    return xp.where(problem.shares > 0, out, v)


def _off_diagonal(matrix: Array) -> Array:
    xp = compat.array_namespace(matrix)
    index = xp.arange(matrix.shape[0], device=compat.device(matrix))
    return xp.where(index[:, None] == index[None, :], xp.zeros_like(matrix), matrix)
