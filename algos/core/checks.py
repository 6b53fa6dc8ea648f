"""Checks of arguments: each names the argument, the value, the rule and the fix.

Public functions call these first; kernels assume that they passed. Only `check_finite`,
`check_per_cluster` and `check_labels` read an array's values. The others cost no synchronization
on an accelerator, and accept a tensor without values (on PyTorch's device "meta").
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat

from .errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from .types import Array, Namespace

__all__ = [
    "check_bits",
    "check_choice",
    "check_count",
    "check_finite",
    "check_integral",
    "check_interval",
    "check_kind",
    "check_labels",
    "check_namespace",
    "check_pair",
    "check_per_cluster",
    "check_real",
    "check_same_place",
    "check_shape",
    "check_values",
    "choice_fix",
    "shown",
]


def check_shape(name: str, array: Array, axes: tuple[str | int, ...]) -> tuple[int, ...]:
    """Return the shape of `array` if it has these axes; an int means a fixed length.

    Examples
    --------
    >>> import numpy as np
    >>> check_shape("scores", np.zeros((5, 3)), ("n", "k"))
    (5, 3)
    """
    _check_array(name, array)
    shape: tuple[int, ...] = tuple(array.shape)
    if not _fits(axes, shape):
        wanted = ", ".join(str(a) for a in axes) + ("," if len(axes) == 1 else "")
        fix = _shape_fix(axes, shape)
        msg = f"{name} must have shape ({wanted}), got {shape}. To fix this, {fix}"
        raise InvalidValueError(msg)
    return shape


def check_real(name: str, array: Array) -> Namespace:
    """Return the namespace of `array`, which must hold real floating-point numbers."""
    _check_array(name, array)
    xp = compat.array_namespace(array)
    if not xp.isdtype(array.dtype, "real floating"):
        msg = (
            f"{name} must have a real floating dtype, got {array.dtype}. "
            f"To fix this, convert it to float32 or float64"
        )
        raise InvalidTypeError(msg)
    return xp


def check_bits(name: str, array: Array) -> None:
    """Refuse real numbers that are wider than float64, and would have to be rounded."""
    xp = compat.array_namespace(array)
    if xp.finfo(array.dtype).bits > 64:
        msg = (
            f"{name} must have at most 64 bits, got {array.dtype}. To fix this, convert it to "
            f"float64, which rounds it"
        )
        raise InvalidTypeError(msg)


def check_integral(name: str, array: Array) -> Namespace:
    """Return the namespace of `array`, which must hold integers."""
    _check_array(name, array)
    xp = compat.array_namespace(array)
    if not xp.isdtype(array.dtype, "integral"):
        msg = f"{name} must have an integer dtype, got {array.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    return xp


def check_values(name: str, array: Array) -> None:
    """Raise unless `array` has values; a tensor on PyTorch's device "meta" has none."""
    _check_array(name, array)
    if getattr(array, "is_meta", False):
        msg = (
            f"{name} must have values, got a tensor on the device 'meta', which has a shape only. "
            f"To fix this, create it on a real device"
        )
        raise InvalidTypeError(msg)


def check_finite(name: str, array: Array) -> None:
    """Raise if `array` holds a NaN or an infinity, and name the first place."""
    check_values(name, array)
    xp = compat.array_namespace(array)
    flat = xp.reshape(xp.isfinite(array), (-1,))
    if flat.shape[0] == 0 or bool(xp.all(flat)):
        return
    first = int(xp.argmin(xp.astype(flat, xp.int8)))
    index = []
    for length in reversed(array.shape):
        first, rest = divmod(first, length)
        index.append(rest)
    place = tuple(reversed(index))
    msg = (
        f"{name} must be finite, got {float(array[place])} at index {place}. "
        f"To fix this, drop or impute that entry"
    )
    raise InvalidValueError(msg)


def check_per_cluster(name: str, values: Array | None, k: int) -> Array | None:
    """Return one finite number per cluster as float64; None where nothing is given."""
    if values is None:
        return None
    check_shape(name, values, (k,))
    check_finite(name, values)
    xp = compat.array_namespace(values)
    return xp.astype(values, xp.float64)


def check_labels(name: str, labels: Array, n: int, k: int) -> None:
    """Raise unless `labels` is an (n,) integer array with values in [0, k)."""
    check_values(name, labels)
    check_shape(name, labels, (n,))
    xp = check_integral(name, labels)
    if n and not (0 <= int(xp.min(labels)) and int(xp.max(labels)) < k):
        msg = (
            f"{name} must lie in [0, {k}), got values from {int(xp.min(labels))} "
            f"to {int(xp.max(labels))}. To fix this, number the clusters from 0"
        )
        raise InvalidValueError(msg)


def check_same_place(**arrays: Array | None) -> None:
    """Raise unless all given arrays belong to one library and live on one device."""
    given = {name: a for name, a in arrays.items() if a is not None}
    for name, array in given.items():
        _check_array(name, array)
    (first, reference), *others = given.items()
    for name, array in others:
        libraries = [compat.array_namespace(a).__name__ for a in (array, reference)]
        if libraries[0] != libraries[1]:  # a memmap or a Parameter belongs to its library
            found = " and ".join(name.rpartition(".")[2] for name in libraries)
            msg = (
                f"{name} must be of the same array library as {first}, got {found}. "
                f"To fix this, convert one of them"
            )
            raise DeviceMismatchError(msg)
        if compat.device(array) != compat.device(reference):
            msg = (
                f"{name} must be on the device of {first}, got {compat.device(array)} and "
                f"{compat.device(reference)}. To fix this, move one of them"
            )
            raise DeviceMismatchError(msg)


