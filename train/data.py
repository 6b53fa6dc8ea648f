"""Images as one array of bytes on the device, with what it takes to feed and to judge a run.

Small data sets fit the device's memory whole, as ``uint8``: there is no loader to wait for, and an
epoch is a permutation of ids. Labels, where a source has them, are kept **only** to judge the
clusters; no step of a training run reads them.

============  ====================================================================================
source        what it is
============  ====================================================================================
``"digits"``  scikit-learn's 1797 handwritten digits, 8 × 8, grey; built in
``FILE.npz``  ``images``: uint8 of shape (n, h, w), (n, h, w, c) or (n, c, h, w), c = 1 or 3;
              optional ``labels`` (n,) and ``class_names``
``FILE.npz``  ``train_images``, ``train_labels``, ``test_images``, ``test_labels``, as MNIST is
              often stored; `split` chooses
============  ====================================================================================
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..algos.errors import InvalidTypeError, InvalidValueError, MissingFileError, UsageError

__all__ = ["ImageData", "image_data", "load_source", "normalize"]

_SUPPORTED = (
    "supported sources: 'digits'; an .npz file with 'images' (uint8) and optional 'labels'; "
    "an .npz file with 'train_images' and 'test_images'"
)


class ImageData(NamedTuple):
    """A data set on one device; `c` channels, `n` images of `h` × `w` pixels.

    Attributes
    ----------
    images : (n, c, h, w) uint8 tensor.
    labels : (n,) int64 tensor in 0 … classes-1, or None. For evaluation only.
    ids : (n,) int64 tensor. The position of each image in its source.
    class_names : tuple of str, one for each label; empty without labels.
    mean, std : (c,) float32 tensors, on the scale where 255 is 1. What `normalize` takes; a run
        keeps them, because new images must be normalized as the training images were.
    background : (c,) float32 tensor, **normalized**. The median pixel of the images' outermost
        frame: the value that surrounds the object, used where a view looks past the border.
    """

    images: torch.Tensor
    labels: torch.Tensor | None
    ids: torch.Tensor
    class_names: tuple[str, ...]
    mean: torch.Tensor
    std: torch.Tensor
    background: torch.Tensor

    def to(self, device: str | torch.device) -> ImageData:
        """Copy every tensor to `device`."""
        fields = self._asdict()
        moved: dict[str, Any] = {
            k: v.to(device) for k, v in fields.items() if isinstance(v, torch.Tensor)
        }
        return self._replace(**moved)


def load_source(
    source: str | Path, *, split: str | None = None, device: str | torch.device = "cpu"
) -> ImageData:
    """Load a data set by name or path.

    Parameters
    ----------
    source : str or path. See the table at the top of this module.
    split : ``"train"``, ``"test"``, ``"all"`` (train, then test) or None. Of sources that come
        split; None takes the training images.
    device : where the tensors live.

    Raises
    ------
    MissingFileError
        If `source` is neither a known name nor an existing path.
    UsageError
        If the kind of source is not supported, or has not the split.
    InvalidTypeError, InvalidValueError
        If the file is damaged, or an array has the wrong type or shape.

    Examples
    --------
    >>> data = load_source("digits")
    >>> tuple(data.images.shape), data.images.dtype, data.class_names[:3]
    ((1797, 1, 8, 8), torch.uint8, ('0', '1', '2'))
    """
    if split not in (None, "train", "test", "all"):
        msg = f"split must be 'train', 'test' or 'all', got {split!r}"
        raise UsageError(msg)
    arrays = _digits() if str(source) == "digits" else _read_npz(Path(source))
    if "images" not in arrays:
        arrays = _select_split(arrays, split or "train", source)
    elif split not in (None, "all"):
        msg = f"source {str(source)!r} is not split into train and test: drop split={split!r}"
        raise UsageError(msg)
    return image_data(**arrays, device=device)


def image_data(
    images: Any,
    labels: Any = None,
    class_names: Any = None,
    *,
    device: str | torch.device = "cpu",
) -> ImageData:
    """Make a data set from arrays.

    Parameters
    ----------
    images : uint8 array of shape (n, h, w), (n, h, w, c) or (n, c, h, w); c is 1 or 3.
    labels : (n,) array of integers or strings, optional. Recoded to 0 … classes-1 in sorted order.
    class_names : sequence of str, optional. ``class_names[i]`` names the integer label i.
    device : where the tensors live.

    Raises
    ------
    InvalidTypeError
        If `images` is not uint8, or `labels` are neither integers nor strings.
    InvalidValueError
        If a shape breaks the rule, or (n, c, h, w) and (n, h, w, c) both fit.
    """
    pixels = _channels_first(np.asarray(images))
    n = len(pixels)
    codes = None
    names: tuple[str, ...] = ()
    if labels is not None:
        codes, names = _recode(np.asarray(labels), n, class_names)
    # torch wants memory that it may write to; an array read from a file may be read-only.
    tensor = torch.from_numpy(np.array(pixels, order="C")).to(device)
    mean, std, background = _statistics(tensor)
    return ImageData(
        images=tensor,
        labels=None if codes is None else torch.from_numpy(codes).to(device),
        ids=torch.arange(n, device=device),
        class_names=names,
        mean=mean,
        std=std,
        background=background,
    )


def normalize(images: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Bring pixels to mean 0 and standard deviation 1 per channel.

    Parameters
    ----------
    images : (…, c, h, w) uint8 tensor.
    mean, std : (c,) float32 tensors on the same device, as in `ImageData`.

    Returns
    -------
    normalized : (…, c, h, w) float32 tensor, ``(images / 255 - mean) / std``.
    """
    scaled = images.to(torch.float32).mul_(1 / 255)
    return scaled.sub_(mean[:, None, None]).div_(std[:, None, None])


