r"""Shares, prices and the bound of the linear program of loads: the passes of `assignment`.

Problem: minimize over the prices of a unit of load

``D(pi) = sum_i max_k (s_ik + w_i pi_k) - sum_k (L_k pi_k^+ - U_k pi_k^-)``,

which no labels with loads inside are worth more than. Rows of sizes w are rows of size 1 with the
scores ``s_i / w_i``, each w_i times, so that the parts of the plain solver do the work on a
*sample by size*: rows drawn evenly from the running sum of the sizes.

1. *Region*: prices and their errors, learned as in the plain problem from a sample by size, or
   around prices that are given.
2. *Candidates* of one pass over the scores with prices added, in units of size.
3. *Newton's method* on the rows that are left, as a sample by size; loads of the others are exact.
4. *Program*: a corner by HiGHS of the rows that nearly tie, with more rows and pairs until no
   candidate is worth more. Prices stay in the region, because what is missing can be bought there.
5. *Proof*: D in a pass over all scores. Where the program gains less, the next region is wider.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.loads import LOAD_ROUNDING, LoadBounds, loads_of
from ...bounds.sizes import SizeBounds
from ...core.error_free import sum_of_differences
from ...core.errors import InfeasibleBoundsError, InvalidValueError
from ...core.reads import entries, read
from ...core.types import Array
from ...scores.sources import ScoreSource, subsample
from ...scores.statistics import score_range, strided_ids
from .._candidates import TrustRegion, all_candidates, collect_candidates
from .._proof import rounding_of
from .._smoothed_dual import SmoothedDual, refine_prices
from .._trust_region import initial_region
from ._program import TOLERANCE, Corner, Program, Shared, corner_of

__all__ = ["Found", "Problem", "places_of", "problem_of", "solved"]

SMALL = 2**12
"""Scores of a problem whose rows keep all clusters, without a region."""

LEAST_SIZE = 2.0**-10
"""Of the mean size: rows that are smaller count as large where sizes divide."""

WIDTH, GROWTH, MOST_PASSES = 16, 4.0, 8
"""Candidates of a row at first, growth of the region and of them, and passes before all rows keep
all clusters."""

COPIES = 2
"""Rows of the sample by size that Newton's method sees, over the rows that are left."""

ON_BORDER, WINDOW = 2.0, 8.0
"""Rows of each cluster that nearly tie where Newton's method ends, and the lead of rows that the
program has at first, in units of its last temperature."""

RAISE, MOST_RAISES = 16.0, 15
"""Growth of what load costs where all clusters are candidates, and how often it grows."""

NEAR = 1e-11
"""Of the scores of a row: a candidate that is worth so little more is none."""

FREE_SHARE = 0.1
"""Share of the rows that are left around prices that are given."""

PROGRAM_GAP = 1e-9
"""Of the sum of absolute scores: what the program's shares may lack where it counts as solved."""


class Problem(NamedTuple):
    """Scores, sizes in a unit that makes the largest about 1, and bounds that all loads have.

    `divisors` are the sizes, none below a part of the mean.
    """

    source: ScoreSource
    sizes: Array
    divisors: Array
    lower: Array
    upper: Array


class Found(NamedTuple):
    """A corner of the program, and its proof.

    Labels are those of the largest share. `bound` is what no labels with loads inside are worth
    more than, `objective` what these are worth, and `size` the sum of their absolute scores.
    """

    labels: Array
    shared: list[Shared]
    prices: Array
    objective: float
    size: float
    bound: float
    is_solved: bool


class _Pass(NamedTuple):
    """Labels, shared rows and prices from the candidates, and whether bounds were met by them."""

    labels: Array
    shared: list[Shared]
    prices: Array
    is_stuck: bool


def places_of(mask: Array) -> Array:
    """Return where an (n,) bool array is true, (m,) int64, in order."""
    xp = compat.array_namespace(mask)
    order = xp.argsort(xp.astype(mask, xp.int8), descending=True, stable=True)
    return xp.astype(order[: int(xp.sum(xp.astype(mask, xp.int64)))], xp.int64)


