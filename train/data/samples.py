"""Samples of a run: images or embeddings, with classes, names and what normalizes them.

Small data sets fit the device's memory whole, images as ``uint8``: there is no loader to wait for,
and an epoch is a permutation of ids. What does not fit stays in the host's memory or in its file
and is fetched ahead of the step (`prefetch`). Photographs of which a run shows random crops stay in
their files, whole (`pictures`). Labels, where a source has them, are for evaluation **only**; no
step of a training run reads them.

===============  =================================================================================
source           what it is
===============  =================================================================================
``"digits"``     scikit-learn's 1797 handwritten digits, 8 × 8, grey; built in
``FILE.npz``     ``images``: uint8 of shape (n, h, w), (n, h, w, c) or (n, c, h, w), c = 1 or 3;
                 optional ``labels`` (n,) and ``class_names``
``FILE.npz``     ``train_images``, ``train_labels``, ``test_images``, ``test_labels``, as MNIST is
                 often stored; `split` chooses
``FILE.npz``     ``train_jpeg``, ``train_offsets``, ``train_labels``: JPEG files one after another
``FILE.npy``     embeddings, float (n, d); classes from ``FILE_labels.npy``, where it is there
a folder         of image files, in sub-folders of classes or not; see `image_files`
a folder         with the binary files of a published set, such as CIFAR-10; see `archives`
===============  =================================================================================
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ...common.devices import kind_of
from .arrays import (
    channels_first,
    check_rows,
    image_statistics,
    join,
    normalize,
    recode,
    row_statistics,
)
from .long_tail import subset
from .pictures import PictureData, picture_data
from .sources import choose, read_source, stay_whole
from .splits import Array, Reading

__all__ = [
    "EmbeddingData",
    "ImageData",
    "Samples",
    "embedding_data",
    "image_data",
    "load_source",
    "normalize",
]

# Share of a device's free memory that samples may take, besides the network and its activations.
RESIDENT_SHARE = 0.6


class ImageData(NamedTuple):
    """A data set of images; `c` channels, `n` images of `h` × `w` pixels.

    Attributes
    ----------
    images : (n, c, h, w) uint8 tensor. On the host, where it is not resident.
    labels : (n,) int64 tensor in 0 … classes-1, -1 for an image without a class, or None. For
        evaluation only.
    ids : (n,) int64 tensor. The position of each image in its source.
    class_names : tuple of str, one for each label; empty without labels.
    mean, std : (c,) float32 tensors, on the scale where 255 is 1. What `normalize` takes; a run
        keeps them, because new images must be normalized as the training images were.
    background : (c,) float32 tensor, **normalized**. The median pixel of the images' outermost
        frame: the value that surrounds the object, used where a view looks past the border.
    names : tuple of str or None. The file of each image.
    resident : bool. Whether the images live on the training device, which is that of `mean`.
    """

    images: Tensor
    labels: Tensor | None
    ids: Tensor
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    background: Tensor
    names: tuple[str, ...] | None = None
    resident: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image, (c, h, w)."""
        return tuple(self.images.shape[1:])

    def fetch(self, ids: Tensor) -> Tensor:
        """Return the images of these positions as they are stored, on the device of `images`."""
        return self.images[ids.to(self.images.device)]

    def finish(self, rows: Tensor) -> Tensor:
        """Normalize what `fetch` returned, once it is on the training device."""
        return normalize(rows, self.mean, self.std)

    def take(self, ids: Tensor) -> Tensor:
        """Return the normalized float32 images of these positions, on the training device."""
        return self.finish(self.fetch(ids).to(self.mean.device))

    def digest(self) -> str:
        """Return a hash that says which images these are."""
        return _digest(self.images)

    def to(self, device: str | torch.device) -> ImageData:
        """Copy every tensor to `device`."""
        return self._replace(**_moved(self._asdict(), device))


