"""Public functions on the card beside the same on the CPU, with the reference texts.

Two good answers may differ in labels: what counts is the objective, within the gaps that both
prove, and that every size is inside its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import dualclust as dc
from dualclust.algos.clustering.minibatch import init_minibatch
from dualclust.algos.clustering.minibatch_pass import minibatch_pass
from dualclust.cluster.distances import nearest_centers
from dualclust.train.loop.trained import trained_model
from dualclust.train.models import load_model

from ..records import Row
from ..runs import digits_like, prepared
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
NEARLY_ALL = 1e-3  # share of labels that rounding may decide otherwise
FLOAT32 = 1e-3  # scores of a network, whose convolutions may run in tf32


def compare_functions(context: Context) -> Iterator[Row]:
    """A row for each function, size, kind of scores and bounds."""
    rng = np.random.default_rng(context.seed)
    for n, k in context.machine.size([(1000, 10), (10_000, 100), (3_000, 700)], [(60, 3)]):
        for kind in ("float32", "float64", "bfloat16", "ties"):
            scores = _scores(rng, n, k, kind)
            once = kind != "float32" and (kind != "ties" or context.machine.toy)
            for name in ["both"] if once else BOUNDS:
                label = {"n, k": f"{n}, {k}", "scores": kind, "bounds": name}
                yield from attempted(
                    context,
                    {"function": "assignment", **label},
                    lambda s=scores, b=name: _assignments(context, s, BOUNDS[b]),
                )
    for ruled in (False, True):
        label = {"function": "constrained_kmeans" + (", known and forbidden" if ruled else "")}
        yield from attempted(context, label, lambda ruled=ruled: _kmeans(context, rng, ruled))
    others: dict[str, Callable[[Context, np.random.Generator], Row | Iterator[Row]]] = {
        "nearest_centers": _nearest,
        "minibatch_pass": _minibatch,
        "pseudo_labels": _pseudo_labels,
        "load": _loaded,
    }
    for name, compare in others.items():
        yield from attempted(context, {"function": name}, partial(compare, context, rng))


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


def _rows(context: Context, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
    """Unit rows on the host, and a number of clusters."""
    n, k, d = context.machine.size((20_000, 50, 64), (60, 3, 4))
    return torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(n, d))), dim=1), k


def _kmeans(context: Context, rng: np.random.Generator, ruled: bool) -> Row:
    """Constrained k-means; `ruled`: some rows are known, and other pairs are forbidden."""
    (x, k), rules = _rows(context, rng), dict[str, torch.Tensor]()
    n = len(x)
    if ruled:
        member = torch.arange(n) % k
        known = torch.arange(n) % 20 == 0
        fixed = torch.where(known, member, -1)
        rules = {"fixed": fixed, "forbidden": torch.stack([torch.arange(n), member], 1)[~known]}
    far = x.to(context.machine.device)
    away = {name: rule.to(far.device) for name, rule in rules.items()}
    options: dict[str, Any] = {"max_iter": context.machine.size(5, 1), "tol": 0.0}
    here = dc.constrained_kmeans(x, _bounds(k, n, (0.9, 1.1), x), x[:k], **options, **rules)
    found = dc.constrained_kmeans(far, _bounds(k, n, (0.9, 1.1), far), far[:k], **options, **away)
    off = abs(found.objective - here.objective) / abs(here.objective)
    good = _inside(found.assignment.counts.cpu(), _bounds(k, n, (0.9, 1.1), x))
    if ruled:
        good = good and bool(((found.labels.cpu() == member) == known).all())
    row = {"n, k": f"{n}, {k}, d {x.shape[1]}", "scores": "float64", "bounds": "both", "off": off}
    return row | _verdict(good and off <= 10 * GAP)


def _nearest(context: Context, rng: np.random.Generator) -> Iterator[Row]:
    """The best cluster of each row, with and without prices."""
    x, k = _rows(context, rng)
    for priced in (False, True):
        found = []
        for rows in (x, x.to(context.machine.device)):
            source = dc.product_source(dc.feature_source(rows), rows[:k])
            prices = torch.linspace(-0.1, 0.1, k, dtype=torch.float64, device=rows.device)
            found.append(nearest_centers(source, prices if priced else None).cpu())
        off = float((found[0] != found[1]).double().mean())
        row = {"n, k": f"{len(x)}, {k}", "scores": "at prices" if priced else "", "off": off}
        yield row | _verdict(off <= NEARLY_ALL)


def _minibatch(context: Context, rng: np.random.Generator) -> Row:
    """One pass of mini-batch k-means: what its centers are worth."""
    (x, k), worth = _rows(context, rng), []
    for rows in (x, x.to(context.machine.device)):
        bounds = dc.SizeBounds.for_stream(k, lower=0.8, xp=torch, device=rows.device)
        source, state = dc.feature_source(rows), init_minibatch(rows[:k], bounds)
        centers = minibatch_pass(source, state, bounds, batch_size=16).state.centers
        worth.append(float((rows @ centers.T).amax(dim=1).sum().cpu()))
    off = abs(worth[1] / worth[0] - 1.0)
    return {"n, k": f"{len(x)}, {k}", "scores": "float64", "off": off} | _verdict(off < 1e-2)


def _loaded(context: Context, rng: np.random.Generator) -> Row:
    """A model that this device has made, loaded there and on the CPU."""
    machine = context.machine
    run = prepared(machine, digits_like(machine, context.scratch, "secu"))
    file = context.scratch / "model.safetensors"
    file.write_bytes(trained_model(run.method, run.loader, run.predict()))
    images = rng.integers(0, 256, size=(40, *run.loader.data.shape), dtype=np.uint8)
    here, there = (
        load_model(file, device=device).scores(images) for device in ("cpu", machine.device)
    )
    off = float(np.abs(here - there).max() / max(1.0, np.abs(here).max()))
    return {"n, k": f"40, {here.shape[1]}", "scores": str(there.dtype), "off": off} | _verdict(
        off <= FLOAT32
    )


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
