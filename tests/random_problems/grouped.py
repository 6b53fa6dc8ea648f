"""Random problems with bounds on groups in clusters, with links, and with rows left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, eye_array, kron, vstack

from dualclust.algos.bounds import GroupBounds, LoadBounds, SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline.grouped import assign_grouped, assign_linked, assign_partial
from dualclust.algos.offline.weighted import assign_weighted
from tests.grouped_problems import Grouped, best_grouped
from tests.highs import is_feasible
from tests.judge_groups import judge_grouped, judge_linked, judge_partial
from tests.judge_weighted import judge_no_shares, judge_weighted
from tests.random_problems.drawn import Drawn, draw_problem, spread

__all__ = ["random_groups", "random_left_out", "random_links", "random_loads"]

Array = NDArray[Any]

FEW, RANGE = 300, 1e6
"""Scores, and ratio of the largest to the least, of problems that HiGHS solves as well."""

LARGEST = 1e290
"""From sums of such sizes on a problem may be refused: float64 does not hold its prices."""

FEW_LOADS = 2**11
"""Scores with sizes of rows: where thousands of them tie, HiGHS takes more than ten seconds."""

WHOLE = 2**13
"""Scores from which on links are not looked at by an integer program."""

BLUR = 2.0**-44
"""What rounding may leave of a gap, relative to the largest score of each row."""


def _exact(drawn: Drawn) -> tuple[Array, Array, float, float]:
    """Weighted scores, forbidden ones 0 and minus infinity; sum of the largest; what rounding may
    leave of a gap: parts of that sum, and the least numbers, which are below all weights.
    """
    n, allowed = len(drawn.scores), np.isfinite(drawn.scores)
    weights = np.ones(n) if drawn.weights is None else drawn.weights
    exact = np.where(allowed, drawn.scores, 0.0).astype(np.longdouble) * weights[:, None]
    total = np.abs(exact).max(axis=1).sum()
    largest = np.longdouble(weights.max()) * max(np.abs(drawn.scores[allowed]).max(initial=0.0), 1)
    least = float(4 * n * np.longdouble(5e-324) * max(largest, 1))
    scores = exact.astype(np.float64)
    blurred = BLUR * float(min(total, LARGEST)) + least
    return scores, np.where(allowed, scores, -np.inf), total, blurred


def random_groups(rng: np.random.Generator) -> str:
    """Draw groups and bounds around the counts of some labels, and compare with HiGHS."""
    drawn = draw_problem(rng)
    n, k = drawn.scores.shape
    labels, allowed = rng.integers(0, k, n), np.isfinite(drawn.scores)
    if rng.random() < 0.7:  # labels that are allowed where a row may go anywhere
        labels = np.where(allowed.any(axis=1), np.argmax(rng.random((n, k)) * allowed, axis=1), 0)
    most = int(rng.choice([0, 1, 2, 5, n]))
    groups = rng.integers(-1, most, n) if most else np.full(n, -1)
    cells = np.zeros((int(groups.max(initial=-1)) + 1, k), np.int64)
    np.add.at(cells, (groups[groups >= 0], labels[groups >= 0]), 1)
    sizes = np.bincount(labels, minlength=k)
    slack, wide = rng.choice([0, 0, 1, 3, n], 2)
    lower, upper = _around(rng, sizes, slack)
    least, largest = _around(rng, cells, wide)
    if rng.random() < 0.2:  # which may contradict each other
        least = np.minimum(least + rng.integers(0, 2, cells.shape), largest)
    problem = Grouped(drawn.scores, groups.astype(np.int64), lower, upper, least, largest)
    bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
    of_groups = GroupBounds.from_counts(problem.groups, k, lower=least, upper=largest)
    start = None
    if rng.random() < 0.3:
        scale = float(np.abs(drawn.scores[allowed]).max(initial=0.0)) * rng.choice([0.01, 1.0])
        scale = min(scale, LARGEST)
        start = scale * rng.normal(size=k), scale * rng.normal(size=cells.shape)
    try:
        found = assign_grouped(drawn.scores, bounds, of_groups, weights=drawn.weights, prices=start)
    except InfeasibleBoundsError:
        anything = problem._replace(scores=np.where(allowed, 0.0, -np.inf))
        assert best_grouped(anything) is None, "HiGHS finds labels"
        return "infeasible"
    except InvalidValueError as error:
        return _refused(drawn, error)
    scores, worth, total, blurred = _exact(drawn)
    if total > LARGEST:
        assert np.isfinite([found.objective, found.upper_bound]).all()
        return "too large to judge"
    # Prices of so many times a score lose so many digits.
    blurred += 0.0 if start is None else BLUR * total * k
    judge_grouped(worth, bounds, of_groups, found, doubt=blurred)
    assert found.upper_bound - found.objective <= blurred, "not proven"
    if _is_plain(scores):
        unit = float(np.abs(scores).max(initial=0.0)) or 1.0
        best = best_grouped(problem._replace(scores=worth / unit))
        assert best is not None
        off = 1e-7 * n * unit + blurred
        assert abs(best * unit - found.objective) <= off, "not the best"
    return found.status


def random_links(rng: np.random.Generator) -> str:
    """Draw pairs that some labels inside the bounds keep, or any pairs; compare with HiGHS."""
    drawn = draw_problem(rng)
    scores, _, _, weights = drawn
    n, k = scores.shape
    labels, allowed = rng.integers(0, k, n), np.isfinite(scores)
    if rng.random() < 0.8:
        labels = np.where(allowed.any(axis=1), np.argmax(rng.random((n, k)) * allowed, axis=1), 0)
    lower, upper = _around(rng, np.bincount(labels, minlength=k), rng.choice([0, 1, 3, n]))
    pairs = rng.integers(0, n, (int(rng.choice([0, 1, 3, n])), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    if rng.random() < 0.2:
        is_must = rng.random(len(pairs)) < 0.3
    must, cannot = pairs[is_must], pairs[~is_must]
    bounds, tol = SizeBounds.from_counts(lower, upper, n_samples=n), rng.choice([0.0, 1e-4, 1.0])
    try:
        found = assign_linked(
            scores, bounds, must_link=must, cannot_link=cannot, weights=weights, tol=float(tol)
        )
    except InfeasibleBoundsError:
        assert _best_linked(np.where(allowed, 0.0, -np.inf), lower, upper, must, cannot) is None
        return "infeasible"
    except InvalidValueError as error:
        if "no labels were found" in str(error) and n * k > WHOLE:
            return "not found"
        return _refused(drawn, error)
    exact, worth, total, blurred = _exact(drawn)
    if total > LARGEST:
        assert np.isfinite([found.objective, found.upper_bound]).all()
        return "too large to judge"
    judge_linked(worth, bounds, must, cannot, found, doubt=blurred)
    if _is_plain(exact):
        unit = 1e-6 * (float(np.abs(exact).max(initial=0.0)) or 1.0)  # HiGHS ends within 1e-6
        best = _best_linked(worth / unit, lower, upper, must, cannot)
        assert best is not None
        off = 1e-3 * n * unit + found.rounding + blurred
        assert best * unit <= found.upper_bound + off, "no bound"
        assert found.objective <= best * unit + off
        assert found.gap > 0.0 or best * unit - found.objective <= off, "not the best"
    return found.status


def _best_linked(
    scores: Array, lower: Array, upper: Array, must: Array, cannot: Array
) -> float | None:
    """Return the value of the best labels by HiGHS, or None where there are none."""
    (n, k), allowed = scores.shape, np.isfinite(scores)
    lines = [kron(eye_array(n), np.ones((1, k))), kron(np.ones((1, n)), eye_array(k))]
    low, high = [np.ones(n), lower], [np.ones(n), upper]
    for pairs, sign, least, most in ((must, -1.0, 0.0, 0.0), (cannot, 1.0, -np.inf, 1.0)):
        m = len(pairs)
        both = coo_array(
            (np.tile([1.0, sign], m), (np.repeat(np.arange(m), 2), pairs.ravel())), shape=(m, n)
        )
        lines.append(kron(both, eye_array(k)))
        low.append(np.full(m * k, least))
        high.append(np.full(m * k, most))
    found = milp(
        -np.where(allowed, scores, 0.0).ravel(),
        constraints=LinearConstraint(vstack(lines), np.concatenate(low), np.concatenate(high)),
        bounds=Bounds(0, allowed.ravel().astype(float)),
        integrality=np.ones(n * k),
        options={"mip_rel_gap": 0.0},
    )
    assert found.status in (0, 2), found.message
    return None if found.status == 2 else -float(found.fun)


def random_loads(rng: np.random.Generator) -> str:
    """Draw sizes of rows, and bounds around the loads of some labels."""
    drawn = draw_problem(rng)
    scores, _, _, weights = drawn
    n, k = scores.shape
    if n * k > FEW_LOADS:
        return "too many"
    labels, allowed = rng.integers(0, k, n), np.isfinite(scores)
    if rng.random() < 0.8:
        labels = np.where(allowed.any(axis=1), np.argmax(rng.random((n, k)) * allowed, axis=1), 0)
    kinds = (
        lambda: rng.integers(0, 11, n).astype(float),
        lambda: rng.lognormal(0.0, float(rng.choice([0.5, 2.0])), n),
        lambda: np.full(n, float(rng.choice([0.1, 3.0]))),
        lambda: rng.random(n) * 10.0 ** float(rng.integers(-8, 9)),
    )
    sizes = kinds[rng.integers(len(kinds))]()
    loads = np.bincount(labels, sizes, minlength=k)
    slack = float(rng.choice([0.0, 0.1, 1.0])) * rng.random((2, k)) * sizes.mean()
    lower, upper = np.maximum(loads - slack[0], 0.0), loads + slack[1]
    bounds = LoadBounds.from_loads(sizes, k, lower=lower, upper=upper)
    start = None if rng.random() < 0.7 else rng.normal(size=k) * 10.0 ** float(rng.integers(-3, 4))
    try:
        found = assign_weighted(scores, bounds, weights=weights, prices=start)
    except InfeasibleBoundsError:
        judge_no_shares(np.where(allowed, 0.0, -np.inf), bounds)
        return "infeasible"
    except InvalidValueError as error:
        if "orders of magnitude" in str(error) and (spread() > 12 or not _is_narrow(drawn)):
            return "refused"  # which HiGHS has ended with an error of its own
        return _refused(drawn, error)
    _, worth, total, blurred = _exact(drawn)
    if total > LARGEST:
        assert np.isfinite([found.objective, found.upper_bound]).all()
        return "too large to judge"
    judge_weighted(worth, bounds, found, doubt=blurred)
    return found.status


def random_left_out(rng: np.random.Generator) -> str:
    """Draw how many rows may stay out, and at what score; one cluster more is the same problem."""
    drawn = draw_problem(rng)._replace(weights=None)
    scores, lower, upper, _ = drawn
    n, k = scores.shape
    most = int(rng.integers(0, n + 1))
    outside = scores[np.arange(n), rng.integers(0, k, n)].astype(np.float64)
    outside = np.where(np.isfinite(outside), outside, 0.0)
    outside = outside if rng.random() < 0.5 else np.full(n, outside[0])
    allowed = np.concatenate([np.isfinite(scores), np.ones((n, 1), bool)], axis=1)
    limits = {"min_count": lower.tolist(), "max_count": upper.tolist()}
    try:
        found = assign_partial(scores, max_out=most, out_score=outside, **limits)
    except InfeasibleBoundsError:
        assert not is_feasible(allowed, np.append(lower, 0), np.append(upper, most))
        return "infeasible"
    except InvalidValueError as error:
        return _refused(drawn, error)
    total = (
        np.abs(np.where(np.isfinite(scores), scores, 0.0).astype(np.longdouble)).max(axis=1).sum()
    )
    blurred = BLUR * float(min(total, LARGEST))
    judge_partial(scores, outside, lower, upper, most, found, doubt=blurred)
    return found.status


def _around(rng: np.random.Generator, counts: Array, slack: int) -> tuple[Array, Array]:
    below, above = (rng.integers(0, slack + 1, counts.shape) for _ in range(2))
    return np.maximum(counts - below, 0), counts + above


def _is_plain(scores: Array) -> bool:
    sizes = np.abs(scores[scores != 0.0])
    if scores.size > FEW or not sizes.size:
        return scores.size <= FEW
    return sizes.max() <= RANGE * sizes.min() and sizes.max() > 1 / LARGEST


def _is_narrow(drawn: Drawn) -> bool:
    """Whether scores times weights are within twelve orders of magnitude."""
    finite = np.abs(np.where(np.isfinite(drawn.scores), drawn.scores, 0.0).astype(np.longdouble))
    worth = finite if drawn.weights is None else finite * drawn.weights[:, None]
    worth = worth[worth > 0.0]
    return not worth.size or bool(worth.max() <= 1e12 * worth.min())


def _refused(drawn: Drawn, error: InvalidValueError) -> str:
    """What float64 cannot hold may be refused, and nothing else."""
    finite = np.abs(drawn.scores[np.isfinite(drawn.scores)].astype(np.longdouble))
    weight = np.longdouble(1.0 if drawn.weights is None else drawn.weights.max(initial=0.0))
    largest = max(weight, finite.sum() * weight) * len(drawn.scores)
    assert largest > LARGEST, f"refused: {error}"
    return "refused"
