"""Groups of rows from values of any kind, and their bounds in a short form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.bounds.groups import GroupBounds
from ..algos.core.checks import check_interval, shown
from ..algos.core.errors import InvalidTypeError, InvalidValueError

__all__ = ["FORMS", "Form", "Groups", "bounds_in_form", "check_form", "numbered_groups"]

FORMS = ("at-most-one", "at-least-one")
"""Names of bounds on groups; any others are two shares of a group's mean."""

Form = str | tuple[float, float]


class Groups(NamedTuple):
    """Rows in groups.

    Attributes
    ----------
    numbers : (n,) int64 array
        Group of each row, from 0 on; -1 for none.
    names : (G,) array
        The values that stand for the groups, in ascending order.
    """

    numbers: NDArray[np.int64]
    names: NDArray[Any]


def numbered_groups(name: str, values: Any, names: NDArray[Any] | None = None) -> Groups:
    """Number the groups that an array names by numbers, texts or truth values.

    Parameters
    ----------
    name : str
        What messages call the values.
    values : (n,) array-like
        -1, NaN, None and the empty text are no group.
    names : (G,) array, optional
        Those of an earlier result: groups that it has not are none.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For dates and other kinds, and any but one dimension.

    Examples
    --------
    >>> numbered_groups("groups", ["b", "a", None, "b"])
    Groups(numbers=array([ 1,  0, -1,  1]), names=array(['a', 'b'], dtype='<U1'))
    """
    values = np.asarray(values)
    if values.ndim != 1:
        msg = (
            f"{name} must be one value for each row, got shape {values.shape}"
            ". To fix this, give an array of one dimension"
        )
        raise InvalidValueError(msg)
    if values.dtype.kind in "OSUT":
        values = np.asarray([_text(value) for value in values.tolist()], dtype=np.str_)
        is_none = (values == "") | (values == "-1")
    elif values.dtype.kind in "biuf":
        is_none = np.isnan(values) | (values == -1)
    else:
        msg = (
            f"{name} must be whole numbers, texts or truth values, got {values.dtype}"
            ". To fix this, give a text for each row"
        )
        raise InvalidTypeError(msg)
    if names is None:
        names = np.unique(values[~is_none])
    if len(names) and (names.dtype.kind == "U") != (values.dtype.kind == "U"):
        msg = (
            f"{name} must be values like {shown(names[0].item())}, of one kind with those of before"
            f", got {values.dtype}. To fix this, give values of that kind"
        )
        raise InvalidTypeError(msg)
    place = np.searchsorted(names, values)
    known = np.zeros(len(values), np.bool_)
    if len(names):
        known = ~is_none & (names[np.minimum(place, len(names) - 1)] == values)
    return Groups(np.where(known, place, -1).astype(np.int64), names)


def _text(value: Any) -> str:
    """Return a value as a text, empty if it is missing: NaN and NA do not equal themselves."""
    if value is None or (value != value) is not False:
        return ""
    return value.decode() if isinstance(value, bytes) else str(value)


def check_form(name: str, form: Any) -> Form:
    """Return bounds on groups in their short form, checked: a name, or two shares.

    Raises
    ------
    InvalidValueError

    Examples
    --------
    >>> check_form("group_bounds", "at-most-one"), check_form("group_bounds", [0.8, 1.2])
    ('at-most-one', (0.8, 1.2))
    """
    if isinstance(form, str) and form in FORMS:
        return form
    is_pair = isinstance(form, Sequence) and not isinstance(form, str) and len(form) == 2
    if not is_pair or not all(isinstance(share, int | float) for share in form):
        msg = (
            f"{name} must be two shares of the mean n_g / k, such as (0.8, 1.2), or one of "
            f"{', '.join(map(repr, FORMS))}, got {shown(form)}. To fix this, give one of these"
        )
        raise InvalidValueError(msg)
    lower = check_interval(f"{name}[0]", form[0], 0.0, 1.0)
    upper = form[1] if form[1] == math.inf else check_interval(f"{name}[1]", form[1], 1.0, math.inf)
    return float(lower), float(upper)


def bounds_in_form(form: Form, numbers: Any, n_clusters: int) -> GroupBounds:
    """Return bounds on groups of rows.

    Examples
    --------
    >>> bounds_in_form((0.5, 1.5), np.asarray([0, 0, 1, -1]), 2).upper.tolist()
    [[2, 2], [1, 1]]
    """
    if form == "at-most-one":
        return GroupBounds.at_most_one(numbers, n_clusters)
    if form == "at-least-one":
        return GroupBounds.at_least_one(numbers, n_clusters)
    return GroupBounds.from_shares(numbers, n_clusters, lower=form[0], upper=form[1])