class EmbeddingData(NamedTuple):
    """A data set of embeddings: `n` rows of `d` numbers. Its interface is that of `ImageData`.

    Attributes
    ----------
    rows : (n, d) float tensor. On the host, where it is not resident; maybe mapped from its file.
    labels, ids, class_names, names, resident : as in `ImageData`.
    mean, std : (d,) float32 tensors. Subtracted and divided by; 0 and 1 leave rows as they are.
    """

    rows: Tensor
    labels: Tensor | None
    ids: Tensor
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    names: tuple[str, ...] | None = None
    resident: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one embedding, (d,)."""
        return tuple(self.rows.shape[1:])

    @property
    def background(self) -> None:
        """None: nothing surrounds an embedding."""
        return None

    def fetch(self, ids: Tensor) -> Tensor:
        """Return the rows of these positions as they are stored, on the device of `rows`."""
        return self.rows[ids.to(self.rows.device)]

    def finish(self, rows: Tensor) -> Tensor:
        """Standardize what `fetch` returned, once it is on the training device."""
        return rows.to(torch.float32).sub(self.mean).div_(self.std)

    def take(self, ids: Tensor) -> Tensor:
        """Return the float32 rows of these positions, on the training device."""
        return self.finish(self.fetch(ids).to(self.mean.device))

    def digest(self) -> str:
        """Return a hash that says which embeddings these are."""
        return _digest(self.rows)

    def to(self, device: str | torch.device) -> EmbeddingData:
        """Copy every tensor to `device`."""
        return self._replace(**_moved(self._asdict(), device))


Samples: TypeAlias = ImageData | PictureData | EmbeddingData


def load_source(
    source: str | Path,
    *,
    split: str = "auto",
    device: str | torch.device = "cpu",
    seed: int = 0,
    limit: int = 0,
    imbalance: float = 1.0,
    classes: str = "fine",
    size: int = 0,
    fit: str = "crop",
    decode: str = "once",
    workers: int = 0,
    standardize: bool = False,
    resident: str = "auto",
) -> Samples:
    """Load a data set by name or path.

    Parameters
    ----------
    source : str or path. See the table at the top of this module.
    split, limit, imbalance, classes, size, fit, workers, standardize, resident : see
        `config.DataConfig`.
    decode : str. ``"once"``; ``"views"``; or ``"auto"``: ``"views"`` if the source is picture files
        and `size` is set. Whether the run shows random crops is for the caller to know.
    device : where training runs.
    seed : int. The run's seed, which draws the subsets of `limit` and `imbalance`.

    Returns
    -------
    data : ImageData; EmbeddingData of an ``.npy`` file; PictureData of files that stay whole.

    Raises
    ------
    MissingFileError
        If `source` is neither a known name nor an existing path.
    UsageError
        If the kind of source is not supported, has not the split, or holds no picture files that
        could be decoded for each view.
    InvalidTypeError, InvalidValueError
        If the file is damaged, or an array has the wrong type or shape.

    Examples
    --------
    >>> data = load_source("digits")
    >>> tuple(data.images.shape), data.images.dtype, data.class_names[:3]
    ((1797, 1, 8, 8), torch.uint8, ('0', '1', '2'))
    """
    found = read_source(source, Reading(classes, size, resident == "never", fit))
    parts = choose(found, split, source)
    whole = stay_whole(parts, decode, size, source)
    samples: Any
    if whole:
        samples = [file for part in parts if part.files is not None for file in part.files()]
    else:
        samples = join([part.read() for part in parts], "images")
    codes: Tensor | None = None
    titles: tuple[str, ...] = ()
    if all(part.labels is not None for part in parts):
        # One code for a class in all splits, whichever of them have a sample of it.
        every = [part.labels for part in found.splits.values() if part.labels is not None]
        chosen = join([part.labels for part in parts if part.labels is not None], "labels")
        codes, titles = recode(chosen, len(samples), found.class_names, join(every, "labels"))
    names = None
    if all(part.names is not None for part in parts):
        names = tuple(name for part in parts for name in part.names or ())
    kept = subset(len(samples), codes, imbalance=imbalance, limit=limit, seed=seed)
    if len(kept) < len(samples):
        samples = [samples[i] for i in kept.tolist()] if whole else samples[kept.numpy()]
        codes = None if codes is None else codes[kept]
        names = None if names is None else tuple(names[i] for i in kept.tolist())
    if whole:
        cutting: dict[str, Any] = {"size": size, "fit": fit, "workers": workers, "device": device}
        return picture_data(samples, codes, kept, titles, names, **cutting)
    common = (codes, titles, kept, names, torch.device(device), resident)
    if Path(source).suffix.lower() == ".npy":
        return _embedding_data(samples, *common, standardize=standardize)
    return _image_data(samples, *common)


def image_data(
    images: Any,
    labels: Any = None,
    class_names: Any = None,
    *,
    device: str | torch.device = "cpu",
    resident: str = "auto",
) -> ImageData:
    """Make a data set from arrays.

    Parameters
    ----------
    images : uint8 array of shape (n, h, w), (n, h, w, c) or (n, c, h, w); c is 1 or 3.
    labels : (n,) array of integers or strings, optional. Recoded to 0 … classes-1 in sorted order;
        -1 stands for an image without a class.
    class_names : sequence of str, optional. ``class_names[i]`` names the integer label i.
    device : where training runs.
    resident : see `config.DataConfig`.

    Raises
    ------
    InvalidTypeError
        If `images` is not uint8, or `labels` are neither integers nor strings.
    InvalidValueError
        If a shape breaks the rule, or (n, c, h, w) and (n, h, w, c) both fit.
    """
    pixels = np.asarray(images)
    codes, names = _codes(labels, len(pixels), class_names)
    ids = torch.arange(len(pixels))
    return _image_data(pixels, codes, names, ids, None, torch.device(device), resident)


def embedding_data(
    rows: Any,
    labels: Any = None,
    class_names: Any = None,
    *,
    device: str | torch.device = "cpu",
    standardize: bool = False,
    resident: str = "auto",
) -> EmbeddingData:
    """Make a data set from embeddings.

    Parameters
    ----------
    rows : (n, d) array of floats, all finite.
    labels, class_names, device, resident : as in `image_data`.
    standardize : bool. Whether each column is brought to mean 0 and standard deviation 1.

    Raises
    ------
    InvalidTypeError
        If `rows` are not floats.
    InvalidValueError
        If the shape is not (n, d), or a value is infinite or NaN.
    """
    array = np.asarray(rows)
    codes, names = _codes(labels, len(array), class_names)
    common = (codes, names, torch.arange(len(array)), None, torch.device(device), resident)
    return _embedding_data(array, *common, standardize=standardize)


def _image_data(
    images: Array,
    codes: Tensor | None,
    class_names: tuple[str, ...],
    ids: Tensor,
    names: tuple[str, ...] | None,
    device: torch.device,
    resident: str,
) -> ImageData:
    pixels = channels_first(images)
    # torch wants memory that it may write to; an array read from a file may be read-only.
    tensor = torch.from_numpy(np.array(pixels, order="C"))
    stays = _is_resident(tensor, device, resident)
    tensor = tensor.to(device) if stays else tensor
    mean, std, background = (x.to(device) for x in image_statistics(tensor))
    return ImageData(
        images=tensor,
        labels=None if codes is None else codes.to(device),
        ids=ids.to(device),
        class_names=class_names,
        mean=mean,
        std=std,
        background=background,
        names=names,
        resident=stays,
    )


def _embedding_data(
    rows: Array,
    codes: Tensor | None,
    class_names: tuple[str, ...],
    ids: Tensor,
    names: tuple[str, ...] | None,
    device: torch.device,
    resident: str,
    *,
    standardize: bool,
) -> EmbeddingData:
    check_rows(rows)
    # A copy in memory, except of a file that is mapped: that is what mapping is for.
    tensor = torch.from_numpy(rows if isinstance(rows, np.memmap) else np.array(rows, order="C"))
    stays = _is_resident(tensor, device, resident)
    tensor = tensor.to(device) if stays else tensor
    mean, std = torch.zeros(rows.shape[1]), torch.ones(rows.shape[1])
    if standardize:
        mean, std = row_statistics(tensor)
    return EmbeddingData(
        rows=tensor,
        labels=None if codes is None else codes.to(device),
        ids=ids.to(device),
        class_names=class_names,
        mean=mean.to(device),
        std=std.to(device),
        names=names,
        resident=stays,
    )


def _codes(labels: Any, n: int, class_names: Any) -> tuple[Tensor | None, tuple[str, ...]]:
    return (None, ()) if labels is None else recode(np.asarray(labels), n, class_names)


def _is_resident(samples: Tensor, device: torch.device, resident: str) -> bool:
    if resident != "auto":
        return resident == "always"
    free = kind_of(device).free_memory(device)
    # Without a number, the host's memory holds them already.
    return free is None or samples.nbytes <= RESIDENT_SHARE * free


def _digest(samples: Tensor) -> str:
    every = max(1, len(samples) // 4096)  # of a large set, some samples say which set it is
    sample = samples[::every].cpu().contiguous().numpy()
    label = repr((len(samples), sample.shape)).encode()
    return hashlib.sha256(label + sample.tobytes()).hexdigest()


def _moved(fields: dict[str, Any], device: str | torch.device) -> dict[str, Any]:
    return {k: v.to(device) for k, v in fields.items() if isinstance(v, Tensor)}
