"""Problems of assignment as users bring them, by family: a panel for `ablation.py`.

Each family makes scores and bounds from a number of rows, a number of clusters and a seed. Heavy
tails have natural groups of Pareto sizes, of which the largest must be split among many clusters,
near-duplicates, and lengths that vary; their centers are those of k-means after one update, on the
sphere as by default of the command. Tables are those that scikit-learn ships.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualclust as dc

__all__ = ["FAMILIES", "Instance", "heavy_tails"]

Floats = NDArray[np.floating[Any]]
DIMENSION = 64


class Instance(NamedTuple):
    """Scores (n, k), bounds on the sizes, and prices to start from, if a family has them."""

    scores: Floats
    bounds: dc.SizeBounds
    prices: NDArray[np.float64] | None = None


def _unit(x: Floats) -> Floats:
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)


def _within(scores: Floats, low: float, high: float) -> Instance:
    n, k = scores.shape
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=low, upper=high)
    return Instance(scores.astype(np.float32), bounds)


def normal(n: int, k: int, seed: int) -> Instance:
    """Unit rows and unit centers without structure."""
    rng = np.random.default_rng(seed)
    rows, centers = (_unit(rng.standard_normal((m, DIMENSION))) for m in (n, k))
    return _within(rows @ centers.T, 0.9, 1.1)


def mixture(noise: float) -> Callable[[int, int, int], Instance]:
    """Return a family: rows around the centers, `noise` times a unit vector away."""

    def family(n: int, k: int, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        centers = _unit(rng.standard_normal((k, DIMENSION)))
        away = noise * _unit(rng.standard_normal((n, DIMENSION)))
        return _within(_unit(centers[rng.integers(k, size=n)] + away) @ centers.T, 0.9, 1.1)

    return family


def crowded(n: int, k: int, seed: int) -> Instance:
    """A quarter as many directions as clusters, of sizes 1, 1/2, 1/3 ..., rows as centers."""
    rng = np.random.default_rng(seed)
    directions = _unit(rng.standard_normal((max(k // 4, 1), DIMENSION)))
    sizes = 1.0 / np.arange(1, len(directions) + 1)
    members = rng.choice(len(directions), size=n, p=sizes / sizes.sum())
    rows = _unit(directions[members] + 0.5 * _unit(rng.standard_normal((n, DIMENSION))))
    return _within(rows @ rows[rng.choice(n, k, replace=False)].T, 0.9, 1.1)


def heavy_tails(n: int, groups: int, seed: int, *, tail: float = 1.1) -> Floats:
    """Draw rows of natural groups whose sizes are quantiles of a Pareto law with this exponent.

    A row is its group's direction and noise, times a log-normal length; one in twenty is another
    row but for 1e-4 of it. Directions have rank 48 at most, as learned embeddings do.
    """
    rng = np.random.default_rng(seed)
    sizes = ((np.arange(groups) + 0.5) / groups) ** (-1.0 / tail)
    group = rng.choice(groups, size=n, p=sizes / sizes.sum())
    rank = min(48, DIMENSION)
    directions = rng.standard_normal((groups, rank)) @ rng.standard_normal((rank, DIMENSION))
    rows = _unit(directions)[group] + rng.uniform(0.5, 1.6, (n, 1)) * 0.09 * rng.standard_normal(
        (n, DIMENSION)
    )
    rows = rows * rng.lognormal(0.8, 0.4, (n, 1))
    copies = rng.choice(n, n // 20, replace=False)
    rows[copies] = rows[rng.integers(0, n, len(copies))]
    rows[copies] += 1e-4 * rng.standard_normal((len(copies), DIMENSION))
    return rows.astype(np.float32)


def _after_one_update(rows: Floats, k: int, seed: int, low: float, high: float) -> Instance:
    """Scores of unit rows at the means of labels for centers that are rows, and their prices."""
    rng = np.random.default_rng(seed)
    rows = _unit(rows)
    sample = rows[rng.choice(len(rows), min(len(rows), 32 * k), replace=False)]
    centers = np.asarray(dc.kmeans_plus_plus(sample, rng.random(k)))
    first = _within(rows @ centers.T, low, high)
    found = dc.assign_offline(first.scores, first.bounds, tol=1e-3)
    sums = np.zeros_like(centers)
    np.add.at(sums, found.labels, rows)
    return _within(rows @ _unit(sums).T, low, high)._replace(prices=found.prices)


def heavy(tail: float, *, warm: bool = False) -> Callable[[int, int, int], Instance]:
    """Return the family of heavy tails of one exponent; `warm` starts from the prices before."""

    def family(n: int, k: int, seed: int) -> Instance:
        rows = heavy_tails(n, 7 * k // 5, seed, tail=tail)
        made = _after_one_update(rows, k, seed, 0.75, 1.5)
        return made if warm else made._replace(prices=None)

    return family


def table(name: str) -> Callable[[int, int, int], Instance]:
    """Return a family: rows of a table of scikit-learn, repeated with 1 % noise up to n."""

    def family(n: int, k: int, seed: int) -> Instance:
        from sklearn import datasets

        rng = np.random.default_rng(seed)
        x = np.asarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)
        spread = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        rows = x[rng.integers(0, len(x), n)] + 0.01 * rng.standard_normal((n, x.shape[1]))
        return _after_one_update(rows.astype(np.float32), k, seed, 0.9, 1.1)._replace(prices=None)

    return family


def zipf(n: int, k: int, seed: int) -> Instance:
    """Unit rows without structure, and sizes as 1, 1/2, 1/3 ... with a tenth of slack."""
    made, share = normal(n, k, seed), 1.0 / np.arange(1, k + 1)
    sizes = np.maximum(n * share / share.sum(), 1.0)
    low, high = np.floor(0.9 * sizes).astype(int), np.ceil(1.1 * sizes).astype(int) + 1
    bounds = dc.SizeBounds.from_counts(low.tolist(), high.tolist(), n_samples=n)
    return made._replace(bounds=bounds)


def fifty_rows(n: int, k: int, seed: int) -> Instance:
    """Fifty unit rows without structure, each many times."""
    rng = np.random.default_rng(seed)
    rows, centers = (_unit(rng.standard_normal((m, DIMENSION))) for m in (50, k))
    return _within((rows @ centers.T)[rng.integers(50, size=n)], 0.9, 1.1)


def rank_one(n: int, k: int, seed: int) -> Instance:
    """A number for each row times a number for each cluster: rows have one order or its reverse."""
    rng = np.random.default_rng(seed)
    return _within(np.outer(rng.standard_normal(n), rng.standard_normal(k)), 0.9, 1.1)


def favorite(n: int, k: int, seed: int) -> Instance:
    """99 % of the rows want the same cluster, by far."""
    made = normal(n, k, seed)
    made.scores[: int(0.99 * n), 0] += 2.0
    return made


def ratings(n: int, k: int, seed: int) -> Instance:
    """Whole numbers from 0 to 4: most rows tie."""
    scores = np.random.default_rng(seed).integers(0, 5, size=(n, k))
    return _within(scores.astype(np.float32), 0.9, 1.1)


def forbidden(n: int, k: int, seed: int) -> Instance:
    """Each row may join half of the clusters."""
    made, rng = normal(n, k, seed), np.random.default_rng(seed + 1)
    made.scores[rng.random((n, k)) < 0.5] = -np.inf
    return made


def equal(n: int, k: int, seed: int) -> Instance:
    """Unit rows without structure, and sizes of n / k, rounded down and up."""
    made = normal(n, k, seed)
    return _within(made.scores, 1.0, 1.0)


FAMILIES: dict[str, Callable[[int, int, int], Instance]] = {
    "normal": normal,
    "mixture 0.3": mixture(0.3),
    "mixture 0.7": mixture(0.7),
    "mixture 1.5": mixture(1.5),
    "crowded": crowded,
    "heavy 0.8": heavy(0.8),
    "heavy 1.1": heavy(1.1),
    "heavy 1.5": heavy(1.5),
    "heavy warm": heavy(1.1, warm=True),
    "digits": table("digits"),
    "wine": table("wine"),
    "zipf": zipf,
    "favorite": favorite,
    "ratings": ratings,
    "forbidden": forbidden,
    "equal": equal,
    "fifty rows": fifty_rows,
    "rank one": rank_one,
}
"""By name; each makes an instance from rows, clusters and a seed."""