def problem_of(source: ScoreSource, bounds: LoadBounds) -> tuple[Problem, float]:
    """Return the problem in a unit of size, and that unit.

    Bounds are what those of the other clusters leave, too, a rounding wider (`LOAD_ROUNDING`).
    """
    xp, n = compat.array_namespace(bounds.sizes), int(bounds.sizes.shape[0])
    values = entries("sizes", bounds.sizes)
    unit = math.ldexp(1.0, math.frexp(max(values, default=0.0))[1])
    total = math.fsum(v / unit for v in values)
    low, high = ([v / unit for v in entries("loads", b)] for b in (bounds.lower, bounds.upper))
    high = [min(v, total) for v in high]
    needed, room = math.fsum(low), math.fsum(high)
    slack = LOAD_ROUNDING * total
    least = [max(v, total - (room - u), 0.0) for v, u in zip(low, high, strict=True)]
    most = [min(u, total - (needed - v)) for v, u in zip(low, high, strict=True)]
    device = compat.device(bounds.sizes)
    sizes = bounds.sizes / unit
    return Problem(
        source=source,
        sizes=sizes,
        divisors=xp.clip(sizes, min=max(LEAST_SIZE * total / max(n, 1), 2.0**-1000)),
        lower=xp.asarray([v - slack for v in least], dtype=xp.float64, device=device),
        upper=xp.asarray([v + slack for v in most], dtype=xp.float64, device=device),
    ), unit


def solved(problem: Problem, prices: Array | None) -> Found:
    """Steps 1 to 5: a corner of the program, and the proof that it is the best."""
    n, k = problem.source.group.n_total, problem.source.n_clusters
    region, width, n_passes = _first_region(problem, prices), WIDTH, 0
    while True:
        is_whole = n * k <= SMALL or n_passes >= MOST_PASSES or k == 1
        done = _pass(problem, region, None if is_whole else width)
        if not done.is_stuck:
            found = _proven(problem, done)
            if found.is_solved or is_whole:
                return found
        elif is_whole:
            msg = "no labels have loads inside the bounds, because of forbidden pairs or of rows"
            msg = f"{msg} larger than what clusters hold. To fix this, allow more, or widen them"
            raise InfeasibleBoundsError(msg)
        n_passes, width = n_passes + 1, int(GROWTH * width)
        region = TrustRegion(done.prices, GROWTH * region.radius)


def _by_size(sizes: Array, m: int) -> Array:
    """Return m rows drawn evenly from the running sum of the sizes, (m,) int64."""
    xp = compat.array_namespace(sizes)
    ends = xp.cumulative_sum(sizes)
    steps = xp.arange(m, dtype=xp.float64, device=compat.device(sizes)) + 0.5
    places = xp.searchsorted(ends, steps * (ends[-1] / m))
    return xp.clip(xp.astype(places, xp.int64), max=sizes.shape[0] - 1)


def _in_size(problem: Problem, prices: Array | None) -> ScoreSource:
    """The scores with prices added, in units of size: those of rows of size 1."""
    xp, source = compat.array_namespace(problem.sizes), problem.source
    prices = xp.zeros_like(problem.lower) if prices is None else prices

    def priced(scores: Array, sizes: Array, divisors: Array) -> Array:
        whole = xp.astype(scores, xp.float64) + sizes[:, None] * prices
        return whole / divisors[:, None]

    def block(start: int, stop: int) -> Array:
        parts = (v[start:stop] for v in (problem.sizes, problem.divisors))
        return priced(source.block(start, stop), *parts)

    def take(ids: Array) -> Array:
        parts = (xp.take(v, ids) for v in (problem.sizes, problem.divisors))
        return priced(source.take(ids), *parts)

    return ScoreSource(source.n_clusters, block=block, take=take, group=source.group)


