r"""Centers that go beyond the mean: fewer iterations of k-means, none of which loses value.

Problem: after its first iterations k-means moves a few centers a little in each of many iterations,
always the same way. The mean of the labels is the best center for *these* labels; for those that
the next iteration finds it is too near. *Over-relaxation* (Young, 1954) goes beyond it,

``c'_k = c_k + omega (m_k - c_k)``,   ``1 <= omega < 2``,

with m_k the mean, or on the sphere the direction, of the rows of cluster k.

Nothing is lost: for given labels the sum of squared distances is, up to a constant,
``n_k ||c_k - m_k||^2``, which the step multiplies by ``(omega - 1)^2 < 1``. On the sphere the angle
to the best direction does not grow either. The new labels can only add to that. Where labels no
longer change, plain steps end on the means.

==============  ============  =======  =====================================
symbol          here          shape    meaning
==============  ============  =======  =====================================
:math:`c_k`     ``previous``  (k, d)   centers before the step
:math:`m_k`     ``best``      (k, d)   best centers for the labels
:math:`\omega`  `OMEGA`       ()       1 is the plain step
==============  ============  =======  =====================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.projections import project_sphere
from ..core.types import Array

__all__ = ["OMEGA", "relaxed_centers"]

OMEGA = 1.8
"""0.7 to 0.9 times the iterations of plain steps (benchmarks/results/kmeans.md); nearer to 2, rows
at the borders go to and fro."""


def relaxed_centers(previous: Array, best: Array, *, spherical: bool) -> Array:
    """Return centers beyond the best ones, seen from the previous; those that stay do so.

    Parameters
    ----------
    previous, best : (k, d) array
        Unit rows if `spherical`.
    spherical : bool

    Returns
    -------
    (k, d) array
        Of the dtype of `previous`; unit rows if `spherical`.

    Examples
    --------
    >>> import numpy as np
    >>> relaxed_centers(np.asarray([[0.0], [1.0]]), np.asarray([[2.0], [1.0]]), spherical=False)
    array([[3.6],
           [1. ]])
    """
    xp = compat.array_namespace(previous)
    old, new = (xp.astype(centers, xp.float64) for centers in (previous, best))
    beyond = new + (OMEGA - 1.0) * (new - old)
    if spherical:
        beyond = project_sphere(beyond, new)
    stays = xp.all(previous == best, axis=1, keepdims=True)
    return xp.where(stays, best, xp.astype(beyond, previous.dtype))
