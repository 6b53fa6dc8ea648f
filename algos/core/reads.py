"""Numbers that the host reads from a device, as few times as possible.

A read waits until the device has done everything before it: some ten microseconds and an empty
queue, whether one number comes or a hundred. So numbers that are needed at the same time are read
at the same time, and what the host does not decide on stays on the device. Where arrays live in the
memory of the host anyway, a read costs nothing, and nothing is packed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat as compat

from ...backends import placement
from .checks import check_values, shown
from .errors import InvalidTypeError
from .types import Array

__all__ = ["detached", "entries", "on_host", "read", "unread"]


def on_host(array: Array) -> bool:
    """Tell whether an array lives in the memory of the host, by the kind of its device.

    The kind is that by which the table of engines files arrays (`backends.placement`).

    Examples
    --------
    >>> import numpy as np
    >>> on_host(np.zeros(3))
    True
    """
    return placement(array)[1] == "cpu"


def detached(array: Array) -> Array:
    """Return an array without its graph, in a library that has one: a read would warn of it.

    Examples
    --------
    >>> import numpy as np
    >>> detached(np.asarray([1.0]))
    array([1.])
    """
    return array.detach() if hasattr(array, "detach") else array


def unread(value: Array) -> Array | float:
    """Return an array without axes as a number where that costs nothing, and as it is elsewhere.

    Sums and comparisons go on with either; `read` ends them.

    Examples
    --------
    >>> import numpy as np
    >>> unread(np.asarray(0.5))
    0.5
    """
    return float(value) if on_host(value) else value


def read(*values: Array | float) -> list[float]:
    """Return arrays without axes, and numbers, as floats; at most one read from a device.

    Parameters
    ----------
    values : () arrays of one library and device, or numbers
        Integers below 2^53 in size; a boolean becomes 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> read(np.asarray(3), 0.5, np.asarray(True))
    [3.0, 0.5, 1.0]
    """
    arrays = [value for value in values if compat.is_array_api_obj(value)]
    if len(arrays) < 2 or on_host(arrays[0]):
        return [float(value) for value in values]
    xp = compat.array_namespace(*arrays)
    together = xp.stack([xp.astype(value, xp.float64) for value in arrays])
    found = iter(together.tolist())  # every library with devices has it
    return [next(found) if compat.is_array_api_obj(value) else float(value) for value in values]


def entries(name: str, values: Array) -> list[Any]:
    """Return the entries of a sequence or of a 1-D array of real numbers as Python numbers.

    Raises
    ------
    InvalidTypeError
        If `values` is neither of these, or an array of another dtype or with other axes.
    """
    if compat.is_array_api_obj(values):
        check_values(name, values)
        xp = compat.array_namespace(values)
        if values.ndim != 1 or not xp.isdtype(values.dtype, ("real floating", "integral")):
            msg = (
                f"{name} must be a 1-D array of real numbers, got {values.dtype} of shape "
                f"{tuple(values.shape)}"
                f". To fix this, {'convert it to float64' if values.ndim == 1 else 'flatten it'}"
            )
            raise InvalidTypeError(msg)
        if hasattr(values, "tolist"):  # one transfer, if the library offers it
            return list(values.tolist())
        kind = float if xp.isdtype(values.dtype, "real floating") else int
        return [kind(values[i]) for i in range(values.shape[0])]
    if isinstance(values, str) or not isinstance(values, Sequence):
        msg = (
            f"{name} must be numbers, got {shown(values)} ({type(values).__name__})"
            ". To fix this, pass an array of numbers"
        )
        raise InvalidTypeError(msg)
    return [float(v) if compat.is_array_api_obj(v) and v.ndim == 0 else v for v in values]
