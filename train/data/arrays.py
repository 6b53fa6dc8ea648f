"""Arrays on their way to being samples: shapes, class codes, means and deviations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...algos.core.errors import InvalidTypeError, InvalidValueError
from .splits import Array

__all__ = [
    "channels_first",
    "check_row_shape",
    "check_rows",
    "image_statistics",
    "join",
    "normalize",
    "recode",
    "row_statistics",
]

# Samples looked at together: counting makes eight bytes of each byte.
CHUNK = 8192


def join(arrays: Sequence[Array], what: str) -> Array:
    """Put the arrays of several splits together; one is returned as it is.

    Raises
    ------
    InvalidValueError
        If their shapes, but for the length, or their kinds differ.
    """
    first = arrays[0]
    for other in arrays[1:]:
        if other.shape[1:] != first.shape[1:] or (other.dtype.kind == "U") != (
            first.dtype.kind == "U"
        ):
            found = ", ".join(f"{a.dtype} {a.shape}" for a in arrays)
            msg = f"{what} of the splits must be alike, got {found}"
            raise InvalidValueError(msg)
    return first if len(arrays) == 1 else np.concatenate(arrays)


def channels_first(images: Array) -> Array:
    """View images of one of the layouts as (n, c, h, w).

    Raises
    ------
    InvalidTypeError
        If they are not uint8.
    InvalidValueError
        If the shape has no channel axis of length 1 or 3, or two.
    """
    if images.dtype != np.uint8:
        msg = f"images must be uint8 (0 to 255), got {images.dtype}. To fix: scale, round and cast"
        raise InvalidTypeError(msg)
    shape = images.shape
    if images.ndim not in (3, 4) or 0 in shape:
        msg = (
            f"images must have shape (n, h, w), (n, h, w, c) or (n, c, h, w), got {shape}"
            ". To fix this, give each pixel its place, for gray rows by images.reshape(n, h, w)"
        )
        raise InvalidValueError(msg)
    if images.ndim == 3:
        return images[:, None]
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first == last:
        which = "both ends fit" if first else "neither end fits"
        msg = (
            f"images of shape {shape}: the channel axis must be 1 or 3 long and stand second or "
            f"last, but {which}. To fix: reshape to (n, c, h, w) with h and w above 3"
        )
        raise InvalidValueError(msg)
    return images if first else images.transpose(0, 3, 1, 2)


def check_rows(rows: Array) -> None:
    """Refuse embeddings that are not (n, d) finite floats, naming the first row that is off."""
    if rows.dtype.kind != "f":
        msg = f"embeddings must be floats, got {rows.dtype}. To fix: cast to float32"
        raise InvalidTypeError(msg)
    check_row_shape(rows.shape)
    for start in range(0, len(rows), CHUNK):
        finite = np.isfinite(rows[start : start + CHUNK]).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            msg = (
                f"embeddings must be finite, and row {row} holds NaN or infinity. To fix this, "
                f"drop that row, or look at the program that wrote it"
            )
            raise InvalidValueError(msg)


def check_row_shape(shape: tuple[int, ...], where: str = "") -> None:
    """Refuse what is not (n, d), of which a header tells as well; `where` names the file."""
    if len(shape) != 2 or 0 in shape:
        msg = (
            f"{where}embeddings must have shape (n, d), got {shape}. To fix this, give each sample "
            f"a row of numbers, as rows.reshape(n, -1) does"
        )
        raise InvalidValueError(msg)


def recode(
    labels: Array, n: int, class_names: Any, every: Array | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Number classes from 0, in sorted order.

    Parameters
    ----------
    labels : (n,) array of integers or strings; the integer -1 is no class, and stays.
    n : int. Samples there are.
    class_names : sequence of str or None. Name i is that of the integer label i.
    every : array, optional. Labels of all splits, which give the numbers; None: `labels`.

    Returns
    -------
    codes, names : (n,) int64 tensor, and the name of each code.
    """
    if labels.dtype.kind not in "iuU":
        msg = f"labels must be integers or strings, got {labels.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    if labels.shape != (n,):
        msg = (
            f"labels must have shape ({n},), one for each sample, got {labels.shape}"
            ". To fix this, give the labels of these samples alone, in their order"
        )
        raise InvalidValueError(msg)
    if labels.dtype.kind != "U":
        labels = labels.astype(np.int64)
    values = np.unique(labels if every is None else every)
    if labels.dtype.kind == "U":
        codes = np.searchsorted(values, labels)
        return torch.from_numpy(codes.astype(np.int64)), tuple(map(str, values))
    values = values.astype(np.int64)
    values = values[values != -1]
    codes = np.where(labels == -1, -1, np.searchsorted(values, labels))
    names = tuple(map(str, values if class_names is None else class_names))
    if class_names is not None and len(values):
        if values[0] < 0 or values[-1] >= len(names):
            got = f"{values[0]} … {values[-1]}"
            msg = f"labels must index the {len(names)} class_names, got labels {got}"
            raise InvalidValueError(msg)
        names = tuple(names[int(value)] for value in values)
    return torch.from_numpy(codes.astype(np.int64)), names


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Bring pixels to mean 0 and standard deviation 1 per channel.

    Parameters
    ----------
    images : (…, c, h, w) uint8 tensor.
    mean, std : (c,) float32 tensors on the same device, as in `data.ImageData`.

    Returns
    -------
    normalized : (…, c, h, w) float32 tensor, ``(images / 255 - mean) / std``.
    """
    scaled = images.to(torch.float32).mul_(1 / 255)
    return scaled.sub_(mean[:, None, None]).div_(std[:, None, None])


def image_statistics(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, standard deviation and normalized background, from exact counts of pixel values.

    Parameters
    ----------
    images : (n, c, h, w) uint8 tensor.

    Returns
    -------
    mean, std, background : (c,) float32 tensors on the CPU; see `data.ImageData`.
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    counts, edges = (torch.zeros(images.shape[1], 256, dtype=torch.int64) for _ in range(2))
    for chunk in _chunks(images):
        for c, channel in enumerate(chunk.unbind(1)):
            sides = [channel[:, 0], channel[:, -1], channel[:, :, 0], channel[:, :, -1]]
            frame = torch.cat([side.reshape(-1) for side in sides])
            counts[c] += torch.bincount(channel.reshape(-1), minlength=256).cpu()
            edges[c] += torch.bincount(frame, minlength=256).cpu()
    shares = counts.double() / counts.sum(1, keepdim=True)
    mean = shares @ values
    std = (shares * (values - mean[:, None]) ** 2).sum(1).sqrt()
    # A constant channel has no scale: 1 leaves it at 0 instead of dividing by 0.
    std = torch.where(std > 0, std, 1)
    below = edges.cumsum(1)
    # Each image has an even number of them: two of each side.
    median = torch.searchsorted(below, below[:, -1:] // 2)[:, 0]
    background = (values[median] - mean) / std
    return mean.float(), std.float(), background.float()


def row_statistics(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column of (n, d) rows, float32 on the CPU."""
    n = len(rows)
    mean = torch.stack([chunk.double().sum(0) for chunk in _chunks(rows)]).sum(0) / n
    parts = [(chunk.double() - mean).square().sum(0) for chunk in _chunks(rows)]
    square = torch.stack(parts).sum(0) / n
    std = torch.where(square > 0, square.sqrt(), 1)
    return mean.float().cpu(), std.float().cpu()


def _chunks(samples: Tensor) -> Iterator[Tensor]:
    return iter(torch.split(samples, CHUNK))