def _first_region(problem: Problem, prices: Array | None) -> TrustRegion:
    """Step 1: prices and how far they may be off."""
    xp, k = compat.array_namespace(problem.lower), problem.source.n_clusters
    n, zero = problem.source.group.n_total, xp.zeros_like(problem.lower)
    start = TrustRegion(zero if prices is None else prices, zero + 1.0)
    if n * k <= SMALL or k == 1:
        return start
    (total,) = read(xp.sum(problem.sizes))
    if prices is None and total > 0.0:
        drawn = subsample(_in_size(problem, None), _by_size(problem.sizes, n))
        low, high = (n / total * b for b in (problem.lower, problem.upper))
        low = xp.clip(xp.astype(xp.floor(low), xp.int64), min=0)
        high = xp.astype(xp.ceil(high), xp.int64)
        device = compat.device(low)
        counts = SizeBounds.from_counts(low, high, n_samples=n, xp=xp, device=device)
        try:
            return initial_region(drawn, counts)
        except InvalidValueError:  # of a sample; what is wrong with all rows, the passes say
            pass
    ids = strided_ids(n, min(n, 2**12), zero)
    scores = _in_size(problem, start.center).take(ids)
    ordered = xp.sort(scores, axis=1, descending=True)
    leads = xp.where(xp.isfinite(ordered[:, 1]), ordered[:, 0] - ordered[:, 1], zero[0] - 1.0)
    leads = [lead for lead in entries("leads", xp.sort(leads)) if 0.0 < lead < math.inf]
    radius = 0.5 * leads[int(FREE_SHARE * len(leads))] if leads else score_range(scores)
    return start._replace(radius=zero + radius)


def _pass(problem: Problem, region: TrustRegion, width: int | None) -> _Pass:
    """Steps 2 to 4; all clusters are candidates of all rows without a width."""
    xp, k = compat.array_namespace(problem.lower), problem.source.n_clusters
    prices, radius = region.center, region.radius
    if width is None:
        candidates = all_candidates(problem.source, like=prices)
    else:
        source = _in_size(problem, prices)
        candidates = collect_candidates(source, -radius, radius, width=min(width, k))
    rows = places_of(candidates.is_free)
    names = xp.astype(candidates.clusters, xp.int64)
    values = _scores_of(problem.source, rows, names)
    labels = xp.astype(candidates.labels, xp.int64)
    sizes = xp.take(problem.sizes, rows)
    fixed = loads_of(xp.where(candidates.is_free, 0.0 * problem.sizes, problem.sizes), labels, k)
    if not rows.shape[0]:
        is_stuck = bool(xp.any((fixed < problem.lower) | (fixed > problem.upper)))
        return _Pass(labels, [], prices, is_stuck)
    window = math.inf
    if width is not None:
        prices, window = _newton(problem, region, rows, values, names, fixed)
    free = _Free(names, values, sizes, fixed, problem.lower, problem.upper)
    own, shared, prices, is_stuck = _corner(free, prices, region, window, is_whole=width is None)
    place = xp.clip(xp.cumulative_sum(xp.astype(candidates.is_free, xp.int64)) - 1, min=0)
    labels = xp.where(candidates.is_free, xp.take(own, place), labels)
    shared = [row._replace(row=int(rows[row.row])) for row in shared]
    return _Pass(labels, shared, prices, is_stuck)


def _scores_of(source: ScoreSource, rows: Array, names: Array) -> Array:
    """The scores of the candidates as they are, float64."""
    xp = compat.array_namespace(names)
    parts, step = [xp.zeros((0, names.shape[1]), dtype=xp.float64, device=compat.device(names))], 2**13
    for start in range(0, rows.shape[0], step):
        some = xp.astype(source.take(rows[start : start + step]), xp.float64)
        own = names[start : start + step, :]
        values = xp.take_along_axis(some, xp.clip(own, min=0), axis=1)
        parts.append(xp.where(own >= 0, values, xp.full_like(values, -math.inf)))
    return xp.concat(parts)


def _newton(
    problem: Problem, region: TrustRegion, rows: Array, values: Array, names: Array, fixed: Array
) -> tuple[Array, float]:
    """Step 3: prices, and the lead up to which rows nearly tie there."""
    xp, k = compat.array_namespace(values), problem.source.n_clusters
    sizes, divisors = xp.take(problem.sizes, rows), xp.take(problem.divisors, rows)
    m = COPIES * int(rows.shape[0])
    (total,) = read(xp.sum(sizes))
    if total == 0.0:
        return region.center, 0.0
    drawn = _by_size(sizes, m)
    rate = m / total
    dual = SmoothedDual(
        values=xp.take(values, drawn, axis=0) / xp.take(divisors, drawn)[:, None],
        clusters=xp.astype(xp.take(names, drawn, axis=0), xp.int32),
        fixed_counts=rate * fixed,
        lower=rate * problem.lower,
        upper=rate * problem.upper,
        low=region.center - region.radius,
        high=region.center + region.radius,
    )
    (mean,) = read(xp.mean(region.radius))
    refined = refine_prices(
        dual, region.center, start=0.125 * mean, fractional=ON_BORDER * COPIES * k
    )
    return refined.prices, WINDOW * refined.temperature