def check_interval(
    name: str, value: float, low: float, high: float, *, open_low: bool = False
) -> float:
    """Return `value` as a float if it lies in [low, high], or in (low, high] on request.

    The value must be finite, even if `high` is infinite.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = (
            f"{name} must be a number, got {shown(value)} ({type(value).__name__}). "
            f"To fix this, pass an int or a float"
        )
        raise InvalidTypeError(msg)
    inside = (low < value if open_low else low <= value) and value <= high
    if not inside or not abs(value) <= sys.float_info.max:  # nor a whole number beyond any float
        bracket = "(" if open_low else "["
        end = ")" if math.isinf(high) else "]"
        msg = (
            f"{name} must lie in {bracket}{low:g}, {high:g}{end}, got {value!r}. "
            f"To fix this, pass a number in there"
        )
        raise InvalidValueError(msg)
    return float(value)


def check_count(name: str, value: int, low: int) -> int:
    """Return `value` if it is an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        msg = (
            f"{name} must be an int, got {shown(value)} ({type(value).__name__}). "
            f"To fix this, pass a whole number"
        )
        raise InvalidTypeError(msg)
    if value < low:
        msg = f"{name} must be at least {low}, got {value}. To fix this, pass a larger one"
        raise InvalidValueError(msg)
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        msg = (
            f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}. "
            f"To fix this, {choice_fix(value, choices)}"
        )
        raise InvalidValueError(msg)


def choice_fix(value: Any, choices: Iterable[str]) -> str:
    """Return the way out for a value that is none of `choices`: the one it may stand for.

    Examples
    --------
    >>> choice_fix("cosin", ["cosine", "euclidean"]), choice_fix(3, ["cosine", "euclidean"])
    ("pass 'cosine'", 'pass one of these')
    """
    close = get_close_matches(value, list(choices), n=1) if isinstance(value, str) else []
    return f"pass {close[0]!r}" if close else "pass one of these"


def check_kind(name: str, value: Any, kind: type, fix: str) -> None:
    """Raise unless `value` is an object of `kind`, a class of this library.

    Examples
    --------
    >>> check_kind("bounds", 3, list, "build it by from_ratios")
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InvalidTypeError: bounds must be a list, got 3 (int). To fix this, \
build it by from_ratios
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        msg = (
            f"{name} must be {article} {kind.__name__}, got {shown(value)} "
            f"({type(value).__name__}). To fix this, {fix}"
        )
        raise InvalidTypeError(msg)


def check_pair(name: str, value: Any, what: str) -> None:
    """Raise unless `value` is a tuple or a list of two.

    Examples
    --------
    >>> check_pair("prices", 3, "arrays of prices")
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InvalidTypeError: prices must be a pair of arrays of prices, got 3 \
(int). To fix this, give a tuple of two
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        msg = (
            f"{name} must be a pair of {what}, got {shown(value)} "
            f"({type(value).__name__}). To fix this, give a tuple of two"
        )
        raise InvalidTypeError(msg)


def check_namespace(xp: Namespace) -> Namespace:
    """Return `xp` if it is the namespace of an array library."""
    if not all(hasattr(xp, name) for name in ("asarray", "float64", "int64", "zeros")):
        msg = (
            f"xp must be the namespace of an array library, got {shown(xp)} "
            f"({type(xp).__name__}). To fix this, pass a module, e.g. numpy or torch"
        )
        raise InvalidTypeError(msg)
    return xp


def shown(value: Any) -> str:
    """Format a value for a message: on one line, without the entries of an array."""
    if compat.is_array_api_obj(value):
        return f"an array of shape {tuple(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shape_fix(axes: tuple[str | int, ...], shape: tuple[int, ...]) -> str:
    """Return what is to be done to an array of `shape`, whose axes should be others."""
    if len(shape) != len(axes):
        return f"reshape it to {len(axes)} ax{'is' if len(axes) == 1 else 'es'}"
    if len(axes) == 2 and _fits(axes, shape[::-1]):
        return "transpose it"
    axis = next(i for i in range(len(axes)) if not _fits(axes[i : i + 1], shape[i : i + 1]))
    return f"make axis {axis} of length {axes[axis]}"


def _fits(axes: tuple[str | int, ...], shape: tuple[int, ...]) -> bool:
    return len(shape) == len(axes) and all(
        isinstance(a, str) or a == s for a, s in zip(axes, shape, strict=True)
    )


def _check_array(name: str, array: Array) -> None:
    """Raise unless `array` is a dense array without a mask."""
    if not compat.is_array_api_obj(array):
        msg = (
            f"{name} must be an array of an array-API library (numpy, torch, ...), "
            f"got {type(array).__name__}. To fix this, convert it, e.g. numpy.asarray({name})"
        )
        raise InvalidTypeError(msg)
    if hasattr(array, "mask") and hasattr(array, "filled"):
        msg = f"{name} must not be a masked array. To fix this, drop or fill the masked entries"
        raise InvalidTypeError(msg)
    if str(getattr(array, "layout", "torch.strided")) != "torch.strided":
        msg = (
            f"{name} must be a dense tensor, got one of layout {array.layout}. "
            f"To fix this, call its to_dense()"
        )
        raise InvalidTypeError(msg)
