"""Where ``dualclust cluster`` starts: centers, and the prices of an earlier result.

A file of centers or a model is read before any pass over the rows, so that a wrong one ends the run
at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.seeded import fixed_means, seeded_centers
from ..algos.core.errors import InvalidValueError
from ..algos.core.projections import project_sphere
from ..algos.scores.sources import FeatureSource
from ..common.formats import open_rows
from ..common.formats.checks import refuse
from .model import read_model
from .places import on_host

__all__ = ["INITS", "Given", "drawn_centers", "given_start"]

INITS = ("k-means++", "random")


class Given(NamedTuple):
    """Centers that the user brings.

    Attributes
    ----------
    centers : (k, d) float64 array
        Unit rows for "cosine".
    prices : (k,) float64 array, or None
    """

    centers: NDArray[np.float64]
    prices: NDArray[np.float64] | None


def given_start(init: str | None, start: Path | None, k: int, d: int, metric: str) -> Given | None:
    """Read the centers of a file, or centers and prices of a model; None where rows are drawn.

    Parameters
    ----------
    init : str or None
        One of `INITS`, or the path of a file of k rows of d numbers, in any format of embeddings.
    start : Path or None
        An output folder, or its model.npz.
    k, d : int
        Of the clusters and of the rows.
    metric : {"cosine", "euclidean"}

    Raises
    ------
    MissingFileError, InvalidValueError, InvalidTypeError
        For a missing or damaged file, and one of another shape or metric.
    """
    if start is not None:
        model = read_model(start)
        rule = f"--start is a result for -k {k}, rows of {d} numbers and --metric {metric}"
        fix = "give these options, or start afresh"
        if model.centers.shape != (k, d) or model.metric != metric:
            found = f"has {len(model.centers)} centers of {model.centers.shape[1]} numbers, "
            refuse(start, f"{found}metric {model.metric}", rule, fix)
        return Given(_unit(model.centers, metric), model.prices)
    if init is None or init in INITS:
        return None
    rows = open_rows(Path(init))
    rule = f"--init is {', '.join(INITS)}, or a file of {k} rows of {d} numbers, the first centers"
    fix = "give a row for each cluster"
    if (rows.n_samples, rows.n_features) != (k, d):
        found = f"holds {rows.n_samples} rows of {rows.n_features} numbers"
        refuse(init, found, rule, fix)
    centers = rows.rows(0, k).astype(np.float64)
    if not np.isfinite(centers).all():
        refuse(init, "holds NaN or infinity", rule, "give finite numbers")
    if metric == "cosine" and not centers.any(axis=1).all():
        row = int(np.flatnonzero(~centers.any(axis=1))[0])
        refuse(init, f"holds only zeros in row {row}", rule, "give directions for --metric cosine")
    return Given(_unit(centers, metric), None)


def drawn_centers(
    source: FeatureSource,
    k: int,
    *,
    init: str,
    seed: int,
    metric: str,
    weights: Any | None,
    fixed: Any | None,
) -> Any:
    """Draw rows to start from; clusters with rows that are known start at the mean of these.

    Parameters
    ----------
    source : FeatureSource
    k : int
    init : {"k-means++", "random"}
    seed : int
    metric : {"cosine", "euclidean"}
    weights, fixed : (n,) array, optional
        Of all rows.

    Returns
    -------
    (k, d) array, on the library and device of the rows
    """
    if init == "k-means++":
        return seeded_centers(source, k, fixed=fixed, seed=seed, metric=metric, weights=weights)
    n = source.group.n_total
    if n < k:
        msg = (
            f"-k must be at most the {n} rows of the file, got {k}"
            ". To fix this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
    chances = None if weights is None else on_host(weights)
    if chances is not None:
        chances = chances / chances.sum() if np.count_nonzero(chances) >= k else None
    ids = np.random.default_rng(seed).choice(n, size=k, replace=False, p=chances)
    ids = ids.astype(np.int64)
    like = source.rows(0, 0)
    xp = compat.array_namespace(like)
    centers = source.take(xp.asarray(ids, device=compat.device(like)))
    if fixed is None:
        return centers
    means, known = fixed_means(source, k, fixed=fixed, metric=metric, weights=weights)
    return xp.where(known[:, None], means, centers)


def _unit(centers: NDArray[Any], metric: str) -> NDArray[np.float64]:
    wide = centers.astype(np.float64)
    return project_sphere(wide) if metric == "cosine" else wide
