"""Randomness by counting: every stream of random numbers is named, none is carried along.

A generator is seeded by a hash of the run's seed and of the stream's name, for example
``(seed, "augment", epoch, step)``. Resuming at any epoch therefore draws the very same numbers as
the run that was never interrupted, and no generator state has to be saved.
"""

from __future__ import annotations

import hashlib
import json

import torch

from ...algos.core.errors import InvalidTypeError, InvalidValueError
from ...common import devices

__all__ = ["generator", "permutation"]


def generator(seed: int, *stream: int | str, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a fresh generator for the named stream of random numbers.

    Parameters
    ----------
    seed : int. The run's seed, of any size.
    *stream : int or str. The stream's name, such as ``"augment", epoch, step``. ``1`` and ``"1"``
        are different names, and so are ``"ab"`` and ``"a", "b"``.
    device : the device that the numbers are drawn on. CPU and CUDA draw different numbers.

    Returns
    -------
    generator : torch.Generator on `device`, seeded by the first 63 bits of SHA-256.

    Raises
    ------
    InvalidTypeError
        If `seed` or a part of the name has another type.

    Notes
    -----
    PyTorch's CPU generator keeps the low 32 bits of a seed: among 10⁵ streams about one pair draws
    alike. That is harmless for augmentation, where the two meet different images.

    Examples
    --------
    >>> draws = [torch.rand(2, generator=generator(0, "augment", 7)) for _ in range(2)]
    >>> torch.equal(*draws)
    True
    """
    for part in (seed, *stream):
        if isinstance(part, bool) or not isinstance(part, (int, str)) or isinstance(seed, str):
            msg = f"seed must be an int and stream ints or strings, got {(seed, *stream)!r}"
            raise InvalidTypeError(msg)
    name = json.dumps([seed, *stream]).encode()
    bits = int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1
    return devices.generator(device, bits)


def permutation(
    n: int, seed: int, epoch: int, *, device: str | torch.device = "cpu"
) -> torch.Tensor:
    """Return the order in which an epoch visits the samples.

    Drawn on the CPU and then moved, so that the order is the same on every device.

    Parameters
    ----------
    n : int, 0 or more. Number of samples.
    seed, epoch : int. The run's seed and the epoch's number.
    device : where the result lives.

    Returns
    -------
    order : (n,) int64 tensor on `device`. Each of 0 … n-1 once.

    Raises
    ------
    InvalidValueError
        If `n` is negative.
    """
    if n < 0:
        msg = f"n must be 0 or more, got {n}"
        raise InvalidValueError(msg)
    return torch.randperm(n, generator=generator(seed, "permutation", epoch)).to(device)
