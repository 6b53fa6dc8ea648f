"""Samples of a run: images or embeddings, with classes, names and what normalizes them.

Small data sets fit the device's memory whole, images as ``uint8``: there is no loader to wait for,
and an epoch is a permutation of ids. What does not fit stays in the host's memory or in its file
and is fetched ahead of the step (`prefetch`). Photographs of which a run shows random crops stay in
their files, whole (`pictures`). Labels, where a source has them, are for evaluation **only**; no
step of a training run reads them.

===============  =================================================================================
source           what it is
===============  =================================================================================
``"digits"``     scikit-learn's 1797 handwritten digits, 8 × 8, gray; built in
``FILE.npz``     ``images``: uint8 of shape (n, h, w), (n, h, w, c) or (n, c, h, w), c = 1 or 3;
                 optional ``labels`` (n,) and ``class_names``
``FILE.npz``     ``train_images``, ``train_labels``, ``test_images``, ``test_labels``, as MNIST is
                 often stored; `split` chooses
``FILE.npz``     ``train_jpeg``, ``train_offsets``, ``train_labels``: JPEG files one after another
``FILE.npy``     embeddings, float (n, d); classes from ``FILE_labels.npy``, where it is there
a folder         of image files, in sub-folders or not; see `image_files`
a folder         with the binary files of a published set, such as CIFAR-10; see `archives`
===============  =================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ...algos.core.errors import InvalidValueError
from ...common.devices import kind_of
from ..config.run import MOST_PIXELS
from .arrays import (
    channels_first,
    check_rows,
    image_statistics,
    join,
    normalize,
    recode,
    row_statistics,
)
from .copies import copies_of
from .image_files import decode_files
from .in_memory import EmbeddingData, ImageData
from .long_tail import subset
from .pictures import PictureData, picture_data, sound_files
from .sources import choose, read_source, stay_whole
from .splits import Array, Reading, Skipped, Split

__all__ = [
    "EmbeddingData",
    "ImageData",
    "Samples",
    "embedding_data",
    "feature_data",
    "image_data",
    "load_source",
    "normalize",
]

# Share of a device's free memory that samples may take, besides the network and its activations.
RESIDENT_SHARE = 0.6


Samples: TypeAlias = ImageData | PictureData | EmbeddingData
"""What `load_source` returns: images in memory, pictures in their files, or embeddings."""


def load_source(
    source: str | Path,
    *,
    split: str = "auto",
    device: str | torch.device = "cpu",
    seed: int = 0,
    limit: int = 0,
    imbalance: float = 1.0,
    classes: str = "fine",
    folders: str = "names",
    bad: str = "skip",
    max_pixels: int = MOST_PIXELS,
    size: int = 0,
    fit: str = "crop",
    decode: str = "once",
    copy_side: int = 0,
    workers: int = 0,
    standardize: bool = False,
    resident: str = "auto",
    counted: Callable[[int], None] | None = None,
) -> Samples:
    """Load a data set by name or path.

    Parameters
    ----------
    source : str or path. See the table at the top of this module.
    split, limit, imbalance, classes, folders, bad, max_pixels, size : see `config.DataConfig`.
    fit, workers, standardize, resident : see `config.DataConfig`.
    decode : str. ``"once"``; ``"views"``; ``"copies"``; or ``"auto"``: ``"views"`` if the source is
        picture files and `size` is set. Whether the run shows random crops is for the caller to
        know.
    copy_side : int, 0 or more. Shorter side of copies; 0: twice `size`.
    device : where training runs.
    seed : int. The run's seed, which draws the subsets of `limit` and `imbalance`.
    counted : callable, optional. Gets the number of samples before they are decoded, where it is
        certain by then; what it raises ends the reading.

    Returns
    -------
    data : ImageData; EmbeddingData of a file of embeddings; PictureData of files that stay whole.

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
    reading = Reading(classes, size, resident == "never", fit, folders, max_pixels)
    found = read_source(source, reading)
    parts = choose(found, split, source)
    whole = stay_whole(parts, decode, size, source)
    stored = _stored(parts)
    codes: Tensor | None = None
    titles: tuple[str, ...] = ()
    if all(part.labels is not None for part in parts):
        # One code for a class in all splits, whichever of them have a sample of it.
        every = [part.labels for part in found.splits.values() if part.labels is not None]
        chosen = join([part.labels for part in parts if part.labels is not None], "labels")
        n = len(chosen) if stored is None else stored
        codes, titles = recode(chosen, n, found.class_names, join(every, "labels"))
    drawing: dict[str, Any] = {"imbalance": imbalance, "limit": limit, "seed": seed}
    if counted is not None and stored is not None:
        if bad == "stop" or all(part.files is None for part in parts):
            counted(len(subset(stored, codes, **drawing)))
        elif imbalance == 1.0 and 0 < 2 * limit <= stored:
            # Unless more than half of the files are damaged, as many are left as `limit` keeps.
            counted(limit)
    side = (copy_side or 2 * size) if decode == "copies" else 0
    samples, places, skipped = _read_samples(parts, reading, whole, bad, side, workers)
    codes = None if codes is None else codes[places]
    kept = subset(len(samples), codes, **drawing)
    if len(kept) < len(samples):
        samples = [samples[i] for i in kept.tolist()] if whole else samples[kept.numpy()]
        codes = None if codes is None else codes[kept]
    ids, names = places[kept], None
    if all(part.names is not None for part in parts):
        every_name = [name for part in parts for name in part.names or ()]
        names = tuple(every_name[i] for i in ids.tolist())
    if whole:
        cutting: dict[str, Any] = {"size": size, "fit": fit, "workers": workers, "device": device}
        return picture_data(samples, codes, ids, titles, names, **cutting, skipped=skipped)
    common = (codes, titles, ids, names, torch.device(device), resident)
    if found.rows:
        return _embedding_data(samples, *common, standardize=standardize)
    return _image_data(samples, *common)._replace(skipped=skipped)


