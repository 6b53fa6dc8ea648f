"""Lloyd's algorithm once more, row by row, to compare `kmeans` with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.clustering import constrained
from .sphere_points import random_units
from .violations import difference, excess, unless

__all__ = ["Steps", "lloyd", "lloyd_violations"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Steps(NamedTuple):
    """Labels and centers after some steps, and the objective after each."""

    labels: Ints
    centers: Floats
    values: list[float]


def _labels(x: Floats, centers: Floats, spherical: bool) -> Ints:
    if spherical:
        return np.asarray([int(np.argmax([a @ c for c in centers])) for a in x], dtype=np.int64)
    distances = [[float((a - c) @ (a - c)) for c in centers] for a in x]
    return np.asarray([int(np.argmin(row)) for row in distances], dtype=np.int64)


def _value(x: Floats, centers: Floats, labels: Ints, weights: Floats, spherical: bool) -> float:
    """Return weighted cosines, or half of what distances to centers leave of the variance."""
    own = centers[labels]
    if spherical:
        return float(np.sum(weights * np.sum(x * own, axis=1)))
    middle = np.mean(x, axis=0)
    left = np.sum((x - middle) ** 2, axis=1) - np.sum((x - own) ** 2, axis=1)
    return 0.5 * float(np.sum(weights * left))


def lloyd(
    x: Floats,
    centers: Floats,
    n_iter: int,
    spherical: bool = True,
    weights: Floats | None = None,
    relocate: bool = True,
) -> Steps:
    """Exactly `n_iter` updates of the centers, or fewer where the labels stand still."""
    w = np.ones(len(x)) if weights is None else weights
    labels, values = _labels(x, centers, spherical), []
    for _ in range(n_iter):
        moved = centers.copy()
        for k in range(len(centers)):
            mine = labels == k
            total = np.sum(w[mine][:, None] * x[mine], axis=0)
            if spherical and np.any(mine):
                moved[k] = total / np.linalg.norm(total)
            elif np.any(mine):
                moved[k] = total / np.sum(w[mine])
        empty = [k for k in range(len(centers)) if relocate and not np.any(labels == k)]
        far = np.argsort(-w * np.sum((x - moved[labels]) ** 2, axis=1), kind="stable")
        for k, i in zip(empty, far, strict=False):
            moved[k] = x[i]
        centers, before = moved, labels
        labels = _labels(x, centers, spherical)
        values.append(_value(x, centers, labels, w, spherical))
        if np.array_equal(labels, before):
            break
    return Steps(labels, centers, values)


def lloyd_violations() -> list[float]:
    """Compare `kmeans` with `lloyd` on every path."""
    violations = []
    rng = np.random.default_rng(11)
    for seed, metric in ((1, "cosine"), (2, "euclidean"), (3, "euclidean")):
        spherical = metric == "cosine"
        x = random_units(seed, 40, 3) if spherical else 5.0 + rng.normal(size=(40, 3))
        start = x[:6].copy()
        if spherical or seed == 3:  # nobody's nearest: a cluster without samples
            start[4] = -x.mean(axis=0) / np.linalg.norm(x.mean(axis=0)) if spherical else 30.0
            start[5] = start[4]
        for weights in (None, rng.exponential(size=40)):
            for n_iter, empty in ((0, "keep"), (1, "keep"), (1, "relocate"), (30, "relocate")):
                own = lloyd(x, start, n_iter, spherical, weights, empty == "relocate")
                values: list[float] = []
                found = constrained.kmeans(
                    x,
                    start,
                    metric=metric,
                    weights=weights,
                    max_iter=n_iter,
                    empty=empty,
                    progress=lambda state, _, values=values: values.append(state.objective),  # type: ignore[misc]
                )
                w = np.ones(40) if weights is None else weights
                value = _value(x, own.centers, own.labels, w, spherical)
                still = len(own.values) < n_iter or n_iter == 30
                violations += [
                    unless(np.array_equal(found.labels, own.labels)),
                    excess(difference(found.centers, own.centers), 1e-8),
                    difference(found.counts, np.bincount(own.labels, minlength=6)),
                    excess(abs(found.objective - value), 1e-7),
                    unless(len(values) == len(own.values) == found.n_iter),
                    excess(difference(values, own.values), 1e-7),
                    unless(found.converged == still),
                ]
    return violations + _resumed(x, start, weights)


def _resumed(x: Floats, start: Floats, weights: Any) -> list[float]:
    """Check that a run from a state is the uninterrupted one, and a loose tolerance ends sooner."""
    states: list[Any] = []

    def keep(state: Any, share: float) -> None:
        states.append((state, share))

    options: dict[str, Any] = {"metric": "euclidean", "weights": weights}
    whole = constrained.kmeans(x, start, progress=keep, **options)
    if len(states) < 3:
        return [1.0]  # this start takes more updates than that
    first = next((state for state, share in states if share <= 0.2), whole)
    later = constrained.kmeans(x, x[10:16], state=states[1][0], **options)
    loose = constrained.kmeans(x, start, tol=0.2, **options)
    before = [s.labels for s, _ in states]
    shares = [float(np.mean(a != b)) for a, b in pairwise(before)]
    return [
        unless(np.array_equal(whole.centers, later.centers) and whole.n_iter == later.n_iter),
        unless(loose.n_iter == first.n_iter < whole.n_iter),
        excess(difference([share for _, share in states[1:]], shares), 1e-12),
    ]
