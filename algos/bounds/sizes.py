r"""Bounds on cluster sizes, and whether any assignment can satisfy them.

Problem: of ``n`` samples each joins exactly one of ``k`` clusters; cluster ``k`` must end with
``l_k <= n_k <= u_k`` samples. An assignment exists if and only if

``0 <= l_k <= u_k`` for every ``k``,  and  ``sum_k l_k <= n <= sum_k u_k``.

(The conditions are necessary by adding up; they are sufficient, because each cluster can get
``l_k`` samples and then more, up to ``u_k``.) A condition that fails is a short proof of
infeasibility. The error carries it: the clusters whose bounds conflict, and by how many samples.

=====================  ==========================  ==========  ===================================
paper                  here                        shape       meaning
=====================  ==========================  ==========  ===================================
:math:`\gamma`         ``lower`` of `from_ratios`  () or (k,)  smallest size in units of n / k
:math:`\gamma'`        ``upper`` of `from_ratios`  () or (k,)  largest size in units of n / k
:math:`\gamma_k / N`   ``lower_share``             (k,)        smallest share of the samples
\-                     ``upper_share``             (k,)        largest share of the samples
:math:`\gamma_k`       ``lower``                   (k,)        smallest size, whole samples
\-                     ``upper``                   (k,)        largest size, whole samples
N                      ``n_samples``               int         samples of one pass
=====================  ==========================  ==========  ===================================
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import array_api_compat as compat
import array_api_compat.numpy as default_namespace

from ..core.checks import check_choice, check_count, check_kind, check_namespace
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.reads import entries, read
from ..core.types import Array, Namespace
from ._ratios import (
    Count,
    Ratio,
    check_given_once,
    counts_of,
    integers_of,
    of_each,
    ratios_of,
    rounded,
)
from .infeasibility import check_ratios, check_sums

__all__ = ["ROUNDING", "SizeBounds", "check_bounds", "implied_bounds", "price_of_bounds"]

ROUNDING = ("outward", "inward", "nearest")
"""How a bound that is no whole number may be rounded; see `SizeBounds.from_ratios`."""


class SizeBounds(NamedTuple):
    """Feasible bounds on cluster sizes; build them by `of`, or from one kind of bound.

    `from_ratios` takes shares alone, `from_counts` whole samples alone, and `for_stream` shares of
    a stream of unknown length.

    Attributes
    ----------
    lower_share, upper_share : (k,) float64 array
        The bounds as shares of the samples seen, in [0, 1]: the targets of the duals.
    lower, upper : (k,) int64 array
        The bounds in whole samples, for a pass of `n_samples`. Without a known number of samples
        they are 0 and the largest int64.
    n_samples : int or None
        Number of samples of one pass; None for a stream of unknown length.
    """

    lower_share: Array
    upper_share: Array
    lower: Array
    upper: Array
    n_samples: int | None

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters, k."""
        return int(self.lower.shape[0])

    @property
    def is_free(self) -> bool:
        """Whether all sizes are inside: no lower bound above 0, and no upper one below n."""
        xp = compat.array_namespace(self.lower)
        most = sys.maxsize if self.n_samples is None else self.n_samples
        (binds,) = read(xp.any(self.lower > 0) | xp.any(self.upper < most))
        return not binds

    @property
    def total_lower_share(self) -> float:
        """Return the sum of the lower shares; at 1 the assignment has no slack."""
        return math.fsum(entries("lower_share", self.lower_share))

    @classmethod
    def of(
        cls,
        n_clusters: int,
        *,
        n_samples: int,
        lower: Ratio | None = None,
        upper: Ratio | None = None,
        min_count: Count | None = None,
        max_count: Count | None = None,
        rounding: str = "outward",
        xp: Namespace | None = None,
        device: object | None = None,
    ) -> SizeBounds:
        """Build bounds of which each side is given as shares of n / k, as counts, or not at all.

        Parameters
        ----------
        n_clusters, n_samples : int
            k >= 1 and n >= 1.
        lower, upper : float or sequence of k floats, optional
            Smallest and largest size in units of the mean size n / k; 1 and 1.0 are the same.
        min_count, max_count : int or sequence of k ints, optional
            Smallest and largest size in whole samples, instead of `lower` or `upper`.
        rounding, xp, device
            As in `from_ratios`; counts are not rounded.

        Returns
        -------
        SizeBounds

        Raises
        ------
        InvalidValueError, InvalidTypeError
            If one side is given twice, a bound is out of range or of a length other than k, or a
            count is no integer.
        InfeasibleBoundsError
            As in `from_ratios`.

        Examples
        --------
        >>> bounds = SizeBounds.of(3, n_samples=100, lower=0.9, max_count=[40, 40, 50])
        >>> bounds.lower, bounds.upper
        (array([30, 30, 30]), array([40, 40, 50]))
        >>> SizeBounds.of(3, n_samples=100, lower=0.9, min_count=20)
        Traceback (most recent call last):
            ...
        dualclust.algos.core.errors.InvalidValueError: lower and min_count both bound the smallest \
size, got 0.9 and 20. To fix this, give one of them
        """
        check_given_once("smallest", lower=lower, min_count=min_count)
        check_given_once("largest", upper=upper, max_count=max_count)
        shares = cls.from_ratios(
            n_clusters,
            n_samples=n_samples,
            lower=0.0 if lower is None else lower,
            upper=math.inf if upper is None else upper,
            rounding=rounding,
            xp=xp,
            device=device,
        )
        if min_count is None and max_count is None:
            return shares
        n, k = _length(n_samples), shares.n_clusters
        low, high = entries("lower", shares.lower), entries("upper", shares.upper)
        low = low if min_count is None else counts_of("min_count", min_count, k)
        high = high if max_count is None else counts_of("max_count", max_count, k)
        counts = cls.from_counts(low, high, n_samples=n, xp=xp, device=device)
        return counts._replace(
            lower_share=(shares if min_count is None else counts).lower_share,
            upper_share=(shares if max_count is None else counts).upper_share,
        )

    @classmethod
    def from_ratios(
        cls,
        n_clusters: int,
        *,
        n_samples: int,
        lower: Ratio = 0.9,
        upper: Ratio = math.inf,
        rounding: str = "outward",
        xp: Namespace | None = None,
        device: object | None = None,
    ) -> SizeBounds:
        """Build bounds in units of the balanced size ``n / k``, as the papers state them.

        Parameters
        ----------
        n_clusters : int
            k >= 1.
        n_samples : int
            n >= 1, the number of samples of one pass (epoch).
        lower, upper : float or sequence of k floats
            Smallest and largest size in units of n / k; ``lower=0`` and ``upper=inf`` mean none.
            A ratio means the simple fraction whose nearest float it is: 0.9 is 9/10 exactly.
        rounding : {"outward", "inward", "nearest"}
            How a bound that is no whole number is rounded. "outward" (floor of lower, ceil of
            upper) is feasible whenever the ratios are. "inward" keeps the ratios to the letter, but
            can be infeasible if k does not divide n.
        xp : array namespace, optional
            Library of the arrays returned; NumPy by default.
        device : optional
            Device of the arrays returned.

        Returns
        -------
        SizeBounds

        Raises
        ------
        InfeasibleBoundsError
            If no assignment satisfies the ratios, or the rounded bounds; the error names the
            clusters that prove this.
        InvalidValueError
            If a ratio is negative or NaN, or has a length other than k.

        Notes
        -----
        Source: SeCu supplement, section 2; CoKe, section 3.2. Cost O(k), exact rational arithmetic.
        Claims: docs/claims.md#S5, #S8, #C16, #C27.

        Examples
        --------
        >>> bounds = SizeBounds.from_ratios(3, n_samples=100, lower=0.9, upper=1.2)
        >>> bounds.lower, bounds.upper
        (array([30, 30, 30]), array([40, 40, 40]))
        >>> SizeBounds.from_ratios(3, n_samples=100, lower=1.0, upper=1.0).lower
        array([33, 33, 33])
        >>> SizeBounds.from_ratios(3, n_samples=100, lower=1.0, rounding="inward")
        Traceback (most recent call last):
            ...
        dualclust.algos.core.errors.InfeasibleBoundsError: lower bounds add up to 102 samples, \
2 more than n_samples=100. To fix this, lower them, or pass rounding='outward'
        """
        k = check_count("n_clusters", n_clusters, 1)
        n = _length(n_samples)
        check_choice("rounding", rounding, ROUNDING)
        least = ratios_of("lower", lower, k)
        most = ratios_of("upper", upper, k)
        low = of_each(lambda r: rounded(r * n / k, rounding, up=True), least)
        high = of_each(lambda r: min(rounded(r * n / k, rounding, up=False), n), most)
        check_ratios((least, most), (low, high), n)
        check_sums(low, high, n, ", or pass rounding='outward'" if rounding != "outward" else "")
        shares = of_each(lambda r: r / k, least), of_each(lambda r: min(r / k, Fraction(1)), most)
        return _build(*shares, low, high, n, xp, device)

    @classmethod
    def from_counts(
        cls,
        lower: Sequence[int] | Array,
        upper: Sequence[int] | Array | None = None,
        *,
        n_samples: int,
        xp: Namespace | None = None,
        device: object | None = None,
    ) -> SizeBounds:
        """Build bounds in whole samples, one per cluster.

        Parameters
        ----------
        lower : (k,) sequence or integer array
            Smallest sizes, each >= 0.
        upper : (k,) sequence or integer array, optional
            Largest sizes; none by default.
        n_samples : int
            n >= 1, the number of samples of one pass.
        xp, device : optional
            Library and device of the arrays returned; NumPy by default.

        Returns
        -------
        SizeBounds

        Raises
        ------
        InfeasibleBoundsError
            If no assignment satisfies the bounds; the error names the clusters that prove this.
        InvalidTypeError
            If an entry is no integer.

        Examples
        --------
        >>> SizeBounds.from_counts([2, 0], [3, 9], n_samples=10).upper
        array([3, 9])
        >>> SizeBounds.from_counts([2, 0], [3, 5], n_samples=10)
        Traceback (most recent call last):
            ...
        dualclust.algos.core.errors.InfeasibleBoundsError: upper bounds add up to 8 samples, \
2 fewer than n_samples=10. To fix this, raise them
        """
        n = _length(n_samples)
        low = integers_of("lower", lower)
        high = [n] * len(low) if upper is None else integers_of("upper", upper)
        if len(low) != len(high) or not low:
            msg = (
                f"lower and upper must have one entry per cluster, got {len(low)} and {len(high)}"
                ". To fix this, give one for each cluster"
            )
            raise InvalidValueError(msg)
        check_sums(low, high, n, "")
        high = [min(u, n) for u in high]
        shares = [Fraction(v, n) for v in low], [Fraction(v, n) for v in high]
        return _build(*shares, low, high, n, xp, device)

    @classmethod
    def for_stream(
        cls,
        n_clusters: int,
        *,
        lower: Ratio = 0.9,
        upper: Ratio = math.inf,
        xp: Namespace | None = None,
        device: object | None = None,
    ) -> SizeBounds:
        """Build bounds for a stream of unknown length: shares only, in units of 1 / k.

        The duals steer towards the shares. The last samples can be reserved only if the number of
        samples is known, so only the certificate is guaranteed. Parameters as in `from_ratios`.

        Examples
        --------
        >>> SizeBounds.for_stream(4, lower=0.8).lower_share
        array([0.2, 0.2, 0.2, 0.2])
        """
        k = check_count("n_clusters", n_clusters, 1)
        least = ratios_of("lower", lower, k)
        most = ratios_of("upper", upper, k)
        if any(lo > hi for lo, hi in zip(least, most, strict=True)) or not sum(least) <= k <= sum(
            most
        ):
            bad = tuple(i for i in range(k) if least[i] > most[i]) or tuple(range(k))
            msg = (
                f"lower and upper must satisfy lower <= upper and sum(lower) <= k <= sum(upper), "
                f"got sums {float(sum(least)):g} and {float(sum(most)):g} for k={k}. "
                f"To fix this, use ratios of at most 1 below and at least 1 above"
            )
            raise InfeasibleBoundsError(msg, clusters=bad, excess=1)
        shares = [r / k for r in least], [r / k for r in most]
        return _build(*shares, [0] * k, [sys.maxsize] * k, None, xp, device)