def _digits() -> dict[str, Any]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Ink runs from 0 to 16 there.
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    return {"images": images, "labels": bunch.target, "class_names": [str(i) for i in range(10)]}


def _read_npz(path: Path) -> dict[str, Any]:
    if path.is_dir():
        msg = f"{path} is a folder, and image folders are not read yet; {_SUPPORTED}"
        raise UsageError(msg)
    if not path.exists():
        msg = f"no data at {str(path)!r}; {_SUPPORTED}"
        raise MissingFileError(msg)
    if path.suffix.lower() != ".npz":
        msg = f"cannot read {path}: {_SUPPORTED}"
        raise UsageError(msg)
    wanted = {"images", "labels", "class_names"}
    wanted |= {f"{split}_{part}" for split in ("train", "test") for part in ("images", "labels")}
    try:
        # Pickled objects stay shut: a data file must not be able to run code.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            found = list(archive) if isinstance(archive, Mapping) else ["one bare array"]
            arrays = {name: archive[name] for name in found if name in wanted}
    except (OSError, ValueError, MemoryError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        msg = f"cannot read {path}: damaged, or not plain arrays ({error})"
        raise InvalidValueError(msg) from error
    if not {"images", "train_images", "test_images"} & set(arrays):
        msg = f"{path} holds {found}, and no images by a known name; {_SUPPORTED}"
        raise UsageError(msg)
    return arrays


def _select_split(arrays: dict[str, Any], split: str, source: str | Path) -> dict[str, Any]:
    parts = ("train", "test") if split == "all" else (split,)
    for part in parts:
        if f"{part}_images" not in arrays:
            msg = f"source {str(source)!r} has no split {part!r}: no array '{part}_images'"
            raise UsageError(msg)
    chosen = {"images": np.concatenate([arrays[f"{part}_images"] for part in parts])}
    if all(f"{part}_labels" in arrays for part in parts):
        chosen["labels"] = np.concatenate([arrays[f"{part}_labels"] for part in parts])
    return chosen | {k: v for k, v in arrays.items() if k == "class_names"}


def _channels_first(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if images.dtype != np.uint8:
        msg = f"images must be uint8 (0 to 255), got {images.dtype}. To fix: scale, round and cast"
        raise InvalidTypeError(msg)
    shape = images.shape
    if images.ndim not in (3, 4) or 0 in shape:
        msg = f"images must have shape (n, h, w), (n, h, w, c) or (n, c, h, w), got {shape}"
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


def _recode(
    labels: np.ndarray[Any, Any], n: int, class_names: Any
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    if labels.dtype.kind not in "iuU":
        msg = f"labels must be integers or strings, got {labels.dtype}"
        raise InvalidTypeError(msg)
    if labels.shape != (n,):
        msg = f"labels must have shape ({n},), one for each image, got {labels.shape}"
        raise InvalidValueError(msg)
    values, codes = np.unique(labels, return_inverse=True)
    if class_names is None or labels.dtype.kind == "U":
        return codes.astype(np.int64), tuple(map(str, values))
    names = tuple(map(str, class_names))
    if values[0] < 0 or values[-1] >= len(names):
        got = f"{values[0]} … {values[-1]}"
        msg = f"labels must index the {len(names)} class_names, got labels {got}"
        raise InvalidValueError(msg)
    return codes.astype(np.int64), tuple(names[int(value)] for value in values)


def _statistics(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, standard deviation and normalized background, from exact counts of pixel values."""
    values = torch.arange(256, dtype=torch.float64) / 255
    rows = []
    for channel in images.unbind(1):
        shares = torch.bincount(channel.reshape(-1), minlength=256).cpu().double()
        shares /= shares.sum()
        mean = shares @ values
        # A constant channel has no scale: 1 leaves it at 0 instead of dividing by 0.
        std = (shares @ (values - mean) ** 2).sqrt()
        std = std if std > 0 else torch.ones_like(std)
        edges = [channel[:, 0], channel[:, -1], channel[:, :, 0], channel[:, :, -1]]
        frame = torch.cat([edge.reshape(-1) for edge in edges])
        counts = torch.bincount(frame, minlength=256).cpu().cumsum(0)
        median = torch.searchsorted(counts, (counts[-1] + 1) // 2)
        rows.append(torch.stack([mean, std, (values[median] - mean) / std]))
    table = torch.stack(rows, dim=1).to(torch.float32).to(images.device)
    return table[0], table[1], table[2]
