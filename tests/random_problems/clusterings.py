"""Random k-means with sizes, centers and soft labels, each result through the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import constrained_kmeans, hardness_centers, kmeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.pseudo_labels import pseudo_labels
from tests.highs import is_feasible
from tests.judge_centers import judge_centers, judge_clustering, judge_kmeans, judge_pseudo_labels
from tests.random_problems.drawn import draw_counts, draw_weights

__all__ = ["random_centers", "random_kmeans", "random_soft_labels"]

Rng = np.random.Generator


def draw_features(rng: Rng, n: int, d: int) -> np.ndarray:
    """Features of any scale, with duplicates, far from 0, or of rank one."""
    kind = rng.integers(5)
    x = rng.normal(size=(n, d))
    if kind == 1:
        x = x[rng.integers(0, min(n, 3), n)]
    elif kind == 2:
        x = rng.integers(-1, 2, (n, d)).astype(float)
    elif kind == 3:
        x = np.outer(rng.normal(size=n), rng.normal(size=d))
    elif kind == 4:
        x = x + 10.0 ** float(rng.integers(0, 5))
    if rng.random() < 0.3:
        x = x * 10.0 ** float(rng.integers(-100, 100))
    return x


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of length 1; the first axis for rows of zeros."""
    x = np.where((x == 0.0).all(axis=1, keepdims=True), np.eye(x.shape[1])[0], x)
    x = x / np.abs(x).max(axis=1, keepdims=True)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def random_kmeans(rng: Rng) -> str:
    """Cluster features, some rows fixed, some pairs forbidden, from prices of any scale."""
    n, d = int(rng.integers(1, 41)), int(rng.integers(1, 5))
    k = int(rng.integers(1, min(n, 8) + 1))
    metric = str(rng.choice(["cosine", "euclidean"]))
    x = draw_features(rng, n, d)
    x = unit(x) if metric == "cosine" else x
    fits = np.abs(x).max() < 1e15 and (np.abs(x[x != 0.0]) > 1e-15).all()
    x = x.astype(rng.choice(["float32", "float64"]) if fits else "float64")
    centers = x[rng.permutation(n)[:k]]
    given: dict[str, Any] = {
        "metric": metric,
        "weights": draw_weights(rng, n) if rng.random() < 0.3 else None,
        "max_iter": int(rng.choice([0, 1, 2, 100])),
        "tol": float(rng.choice([0.0, 1e-3, 1.0])),
        "empty": str(rng.choice(["relocate", "keep"])),
    }
    eps = float(np.finfo(x.dtype).eps)
    if rng.random() < 0.2:
        try:
            found = kmeans(x, centers, **given)
        except InvalidValueError as error:
            vanishes(x, given["weights"], error)
            return "refused"
        judge_kmeans(x, given["weights"], metric, found, eps=eps, means=False)
        return "free"
    lower, upper = draw_counts(rng, n, k)
    barred = np.zeros((n, k), dtype=bool)
    if rng.random() < 0.3:
        given["fixed"] = np.where(rng.random(n) < 0.3, rng.integers(0, k, n), -1)
        barred |= (given["fixed"] >= 0)[:, None] & (np.arange(k) != given["fixed"][:, None])
    if rng.random() < 0.3:
        pairs = np.argwhere(rng.random((n, k)) < 0.2)
        if len(pairs):
            given["forbidden"] = pairs
            barred[pairs[:, 0], pairs[:, 1]] = True
    if rng.random() < 0.4:
        scale = 10.0 ** (rng.uniform(-300, 300) if rng.random() < 0.5 else rng.uniform(-3, 3))
        given["prices"] = np.clip(rng.normal(size=k) * scale, -1e300, 1e300)
    given["gap"] = float(rng.choice([0.0, 1e-4, 0.1, 1.0]))
    bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
    try:
        result = constrained_kmeans(x, bounds, centers, **given)
    except InfeasibleBoundsError:
        assert not is_feasible(~barred, lower, upper)
        return "infeasible"
    except InvalidValueError as error:
        if not barred.all(axis=1).any():  # a row that is fixed where it must not be
            vanishes(x, given["weights"], error)
        return "refused"
    labels = np.asarray(result.labels)
    assert not barred[np.arange(n), labels].any()
    assert result.n_iter <= given["max_iter"]
    judge_clustering(
        x, result.centers, given["weights"], metric, lower, upper, result.assignment,
        eps=eps, barred=barred if barred.any() else None,
    )  # fmt: skip
    return "clustered"


