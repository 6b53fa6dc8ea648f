r"""Rows without clusters that look like the sample otherwise: what a silhouette is compared with.

Problem: k-means cuts any cloud of points into k parts, and the parts of one round cloud already
have a silhouette, which depends on k and on the number of dimensions in which the cloud extends.
What says something about clusters is how far the sample lies above (the idea of the gap statistic,
Tibshirani, Walther and Hastie, 2001, for another figure).

The reference is a Gaussian with the mean and the covariance of the sample, ``x = m + L z`` with
``L L' = C``; for "cosine" its rows are scaled to unit length. (A uniform box along the principal
axes is the other usual choice. Where the rows have heavy tails it is far wider than most of them,
and its silhouette far above theirs, with clusters or without.)

=====================  ==============  ========  ==================================================
symbol                 here            shape     meaning
=====================  ==============  ========  ==================================================
:math:`m`              ``mean``        (d,)      mean of the sample
:math:`C`              ``covariance``  (d, d)    its covariance
:math:`z`              ``noise``       (m, d)    independent standard normal numbers
=====================  ==============  ========  ==================================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.projections import project_sphere
from ..core.random import normal_noise
from ..core.types import Array

__all__ = ["reference_rows"]

JITTER = 1e-8
"""Variance added in every direction, relative to the mean variance: a covariance of fewer rows than
columns is singular, and rounding would make it indefinite."""


def reference_rows(rows: Array, *, metric: str, seed: int) -> Array:
    """Draw as many rows as there are from a Gaussian of the same mean and covariance.

    Parameters
    ----------
    rows : (m, d) array
        Finite; of a size whose squares do not overflow.
    metric : {"cosine", "euclidean"}
        "cosine" scales the rows drawn to unit length.
    seed : int in [0, 2^64)

    Returns
    -------
    (m, d) array, of the dtype of `rows`
        The rows themselves if all are equal.

    Notes
    -----
    Cost O(m d^2 + d^3). The random numbers are the same on every library up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0, 0.0], [0.0, 2.0], [10.0, 0.0], [10.0, 2.0]] * 500)
    >>> found = reference_rows(x, metric="euclidean", seed=0)
    >>> found.mean(axis=0).round(0), found.std(axis=0).round(0)
    (array([5., 1.]), array([5., 1.]))
    """
    xp, (m, d) = compat.array_namespace(rows), rows.shape
    device = compat.device(rows)
    wide = xp.astype(rows, xp.float64)
    mean = xp.mean(wide, axis=0)
    apart = wide - mean
    covariance = xp.matmul(apart.T, apart) / m
    variance = float(xp.sum(apart * apart)) / (m * d)
    if variance == 0.0:
        return rows
    covariance = covariance + JITTER * variance * xp.eye(d, dtype=xp.float64, device=device)
    noise = normal_noise((m, d), key=seed, xp=xp, device=device)
    drawn = mean + xp.matmul(noise, xp.linalg.cholesky(covariance).T)
    drawn = xp.astype(drawn, rows.dtype)
    return project_sphere(drawn) if metric == "cosine" else drawn
