"""Numbers given by the caller, one or one per cluster, as exact fractions and whole numbers.

A ratio means the simple fraction whose nearest float it is. So 0.9 of 1000 samples is 900, not a
little more: sizes are decided in whole numbers, without a tolerance.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Number
from typing import Any

import array_api_compat as compat

from ..core.checks import check_count, check_interval, shown
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.reads import entries
from ..core.types import Array

__all__ = [
    "Count",
    "Ratio",
    "check_given_once",
    "counts_of",
    "integers_of",
    "is_array",
    "of_each",
    "ratios_of",
    "rounded",
    "simplest",
]

Ratio = float | Sequence[float] | Array
Count = int | Sequence[int] | Array


def ratios_of(name: str, ratio: Array, k: int) -> list[Fraction]:
    """Return one exact fraction per cluster; a ratio above k (all samples in one) means k."""
    single = isinstance(ratio, Number) or (is_array(ratio) and ratio.ndim == 0)
    values = entries(name, [ratio] * k if single else ratio)
    if len(values) != k:
        msg = (
            f"{name} must be one number or one per cluster (k={k}), got {len(values)}"
            ". To fix this, give one for each cluster"
        )
        raise InvalidValueError(msg)
    if name == "lower" and math.inf in values:
        msg = "lower must be finite, got inf. To fix this, use a ratio of at most 1"
        raise InvalidValueError(msg)
    if name == "upper":
        values = [k if value == math.inf else value for value in values]
    values = [check_interval(name, value, 0.0, math.inf) for value in values]
    most = float(k) if name == "upper" else math.inf
    exact = {value: simplest(min(value, most)) for value in set(values)}
    return [exact[value] for value in values]


def of_each(function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    """Return what a function gives for each value, asked once for each object.

    A bound that all clusters share is one object, and arithmetic of fractions costs microseconds.
    The list keeps its objects, so that no two of them are taken for one.

    Examples
    --------
    >>> of_each(abs, [-1, 2, -1])
    [1, 2, 1]
    """
    found = {key: function(value) for key, value in {id(v): v for v in values}.items()}
    return [found[id(value)] for value in values]


def check_given_once(size: str, **given: Any) -> None:
    """Raise if a size is bounded by a share and by a count; None is no bound."""
    if any(value is None for value in given.values()):
        return
    names, values = " and ".join(given), " and ".join(shown(value) for value in given.values())
    msg = f"{names} both bound the {size} size, got {values}. To fix this, give one of them"
    raise InvalidValueError(msg)


def integers_of(name: str, values: Array) -> list[int]:
    """Return the entries of a sequence or integer array as Python integers, also negative ones."""
    if is_array(values) and not compat.array_namespace(values).isdtype(values.dtype, "integral"):
        msg = f"{name} must be integers, got an array of {values.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    found = values if isinstance(values, list | tuple) else entries(name, values)
    return [check_count(f"{name}[{i}]", v, -sys.maxsize) for i, v in enumerate(found)]


def counts_of(name: str, count: Array, k: int) -> list[int]:
    """Return one whole number of samples per cluster, of at least 0.

    Examples
    --------
    >>> counts_of("min_count", 5, 3)
    [5, 5, 5]
    """
    if is_array(count) and count.ndim == 0:
        kinds = compat.array_namespace(count)
        count = int(count) if kinds.isdtype(count.dtype, "integral") else float(count)
    if not is_array(count) and not isinstance(count, Sequence):
        return [check_count(name, count, 0)] * k
    values = entries(name, count)
    if len(values) != k:
        msg = (
            f"{name} must be one number or one per cluster (k={k}), got {len(values)}"
            ". To fix this, give one for each cluster"
        )
        raise InvalidValueError(msg)
    return [check_count(f"{name}[{i}]", value, 0) for i, value in enumerate(values)]


def simplest(value: float) -> Fraction:
    """Return the simple fraction whose nearest float is `value` (9/10 for 0.9), or the float."""
    exact = Fraction(value)
    simple = exact.limit_denominator(10**6)
    # The caller means the simple fraction only if `value` is its nearest float.
    return simple if float(simple) == value else exact


def rounded(value: Fraction, rounding: str, *, up: bool) -> int:
    """Round a bound to whole samples; `up` is for lower bounds, which "inward" rounds up."""
    if rounding == "nearest":
        return round(value)
    return math.ceil(value) if up == (rounding == "inward") else math.floor(value)


def is_array(values: Any) -> bool:
    """Tell whether `values` is an array of some library."""
    return bool(compat.is_array_api_obj(values))