def vanishes(x: np.ndarray, weights: np.ndarray | None, error: InvalidValueError) -> None:
    """Squares of features, times weights, may leave float64, and weights be too far apart."""
    if "1e-289 of the largest" in str(error):
        assert weights is not None
        assert weights[weights > 0.0].min() < 2.0**-959 * weights.max(), str(error)
        return
    assert "float64 holds" in str(error) or "squared distances" in str(error), str(error)
    sizes = np.abs(x[x != 0.0].astype(np.float64))
    factors = np.ones(1) if weights is None else weights[weights > 0.0]
    logs = [2.0 * np.log10(v) + np.log10(w) for v in (sizes.min(), sizes.max()) for w in factors]
    assert max(map(abs, logs)) > 100.0, str(error)


def random_soft_labels(rng: Rng) -> str:
    """Pseudo-labels of soft, sharp or impossible outputs, with weights of any scale."""
    m, k = int(rng.integers(1, 41)), int(rng.integers(1, 9))
    logits = rng.normal(size=(m, k)) * 10.0 ** rng.uniform(-3, 3)
    sigma = np.exp(logits - logits.max(axis=1, keepdims=True))
    sigma = sigma / sigma.sum(axis=1, keepdims=True)
    if rng.random() < 0.2:
        sigma = np.where(rng.random((m, k)) < 0.3, 0.0, sigma)
    if rng.random() < 0.1:
        sigma = sigma[rng.integers(0, m, m)]
    sigma = sigma.astype(rng.choice(["float16", "float32", "float64"]))
    wide = rng.random() < 0.2
    given: dict[str, Any] = {
        "fairness_weight": draw_weight(rng, wide),
        "beta": draw_weight(rng, wide),
        "prior": None if rng.random() < 0.6 else draw_prior(rng, k),
    }
    chosen: dict[str, Any] = {
        "tol": float(10.0 ** rng.uniform(-300, 0) if rng.random() < 0.2 else 1e-10),
        "max_iter": int(rng.choice([1, 5, 60])),
        "n_iter": None if rng.random() < 0.8 else int(rng.choice([0, 1, 25])),
        "block_rows": None if rng.random() < 0.7 else int(rng.integers(1, m + 2)),
        "start": None if rng.random() < 0.8 else rng.random((m, k)),
    }
    found = pseudo_labels(sigma, **given, **chosen)
    labels = np.asarray(found.labels)
    assert np.isfinite(labels).all()
    assert not np.isnan([float(found.objective), float(found.gap), float(found.residual)]).any()
    judge_pseudo_labels(sigma, found, **given)
    return "soft labels"


def draw_weight(rng: Rng, wide: bool) -> float:
    """A weight from 1e-100 to 1e100, or near 1, or 0."""
    if rng.random() < 0.1:
        return 0.0
    return float(10.0 ** (rng.uniform(-100, 99) if wide else rng.uniform(-3, 3)))


def draw_prior(rng: Rng, k: int) -> np.ndarray:
    """Shares that add up to 1 or not, some of them 0."""
    prior = rng.random(k) * (rng.random(k) < 0.8)
    return prior / prior.sum() if prior.any() and rng.random() < 0.5 else prior


def random_centers(rng: Rng) -> str:
    """Hardness-weighted centers at any temperature."""
    n, d, k = int(rng.integers(1, 41)), int(rng.integers(1, 6)), int(rng.integers(2, 7))
    x = unit(draw_features(rng, n, d))
    labels = rng.integers(0, k, n)
    centers = unit(rng.normal(size=(k, d)))
    if rng.random() < 0.2:
        centers = centers[rng.integers(0, k, k)]
    dtype = rng.choice(["float32", "float64"])
    x, centers = x.astype(dtype), centers.astype(dtype)
    wide = rng.random() < 0.2
    temperature = float(10.0 ** (rng.uniform(-12, 12) if wide else rng.uniform(-2, 1)))
    tol, steps = float(rng.choice([1e-8, 1e-300, 1.0])), int(rng.choice([1, 5, 200]))
    found = hardness_centers(x, labels, centers, temperature=temperature, tol=tol, max_iter=steps)
    assert np.isfinite(found.centers).all()
    assert np.isfinite(found.gap).all()
    eps = float(np.finfo(dtype).eps)
    judge_centers(x, labels, centers, found, temperature=temperature, tol=tol, eps=eps)
    return "centers"