def _stored(parts: list[Split]) -> int | None:
    """Samples that the headers tell of, damaged ones included; None where one does not tell."""
    shapes = [part.shape for part in parts if part.shape]
    return sum(shape[0] for shape in shapes) if len(shapes) == len(parts) else None


def _read_samples(
    parts: list[Split], reading: Reading, whole: bool, bad: str, copy_side: int, workers: int
) -> tuple[Any, Tensor, tuple[Skipped, ...]]:
    """Return samples, or files that stay whole; their places among all; and what was left out."""
    unread = tuple(one for part in parts for one in part.unread)
    if unread and bad == "stop":
        msg = f"{unread[0].name}: {unread[0].reason}. To fix this, set data.bad='skip'"
        raise InvalidValueError(msg)
    if any(part.files is None for part in parts):
        samples = join([part.read() for part in parts], "images")
        return samples, torch.arange(len(samples)), unread
    files = [file for part in parts if part.files is not None for file in part.files()]
    skip = bad == "skip"
    if not whole:
        images, places, skipped = decode_files(files, reading, skip=skip)
        return images, torch.from_numpy(places), unread + skipped
    if copy_side:
        copies, places, skipped = copies_of(files, copy_side, skip=skip, workers=workers)
        return copies, torch.from_numpy(places), unread + skipped
    if not skip:
        return files, torch.arange(len(files)), unread
    good, skipped = sound_files(files, workers)
    return [files[i] for i in good], torch.tensor(good), unread + skipped


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


def feature_data(
    data: Samples,
    rows: Tensor,
    *,
    device: str | torch.device = "cpu",
    standardize: bool = False,
    resident: str = "auto",
) -> EmbeddingData:
    """Make a data set of features of other samples, with their classes, ids and names.

    Parameters
    ----------
    data : Samples
    rows : (n, d) float tensor on the CPU.
    device, standardize, resident : as in `embedding_data`.
    """
    labels = None if data.labels is None else data.labels.cpu()
    common = (labels, data.class_names, data.ids.cpu(), data.names, torch.device(device), resident)
    return _embedding_data(rows.numpy(), *common, standardize=standardize)


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