class _Free(NamedTuple):
    """Rows that are left, (m, w) clusters and scores, and what all bounds and fixed rows leave."""

    names: Array
    values: Array
    sizes: Array
    fixed: Array
    lower: Array
    upper: Array


def _corner(
    free: _Free, start: Array, region: TrustRegion, window: float, *, is_whole: bool
) -> tuple[Array, list[Shared], Array, bool]:
    """Step 4: slots, shared rows and prices of a corner that no candidate is worth more than.

    Also whether it had to buy load. What that costs grows where all clusters are candidates.
    """
    xp = compat.array_namespace(start)
    priced, best = _priced(free, start)
    behind = best[:, None] - priced
    kept = behind <= min(window, 2.0**200) * free.sizes[:, None]
    largest = float(xp.max(xp.where(xp.isfinite(behind), behind, xp.zeros_like(behind))))
    if is_whole:
        less = more = xp.zeros_like(start) + 2.0 * (largest or 1.0)
        kept = xp.isfinite(behind) if math.prod(behind.shape) <= SMALL else kept
    else:
        ends = region.center + region.radius, region.center - region.radius
        less, more = (xp.clip(v, min=0.0) for v in (ends[0] - start, start - ends[1]))
    n_raised, tol = 0, NEAR * (largest + xp.abs(best))
    while True:
        corner, program = _solved(free, priced, behind, kept, start, less, more)
        changes = xp.asarray(corner.changes, dtype=xp.float64, device=compat.device(start))
        now, _ = _priced(free, start + changes)
        inside = xp.max(xp.where(kept, now, xp.full_like(now, -math.inf)), axis=1)
        new = (now > (inside + tol)[:, None]) & ~kept
        if bool(xp.any(new)):
            kept = kept | new
        elif corner.is_stuck and is_whole and n_raised < MOST_RAISES:
            n_raised, less, more = n_raised + 1, RAISE * less, RAISE * more
        else:
            break
    return *_shares(free, priced, kept, corner, program), start + changes, corner.is_stuck


def _solved(
    free: _Free,
    priced: Array,
    behind: Array,
    kept: Array,
    prices: Array,
    less: Array,
    more: Array,
) -> tuple[Corner, Program]:
    """Solve the program of the pairs that are kept, of the rows that have several."""
    xp, k = compat.array_namespace(prices), prices.shape[0]
    slots = xp.argmax(xp.where(kept, priced, xp.full_like(priced, -math.inf)), axis=1)
    own = xp.take_along_axis(free.names, slots[:, None], axis=1)[:, 0]
    is_border = xp.sum(xp.astype(kept, xp.int64), axis=1) > 1
    alone = xp.where(is_border, 0.0 * free.sizes, free.sizes)
    base = free.fixed + loads_of(alone, own, k)
    width = kept.shape[1]
    pairs = places_of(xp.reshape(kept & is_border[:, None], (-1,)))
    rows = pairs // width
    number = xp.cumulative_sum(xp.astype(is_border, xp.int64)) - 1

    def listed(values: Array) -> list[float]:
        return entries("values", values)

    return corner_of(
        program := Program(
            rows=listed(xp.take(number, rows)),
            clusters=listed(xp.take(xp.reshape(free.names, (-1,)), pairs)),
            gains=listed(-xp.take(xp.reshape(behind, (-1,)), pairs)),
            sizes=listed(xp.take(free.sizes, rows)),
            prices=listed(prices),
            low=listed(free.lower - base),
            high=listed(free.upper - base),
            less=listed(less),
            more=listed(more),
        )
    ), program


def _shares(
    free: _Free, priced: Array, kept: Array, corner: Corner, program: Program
) -> tuple[Array, list[Shared]]:
    """Return the cluster of the largest share of each row, and the rows that have several."""
    xp, device = compat.array_namespace(priced), compat.device(priced)
    slots = xp.argmax(xp.where(kept, priced, xp.full_like(priced, -math.inf)), axis=1)
    own = xp.take_along_axis(free.names, slots[:, None], axis=1)[:, 0]
    if not program.rows:
        return own, []
    parts: list[list[tuple[int, float]]] = [[] for _ in range(program.rows[-1] + 1)]
    for row, cluster, share in zip(program.rows, program.clusters, corner.shares, strict=True):
        parts[row].append((cluster, share))
    border = places_of(xp.sum(xp.astype(kept, xp.int64), axis=1) > 1)
    best = [max(part, key=lambda one: one[1])[0] for part in parts]
    several = [i for i, part in enumerate(parts) if sum(x > TOLERANCE for _, x in part) > 1]
    chosen = xp.asarray(best, dtype=xp.int64, device=device)
    is_border = xp.sum(xp.astype(kept, xp.int64), axis=1) > 1
    place = xp.clip(xp.cumulative_sum(xp.astype(is_border, xp.int64)) - 1, min=0)
    own = xp.where(is_border, xp.take(chosen, place), own)
    if not several:
        return own, []
    ids = xp.take(border, xp.asarray(several, dtype=xp.int64, device=device))
    shared = []
    each = zip(
        entries("ids", ids), several, entries("sizes", xp.take(free.sizes, ids)), strict=True
    )
    for i, row, size in each:
        part = [(j, x) for j, x in parts[row] if x > TOLERANCE]
        worth = dict(
            zip(
                entries("names", free.names[i, :]), entries("values", free.values[i, :]), strict=True
            )
        )
        shared.append(
            Shared(i, size, [j for j, _ in part], [x for _, x in part], [worth[j] for j, _ in part])
        )
    return own, shared


def _priced(free: _Free, prices: Array) -> tuple[Array, Array]:
    """Scores with prices added, and the best of each row."""
    xp = compat.array_namespace(prices)
    names = xp.clip(free.names, min=0)
    each = xp.reshape(xp.take(prices, xp.reshape(names, (-1,))), names.shape)
    priced = free.values + free.sizes[:, None] * each
    return priced, xp.max(priced, axis=1)


def _proven(problem: Problem, done: _Pass) -> Found:
    """Step 5: the dual value, from what rows lose by these labels and prices pay for loads."""
    xp, prices = compat.array_namespace(done.prices), done.prices

    def of_block(start: int, stop: int) -> list[float]:
        scores = xp.astype(problem.source.block(start, stop), xp.float64)
        each = problem.sizes[start:stop, None] * prices
        best = xp.argmax(scores + each, axis=1)[:, None]
        label = done.labels[start:stop, None]
        top, own = (
            [xp.take_along_axis(part, place, axis=1)[:, 0] for part in (scores, each)]
            for place in (best, label)
        )
        regret = xp.clip(sum_of_differences(top[0], own[0], top[1], own[1]), min=0.0)
        return read(xp.sum(regret), xp.sum(own[0]), xp.sum(xp.abs(own[0])))

    blocks = list(problem.source.map_blocks(of_block, like=prices, at_least_one=True))
    lost, objective, size = (math.fsum(part) for part in zip(*blocks, strict=True))
    loads = loads_of(problem.sizes, done.labels, prices.shape[0])
    paid = xp.where(
        prices > 0.0, prices * (loads - problem.lower), -prices * (problem.upper - loads)
    )
    slack, terms = read(xp.sum(paid), xp.sum(xp.abs(paid)))
    lost += slack
    moved = math.fsum(
        share * value for row in done.shared for share, value in zip(row.shares, row.values, strict=True)
    )
    own = math.fsum(row.values[row.shares.index(max(row.shares))] for row in done.shared)
    is_solved = lost - (moved - own) <= PROGRAM_GAP * size
    bound = objective + lost + rounding_of(abs(lost) + terms)
    return Found(done.labels, done.shared, prices, objective, size, bound, is_solved)