def check_bounds(bounds: SizeBounds) -> None:
    """Raise unless `bounds` is a `SizeBounds`."""
    fix = "build it by SizeBounds.of, .from_ratios, .from_counts or .for_stream"
    check_kind("bounds", bounds, SizeBounds, fix)


def price_of_bounds(prices: Array, bounds: SizeBounds) -> float:
    """Return the second term of `online.dual_value`, ``- sum_k pi+_k l_k + sum_k pi-_k u_k``.

    It uses the implied bounds: the other clusters' lower bounds leave this cluster at most
    ``n - sum_{j != k} l_j``, and likewise from below. They cost nothing and give a tighter bound.

    Notes
    -----
    Claims: docs/claims.md#R6.
    """
    xp = compat.array_namespace(prices)
    low, high = (xp.astype(bound, xp.float64) for bound in implied_bounds(bounds))
    bonus, penalty = xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0)
    return float(xp.sum(penalty * high - bonus * low))


def implied_bounds(bounds: SizeBounds) -> tuple[Array, Array]:
    """Tighten bounds by those of the other clusters and the number of samples, (k,) int64 each."""
    xp, n = compat.array_namespace(bounds.lower), bounds.n_samples
    low = xp.maximum(bounds.lower, n - (xp.sum(bounds.upper) - bounds.upper))
    high = xp.minimum(bounds.upper, n - (xp.sum(bounds.lower) - bounds.lower))
    return low, high


def _length(n_samples: int) -> int:
    n = check_count("n_samples", n_samples, 1)
    if n > sys.maxsize:
        msg = f"n_samples must be at most {sys.maxsize}, got {n}. To fix this, pass a smaller one"
        raise InvalidValueError(msg)
    return n


def _build(
    lower_share: list[Fraction],
    upper_share: list[Fraction],
    lower: list[int],
    upper: list[int],
    n_samples: int | None,
    xp: Namespace | None,
    device: object | None,
) -> SizeBounds:
    xp = default_namespace if xp is None else check_namespace(xp)
    return SizeBounds(
        xp.asarray(of_each(float, lower_share), dtype=xp.float64, device=device),
        xp.asarray(of_each(float, upper_share), dtype=xp.float64, device=device),
        xp.asarray(lower, dtype=xp.int64, device=device),
        xp.asarray(upper, dtype=xp.int64, device=device),
        n_samples,
    )
