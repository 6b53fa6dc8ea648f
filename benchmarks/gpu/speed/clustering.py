"""Assignments, constrained k-means and pseudo-labels on data that is drawn on the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import dualclust as dc
from dualclust.algos.scores.nearest import best_clusters
from dualclust.cluster.distances import nearest_centers

from ..machine import Machine
from ..records import Row
from ..stages import Context, attempted
from ..timing import measure
from .ceilings import bandwidth, matrix_rate, rotations, share

__all__ = ["measure_assignment", "measure_y_update"]

SIZES = [(1_000_000, 1_000, 128), (10_000_000, 1_000, 64)]
TOY = [(200, 5, 4)]
ITERATIONS = 3
MOST = 15.0  # seconds of a function
MATRIX = 2**32  # bytes of a matrix of scores that `assign_offline` is timed on


def measure_assignment(context: Context) -> Iterator[Row]:
    """Rows of all functions at one size, then at the next."""
    machine = context.machine
    for n, k, d in machine.size(SIZES, TOY):
        x, c = _data(machine, n, k, d)
        functions: dict[str, Callable[..., Any]] = {
            "assign": _stream,
            "nearest_centers": _nearest,
            "assign_source": _source,
            "constrained_kmeans": _kmeans,
        }
        if 4 * n * k <= MATRIX:
            functions["assign_offline"] = _offline
        for name, function in functions.items():
            label = {"function": name, "n, k, d": f"{n:,}, {k:,}, {d}"}
            yield from attempted(context, label, partial(function, context, x, c), MOST)
        del x, c
        machine.free()


def _data(machine: Machine, n: int, k: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit features around k directions with Zipf weights, and noisy unit centers."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"device": machine.device}
    unit = partial(torch.nn.functional.normalize, dim=1)
    truth = unit(torch.randn(k, d, **options))
    ranks = torch.arange(1, k + 1, **options).double() ** -0.5
    edges = (ranks / ranks.sum()).cumsum(0)
    member = torch.searchsorted(edges, torch.rand(n, dtype=torch.float64, **options))
    x = torch.empty(n, d, **options)
    rows = 2**18
    for i in range(0, n, rows):
        part = truth[member[i : i + rows].clamp(max=k - 1)]
        x[i : i + rows] = unit(part + 2 * torch.randn(part.shape, **options) / d**0.5)
    return x, unit(truth + 0.5 * torch.randn(k, d, **options) / d**0.5)


def _bounds(x: torch.Tensor, k: int) -> Any:
    ratios = {"lower": 0.9, "upper": 1.1, "rounding": "outward"}
    return dc.SizeBounds.from_ratios(k, n_samples=len(x), xp=torch, device=x.device, **ratios)


def _blocks(x: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
    rows = max(64, 2**28 // (4 * len(c)))  # 256 MiB of scores
    return list(torch.split(x, rows))


def _of_peak(context: Context, x: torch.Tensor, c: torch.Tensor, seconds: float) -> float | None:
    operations = 2.0 * x.shape[0] * x.shape[1] * len(c)
    return share(operations, seconds, matrix_rate(context, "float32"))


def _stream(context: Context, x: torch.Tensor, c: torch.Tensor) -> Iterator[Row]:
    """Product and argmax alone, then with one pass of `assign` in the place of argmax."""
    machine = context.machine
    bounds = _bounds(x, len(c))
    steps = dc.measured_steps(bounds)

    def argmax() -> None:
        for part in _blocks(x, c):
            (part @ c.T).argmax(dim=1)

    def assign() -> Any:
        state = dc.init_state(bounds)
        for part in _blocks(x, c):
            _, state = dc.assign(part @ c.T, bounds, state, steps=steps)
        return state

    plain = measure(machine, [argmax], repeats=7, warm=1, most=3.0)
    yield {"what": "argmax", **plain.row(), "of peak": _of_peak(context, x, c, plain.median)}
    counts = assign().counts
    found = measure(machine, [assign], repeats=5, warm=0, most=10.0)
    inside = bool(((counts >= bounds.lower) & (counts <= bounds.upper)).all())
    yield {
        "what": "one pass",
        **found.row(),
        "of peak": _of_peak(context, x, c, found.median),
        "times argmax": found.median / plain.median,
        "verdict": "ok" if inside else "outside its bounds",
    }


def _nearest(context: Context, x: torch.Tensor, c: torch.Tensor) -> Iterator[Row]:
    """Best clusters at prices: in the blocks of `argmax`, and from features as the library does."""
    machine = context.machine
    prices = torch.linspace(-0.1, 0.1, len(c), device=x.device)
    source = dc.product_source(dc.feature_source(x), c)

    def kernel() -> None:
        for part in _blocks(x, c):
            best_clusters(part @ c.T, prices)

    looks = {"kernel": kernel, "from features": partial(nearest_centers, source, prices.double())}
    for what, look in looks.items():
        found = measure(machine, [look], repeats=5, warm=1, most=3.0)
        yield {"what": what, **found.row(), "of peak": _of_peak(context, x, c, found.median)}


def _source(context: Context, x: torch.Tensor, c: torch.Tensor) -> Row:
    """From features and centers, to a gap of 1e-4."""
    source = dc.product_source(dc.feature_source(x), c)
    return _solved(context, x, c, partial(dc.assign_source, source, _bounds(x, len(c)), tol=1e-4))


def _offline(context: Context, x: torch.Tensor, c: torch.Tensor) -> Row:
    """From a matrix of scores, to a gap of 1e-4."""
    scores = x @ c.T
    row = _solved(context, x, c, partial(dc.assign_offline, scores, _bounds(x, len(c)), tol=1e-4))
    read = share(4.0 * scores.numel(), row["ms"] / 1e3, bandwidth(context))
    return row | {"of peak": read, "what": "gap 1e-4, from scores"}


def _solved(context: Context, x: torch.Tensor, c: torch.Tensor, solve: Callable[[], Any]) -> Row:
    last: list[Any] = [solve()]

    def again() -> None:
        last[0] = solve()

    found = measure(context.machine, [again], repeats=3, warm=0, most=10.0)
    result = last[0]
    return {
        "what": "gap 1e-4",
        **found.row(),
        "of peak": _of_peak(context, x, c, found.median),
        "gap": float(result.gap),
        "verdict": "ok" if result.violation == 0 else "outside its bounds",
    }


def _kmeans(context: Context, x: torch.Tensor, c: torch.Tensor) -> Row:
    """A few iterations; the time is that of one."""
    bounds = _bounds(x, len(c))

    def run() -> None:
        options: dict[str, Any] = {"max_iter": ITERATIONS, "tol": 0.0, "gap": 1e-2}
        dc.constrained_kmeans(x, bounds, c, **options)

    found = measure(context.machine, [run], repeats=2, warm=1, most=1.0)
    each = found.median / (ITERATIONS + 1)  # the last labels are one more pass
    scaled = found._replace(
        median=each, low=found.low / (ITERATIONS + 1), high=found.high / (ITERATIONS + 1)
    )
    return {
        "what": "an iteration",
        **scaled.row(),
        "of peak": _of_peak(context, x, c, each),
    }


def measure_y_update(context: Context) -> Iterator[Row]:
    """Newton steps to a gap of 1e-10, and as many as a training step takes."""
    machine = context.machine
    for m, k in machine.size([(250, 10), (2500, 1000)], [(20, 3)]):
        sets = rotations(machine, 8.0 * m * k, machine.size(16, 2))
        sigmas = [
            torch.randn(m, k, device=machine.device, dtype=torch.float64) for _ in range(sets)
        ]
        sigmas = [torch.softmax(logits, dim=1) for logits in sigmas]
        for steps in (None, machine.size(12, 3)):
            what = "to 1e-10" if steps is None else "as in training"
            label = {"what": what, "m, k": f"{m:,}, {k:,}"}
            yield from attempted(context, label, lambda s=sigmas, n=steps: _y_update(context, s, n))


def _y_update(context: Context, sigmas: list[torch.Tensor], steps: int | None) -> Row:
    solve = partial(dc.pseudo_labels, fairness_weight=100.0, n_iter=steps)
    calls = [partial(solve, sigma) for sigma in sigmas]
    result = calls[0]()
    found = measure(context.machine, calls, repeats=10, warm=1, most=4.0)
    moved = 2.0 * 8.0 * sigmas[0].numel() * max(1, result.n_iter)
    return {
        **found.row(),
        "of peak": share(moved, found.median, bandwidth(context)),
        "steps": result.n_iter,
        "gap": float(result.gap),
    }
