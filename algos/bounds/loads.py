r"""Bounds on loads: each sample has a size, and a cluster holds so much of it, not so many samples.

Problem: sample i has the *size* ``w_i``, such as what a stop adds to a truck, and

``L_k <= N_k <= U_k``   with the load   ``N_k = sum_{i: y_i = k} w_i``.

A *size* counts in the bounds. A *weight*, elsewhere in this package, counts in the objective
instead; a sample may have both. Whether whole samples fit is bin packing, which is NP-hard. What
shows here is what sums show: that parts of samples would not fit either.

==============  ============  ======  =========================================
symbol          here          shape   meaning
==============  ============  ======  =========================================
:math:`w_i`     ``sizes``     (n,)    size of each sample, at least 0
:math:`L_k`     ``lower``     (k,)    smallest load of each cluster
:math:`U_k`     ``upper``     (k,)    largest load
==============  ============  ======  =========================================
"""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_finite, check_interval, check_real, check_shape
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.exact_sums import grid_of, sum_rows, sums_to_floats
from ..core.reads import detached, entries, read
from ..core.types import Array
from ._ratios import Ratio, is_array

__all__ = ["LOAD_ROUNDING", "LoadBounds", "loads_of"]

LOAD_ROUNDING = 2.0**-40
"""Part of a bound by which a load may miss it: what sums of decimal fractions lose in float64. Of
whole sizes that add up to less than 2^40, no load misses a whole bound by so little."""


class LoadBounds(NamedTuple):
    """Sizes of samples, and bounds on what each cluster holds of them; build them by a method.

    Attributes
    ----------
    sizes : (n,) float64 array
        What each sample counts in the bounds. Weights, which count in the objective, are others.
    lower, upper : (k,) float64 array
        Smallest and largest load of each cluster, in the unit of the sizes.
    """

    sizes: Array
    lower: Array
    upper: Array

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters, k."""
        return int(self.lower.shape[0])

    @property
    def common_size(self) -> float | None:
        """Return the size of all samples if they have the same above 0; None if they differ."""
        if not self.sizes.shape[0]:
            return None
        xp = compat.array_namespace(self.sizes)
        least, most = read(xp.min(self.sizes), xp.max(self.sizes))
        return most if 0.0 < least == most else None

    @classmethod
    def from_loads(
        cls,
        sizes: Array,
        n_clusters: int,
        *,
        lower: Ratio = 0.0,
        upper: Ratio | None = None,
    ) -> LoadBounds:
        """Bound the load of each cluster in the unit of the sizes.

        Parameters
        ----------
        sizes : (n,) real or integer array
            Finite, at least 0.
        n_clusters : int
            k >= 1.
        lower, upper : float, or sequence or array of k floats
            Smallest and largest load; no upper one by default.

        Returns
        -------
        LoadBounds

        Raises
        ------
        InfeasibleBoundsError
            If a lower bound exceeds its upper one, or the sum of a side does not fit to that of the
            sizes; naming clusters and loads.
        InvalidValueError, InvalidTypeError
            For sizes or bounds below 0 or not finite, and shapes that do not fit.

        Examples
        --------
        Three trucks that carry 90 units each:

        >>> import numpy as np
        >>> demand = np.asarray([50, 40, 60, 30, 70])
        >>> LoadBounds.from_loads(demand, 3, upper=90).upper
        array([90., 90., 90.])
        >>> LoadBounds.from_loads(demand, 2, upper=90)
        Traceback (most recent call last):
            ...
        dualclust.algos.core.errors.InfeasibleBoundsError: upper bounds add up to a load of 180, \
