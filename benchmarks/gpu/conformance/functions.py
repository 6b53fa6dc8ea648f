"""Public functions on the card beside the same on the CPU, with the reference texts.

Two good answers may differ in labels: what counts is the objective, within the gaps that both
prove, and that every size is inside its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import dualclust as dc

from ..records import Row
from ..stages import Context, attempted

__all__ = ["compare_functions"]

BOUNDS = {
    "both": (0.9, 1.1),
    "no upper bound": (0.9, float("inf")),
    "no bounds": (0.0, float("inf")),
    "equal sizes": (1.0, 1.0),
}
GAP = 1e-4
EXACT = 1e-9
LABELS = 1e-8


def compare_functions(context: Context) -> Iterator[Row]:
    """A row for each function, size, kind of scores and bounds."""
    rng = np.random.default_rng(context.seed)
    for n, k in context.machine.size([(1000, 10), (10_000, 100), (3_000, 700)], [(60, 3)]):
        for kind in ("float32", "float64", "bfloat16", "ties"):
            scores = _scores(rng, n, k, kind)
            for name in ["both"] if kind in ("float64", "bfloat16") else BOUNDS:
                label = {"n, k": f"{n}, {k}", "scores": kind, "bounds": name}
                yield from attempted(
                    context,
                    {"function": "assignment", **label},
                    lambda s=scores, b=name: _assignments(context, s, BOUNDS[b]),
                )
    yield from attempted(context, {"function": "constrained_kmeans"}, lambda: _kmeans(context, rng))
    yield from attempted(
        context, {"function": "pseudo_labels"}, lambda: _pseudo_labels(context, rng)
    )


def _scores(rng: np.random.Generator, n: int, k: int, kind: str) -> torch.Tensor:
    scores = torch.from_numpy(rng.normal(size=(n, k)) + rng.normal(size=k))
    if kind == "ties":
        return (scores * 4).round().float() / 4
    return scores.to(getattr(torch, kind))


def _bounds(k: int, n: int, ratios: tuple[float, float], x: torch.Tensor) -> Any:
    lower, upper = ratios
    options = {"xp": torch, "device": x.device, "rounding": "outward"}
    return dc.SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper, **options)


def _assignments(
    context: Context, scores: torch.Tensor, ratios: tuple[float, float]
) -> Iterator[Row]:
    """`assign`, `assign_offline`, `assign_exact` of the same scores."""
    device = context.machine.device
    n, k = scores.shape
    near, far = scores, scores.to(device)
    bounds, there = (_bounds(k, n, ratios, x) for x in (near, far))
    if scores.dtype != torch.bfloat16:  # one pass refuses half precision
        with dc.engine("reference"):
            expected = dc.assign(near, bounds).labels
        labels, state = dc.assign(far, there)
        share = float((labels.cpu() != expected).double().mean())
        inside = _inside(state.counts.cpu(), bounds)
        close = share == 0 or abs(_value(near, labels.cpu()) / _value(near, expected) - 1) < 1e-2
        yield {"function": "assign", "off": share, **_verdict(inside and close)}
    for function, tol in ((dc.assign_offline, GAP), (dc.assign_exact, EXACT)):
        with dc.engine("reference") if context.machine.toy else dc.engine("auto"):
            expected_value = function(near, bounds).objective
        found = function(far, there)
        off = abs(found.objective - expected_value) / max(1.0, abs(expected_value))
        good = _inside(found.counts.cpu(), bounds) and off <= tol and found.gap <= tol
        yield {"function": function.__name__, "off": off, "gap": found.gap, **_verdict(good)}


def _kmeans(context: Context, rng: np.random.Generator) -> Row:
    n, k, d = context.machine.size((20_000, 50, 64), (60, 3, 4))
    x = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(n, d))), dim=1)
    far = x.to(context.machine.device)
    options: dict[str, Any] = {"max_iter": 5, "tol": 0.0}
    here = dc.constrained_kmeans(x, _bounds(k, n, (0.9, 1.1), x), x[:k], **options)
    found = dc.constrained_kmeans(far, _bounds(k, n, (0.9, 1.1), far), far[:k], **options)
    off = abs(found.objective - here.objective) / abs(here.objective)
    inside = _inside(found.assignment.counts.cpu(), _bounds(k, n, (0.9, 1.1), x))
    row = {"n, k": f"{n}, {k}, d {d}", "scores": "float64", "bounds": "both", "off": off}
    return row | _verdict(inside and off <= 10 * GAP)


def _pseudo_labels(context: Context, rng: np.random.Generator) -> Iterator[Row]:
    for m, k in context.machine.size([(250, 10), (2500, 100)], [(20, 4)]):
        for sharp in (1.0, 8.0):
            sigma = torch.softmax(torch.from_numpy(sharp * rng.normal(size=(m, k))), dim=1)
            here = dc.pseudo_labels(sigma, fairness_weight=10.0)
            found = dc.pseudo_labels(sigma.to(context.machine.device), fairness_weight=10.0)
            off = float((found.labels.cpu() - here.labels).abs().max())
            row = {"n, k": f"{m}, {k}", "scores": f"softmax, times {sharp:g}", "off": off}
            yield row | {"gap": float(found.gap)} | _verdict(off <= LABELS)


def _inside(counts: torch.Tensor, bounds: Any) -> bool:
    return bool(((counts >= bounds.lower) & (counts <= bounds.upper)).all())


def _value(scores: torch.Tensor, labels: torch.Tensor) -> float:
    return float(scores.double().gather(1, labels[:, None]).sum())


def _verdict(good: bool) -> dict[str, str]:
    return {"verdict": "ok" if good else "differs"}
