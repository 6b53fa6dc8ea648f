"""How results are compared: the kind of array first, then values; labels by their scores."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray


def to_numpy(array: Any) -> NDArray[Any]:
    """Copy an array of any library and device to NumPy."""
    if compat.is_torch_array(array):
        array = array.detach().cpu().numpy()
    return np.array(array)


def assert_same_kind(actual: Any, desired: Any) -> None:
    """Fail unless both arrays agree in library, dtype, shape and device."""
    libraries = [compat.array_namespace(a).__name__ for a in (actual, desired)]
    assert libraries[0] == libraries[1], f"library {libraries[0]}, expected {libraries[1]}"
    assert actual.dtype == desired.dtype, f"dtype {actual.dtype}, expected {desired.dtype}"
    shapes = tuple(actual.shape), tuple(desired.shape)
    assert shapes[0] == shapes[1], f"shape {shapes[0]}, expected {shapes[1]}"
    devices = compat.device(actual), compat.device(desired)
    assert devices[0] == devices[1], f"device {devices[0]}, expected {devices[1]}"


def assert_close(
    actual: Any, desired: Any, *, rtol: float | None = None, atol: float = 0.0
) -> None:
    """Fail unless both are of one kind and close; `rtol` is 16 eps by default, 0 for integers."""
    assert_same_kind(actual, desired)
    a, b = to_numpy(actual), to_numpy(desired)
    if rtol is None:
        rtol = 16.0 * float(np.finfo(b.dtype).eps) if np.isdtype(b.dtype, "real floating") else 0.0
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_equal(actual: Any, desired: Any) -> None:
    """Fail unless both are of one kind and equal to the last bit."""
    assert_same_kind(actual, desired)
    a, b = to_numpy(actual), to_numpy(desired)
    np.testing.assert_array_equal(a, b, strict=True)
    assert a.tobytes() == b.tobytes(), "equal values with different bits (the sign of a zero)"


def label_gaps(scores: Any, prices: Any, labels: Any) -> NDArray[np.float64]:
    """By how much each label's priced score is below the best one of its row."""
    priced = to_numpy(scores).astype(np.float64) + to_numpy(prices)
    chosen = np.take_along_axis(priced, to_numpy(labels)[..., None], axis=-1)[..., 0]
    gaps: NDArray[np.float64] = priced.max(axis=-1) - chosen
    return gaps


def assert_same_labels(
    scores: Any, prices: Any, labels_a: Any, labels_b: Any, tol: float = 0.0
) -> None:
    """Fail unless both labelings are best at these prices, up to `tol`.

    Labels may differ where scores tie: adding in another order moves a score by its last bit.
    """
    assert labels_a.shape == labels_b.shape
    for name, labels in (("first", labels_a), ("second", labels_b)):
        gaps = label_gaps(scores, prices, labels)
        worst = float(gaps.max()) if gaps.size else 0.0
        assert not math.isnan(worst), "a score is NaN"
        assert worst <= tol, f"the {name} labels are {worst:g} below the best, more than {tol:g}"