70 less than all sizes, 250. To fix this, raise them
        """
        k = check_count("n_clusters", n_clusters, 1)
        sizes, total = _checked_sizes(sizes)
        low = _of_each("lower", lower, k)
        high = [total] * k if upper is None else _of_each("upper", upper, k)
        _check_sums(low, high, total)
        xp, device = compat.array_namespace(sizes), compat.device(sizes)
        return cls(sizes, *(xp.asarray(v, dtype=xp.float64, device=device) for v in (low, high)))

    @classmethod
    def from_ratios(
        cls, sizes: Array, n_clusters: int, *, lower: Ratio = 0.9, upper: Ratio = 1.1
    ) -> LoadBounds:
        """Bound the load of each cluster in units of the mean load, the sum of all sizes over k.

        Parameters
        ----------
        sizes, n_clusters
            As in `from_loads`.
        lower, upper : float, or sequence or array of k floats
            ``lower=0`` and ``upper=inf`` mean none.

        Examples
        --------
        >>> import numpy as np
        >>> bounds = LoadBounds.from_ratios(np.asarray([1.0, 2.0, 5.0]), 2, lower=0.5, upper=1.5)
        >>> bounds.lower, bounds.upper
        (array([2., 2.]), array([6., 6.]))
        """
        k = check_count("n_clusters", n_clusters, 1)
        _, total = _checked_sizes(sizes)
        low, high = (_of_each(name, v, k) for name, v in (("lower", lower), ("upper", upper)))
        mean = total / k
        high = [min(v * mean, total) for v in high]
        return cls.from_loads(sizes, k, lower=[v * mean for v in low], upper=high)


def loads_of(sizes: Array, labels: Array, n_clusters: int) -> Array:
    """Return the load of each cluster, (k,) float64: exact sums, rounded once.

    Examples
    --------
    >>> import numpy as np
    >>> loads_of(np.asarray([0.1] * 10), np.zeros(10, dtype=np.int64), 2)
    array([1., 0.])
    """
    xp, n = compat.array_namespace(sizes), int(sizes.shape[0])
    (largest,) = read(xp.max(sizes)) if n else (0.0,)
    grid = grid_of(largest, max(n, 1))
    return sums_to_floats(sum_rows(sizes[:, None], labels, grid, n_clusters=n_clusters), grid)[:, 0]


def _checked_sizes(sizes: Array) -> tuple[Array, float]:
    """Return sizes as float64, and their sum."""
    kinds = compat.array_namespace(sizes) if is_array(sizes) else None
    if kinds is not None and kinds.isdtype(sizes.dtype, "integral"):
        sizes = kinds.astype(sizes, kinds.float64)
    xp = check_real("sizes", sizes)
    check_shape("sizes", sizes, ("n",))
    sizes = xp.astype(detached(sizes), xp.float64)
    check_finite("sizes", sizes)
    values = entries("sizes", sizes)
    least = min(values, default=0.0)
    if least < 0.0:
        msg = f"sizes must be at least 0, got {least:g}. To fix this, pass what each sample takes"
        raise InvalidValueError(msg)
    try:
        return sizes, math.fsum(values)
    except OverflowError:
        msg = f"sizes must have a sum that float64 holds, got up to {max(values):g}"
        msg = f"{msg}. To fix this, divide sizes and bounds by the same number"
        raise InvalidValueError(msg) from None


def _of_each(name: str, load: Ratio, k: int) -> list[float]:
    """Return one number of at least 0 for each cluster; infinity is allowed above."""
    single = isinstance(load, Real) or (is_array(load) and getattr(load, "ndim", 1) == 0)
    values = entries(name, [load] * k if single else load)
    if len(values) != k:
        msg = f"{name} must be one number or one per cluster (k={k}), got {len(values)}"
        msg = f"{msg}. To fix this, give one for each cluster"
        raise InvalidValueError(msg)
    is_open = name == "upper"
    return [
        math.inf if is_open and v == math.inf else check_interval(name, v, 0.0, math.inf)
        for v in values
    ]


def _check_sums(low: list[float], high: list[float], total: float) -> None:
    """Raise unless parts of samples could fit: then loads between the bounds add up to the sum."""
    k = len(low)
    for j in range(k):
        if low[j] > high[j]:
            msg = (
                f"lower bound {low[j]:g} exceeds upper bound {high[j]:g} for cluster {j}, in units "
                "of size. To fix this, widen the bounds"
            )
            excess = math.ceil(low[j] - high[j])
            raise InfeasibleBoundsError(msg, clusters=(j,), excess=excess)
    for name, side, sign, words in (
        ("lower", low, 1.0, ("more", "lower")),
        ("upper", high, -1.0, ("less", "raise")),
    ):
        load = _sum(side)
        beyond = sign * (load - total)
        if beyond > LOAD_ROUNDING * max(load, total):
            msg = (
                f"{name} bounds add up to a load of {load:g}, {beyond:g} {words[0]} than all "
                f"sizes, {total:g}. To fix this, {words[1]} them"
            )
            clusters = tuple(j for j in range(k) if name == "upper" or low[j] > 0.0)
            excess = math.ceil(min(beyond, 2.0**1000))
            raise InfeasibleBoundsError(msg, clusters=clusters, excess=excess)


def _sum(values: list[float]) -> float:
    """Add up numbers of at least 0; infinity where the sum overflows."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf
