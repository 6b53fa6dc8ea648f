"""Where arrays are: NumPy's on the host, or tensors of torch on the device that computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import MissingExtraError, UsageError
from ..common.extras import needs_train

__all__ = ["device_place", "on_host", "placed"]


def device_place(device: str) -> dict[str, Any]:
    """Return the library and the device of new arrays, as keywords; none on the host.

    Raises
    ------
    MissingExtraError
        If the device needs torch, and it is not installed.
    UsageError
        If the device is not there.
    """
    return {} if device == "cpu" else {"xp": _torch_on(device), "device": device}


def placed(array: NDArray[Any] | None, device: str) -> Any:
    """Return an array on the device that computes; None stays None."""
    if array is None or device == "cpu":
        return array
    import torch

    return torch.from_numpy(array).to(device)


def on_host(array: Any) -> NDArray[Any]:
    """Return an array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu())


def _torch_on(device: str) -> Any:
    """Return torch if it has the device."""
    try:
        import torch
    except ImportError as error:
        msg = needs_train(f"--device {device}", "torch")
        raise MissingExtraError(msg) from error
    if device.partition(":")[0] == "meta":
        msg = "--device meta has no values to compute with. To fix this, name cpu or cuda"
        raise UsageError(msg)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the second: torch built without CUDA
        msg = (
            f"--device {device} is not there: {str(error).splitlines()[0]}"
            ". To fix this, name a device that is there"
        )
        raise UsageError(msg) from error
    return torch
