"""Pictures that stay in their files: each view is cut out of the whole picture when it is needed.

Images that are kept on a device or in memory have one size and have lost what lay beyond it. A
random crop of a photograph must come from all of it, at the file's resolution, so that each epoch
decodes the files anew. Threads do that ahead of the step (`loop.prefetch`), since the decoder
releases Python's lock (`Decoders`); memory does not depend on the number of pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...common.cores import cpu_count
from ..augment.crops import Cut, plain_cut, random_cut
from .arrays import image_statistics, normalize
from .image_files import all_gray, parted, tried
from .picture_files import check_file, cut_picture
from .splits import Array, File, Skipped

__all__ = [
    "STATISTICS",
    "Decoders",
    "PictureData",
    "PlainImages",
    "Wanted",
    "picture_data",
    "sound_files",
]

# Pictures that mean, deviation and background are computed of, evenly spread over the data.
STATISTICS = 1024


class Wanted(NamedTuple):
    """A view to be cut out of each picture of a batch.

    Attributes
    ----------
    size : int. Side of the view.
    numbers : (b, `crops.NUMBERS`) float64 array of uniform numbers, which place a random crop of
        each picture; None: the plain picture, as `PictureData.fit` says.
    crop, ratio : (float, float). Of a random crop; see `crops.random_cut`.
    """

    size: int
    numbers: Array | None = None
    crop: tuple[float, float] = (1.0, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def cut(self, row: int, width: int, height: int, fit: str) -> Cut:
        """Where this view of picture `row` of the batch lies."""
        if self.numbers is None:
            return plain_cut(width, height, size=self.size, fit=fit)
        numbers = self.numbers[row].tolist()
        return random_cut(width, height, numbers, size=self.size, crop=self.crop, ratio=self.ratio)


class Decoders:
    """Threads that work on the pictures of one batch at a time.

    Parameters
    ----------
    workers : int, 0 or more. Threads; 0: one for each CPU that this process may use.
    """

    def __init__(self, workers: int) -> None:
        self.pool = ThreadPoolExecutor(workers or cpu_count(), "decode")

    def each(self, function: Callable[[int], None], n: int) -> None:
        """Call a function with 0 … n-1; raises what went wrong with the first that failed."""
        futures: list[Future[None]] = [self.pool.submit(function, i) for i in range(n)]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Drop what has not begun and wait for what has; nothing can be asked for any more."""
        self.pool.shutdown(wait=True, cancel_futures=True)


class PictureData(NamedTuple):
    """A data set of pictures in their files. Its interface is that of `data.ImageData`.

    Attributes
    ----------
    files : tuple of File, one for each sample.
    labels, ids, class_names, mean, std, background, names : as in `data.ImageData`; mean, std and
        background are those of the plain pictures, of `STATISTICS` of them if there are more.
    size : int. Side of a plain picture in pixels.
    channels : int, 1 where all files are gray, else 3.
    fit : str. How a whole picture becomes a square; see `crops.plain_cut`.
    workers : int. Threads that decode; see `Decoders`.
    content : str. What `digest` returns.
    skipped : tuple of Skipped. Files that cannot be read, and are no samples.
    """

    files: tuple[File, ...]
    labels: Tensor | None
    ids: Tensor
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    background: Tensor
    names: tuple[str, ...] | None
    size: int
    channels: int
    fit: str
    workers: int
    content: str
    skipped: tuple[Skipped, ...] = ()

    @property
    def resident(self) -> bool:
        """False: the samples are in their files."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one plain image, (c, size, size)."""
        return self.channels, self.size, self.size

    @property
    def images(self) -> PlainImages:
        """The plain images, decoded where they are asked for: for galleries."""
        return PlainImages(self)

    def cut(
        self, ids: Sequence[int], wanted: Sequence[Wanted], decoders: Decoders
    ) -> tuple[Tensor, ...]:
        """Views of a batch, each picture decoded once.

        Parameters
        ----------
        ids : b positions.
        wanted : the views of each picture.
        decoders : Decoders

        Returns
        -------
        views : one (b, c, size, size) uint8 tensor for each of `wanted`, on the CPU.

        Raises
        ------
        InvalidValueError
            If a file cannot be decoded; the message names it.
        """
        shapes = [(len(ids), view.size, view.size, self.channels) for view in wanted]
        views = [np.empty(shape, np.uint8) for shape in shapes]

        def fill(row: int) -> None:
            def plan(width: int, height: int) -> list[Cut]:
                return [view.cut(row, width, height, self.fit) for view in wanted]

            found = cut_picture(self.files[ids[row]], plan, channels=self.channels)
            for array, view in zip(views, found, strict=True):
                array[row] = view

        decoders.each(fill, len(ids))
        return tuple(torch.from_numpy(array).permute(0, 3, 1, 2) for array in views)

    def fetch(self, ids: Tensor) -> Tensor:
        """Return the plain images of these positions, uint8, on the CPU."""
        with closing(Decoders(self.workers)) as decoders:
            (images,) = self.cut(ids.tolist(), [Wanted(self.size)], decoders)
        return images

    def finish(self, rows: Tensor) -> Tensor:
        """Normalize views, once they are on the training device."""
        return normalize(rows.contiguous(), self.mean, self.std)

    def take(self, ids: Tensor) -> Tensor:
        """Return the normalized float32 plain images of these positions, on the training device."""
        return self.finish(self.fetch(ids).to(self.mean.device))

    def digest(self) -> str:
        """Return a hash that says which pictures these are, and what is cut from them."""
        return self.content

    def to(self, device: str | torch.device) -> PictureData:
        """Copy every tensor to `device`."""
        fields = self._asdict().items()
        moved: dict[str, Any] = {k: v.to(device) for k, v in fields if isinstance(v, Tensor)}
        return self._replace(**moved)


class PlainImages:
    """The plain images of a `PictureData` by their positions, like a (n, c, h, w) uint8 tensor."""

    dtype = torch.uint8
    device = torch.device("cpu")

    def __init__(self, data: PictureData) -> None:
        self.data = data
        self.shape = (len(data.files), *data.shape)

    def __len__(self) -> int:
        return len(self.data.files)

    def __getitem__(self, index: slice | Sequence[int] | Tensor) -> Tensor:
        return self.data.fetch(torch.arange(len(self))[index])

    def cpu(self) -> PlainImages:
        """Return itself: files are decoded on the CPU."""
        return self


def picture_data(
    files: Sequence[File],
    labels: Tensor | None,
    ids: Tensor,
    class_names: tuple[str, ...],
    names: tuple[str, ...] | None,
    *,
    size: int,
    fit: str = "crop",
    workers: int = 0,
    device: str | torch.device = "cpu",
    skipped: tuple[Skipped, ...] = (),
) -> PictureData:
    """Make a data set of files; decodes `STATISTICS` of them.

    Parameters
    ----------
    files : n files.
    labels, ids, class_names, names, size, fit, workers, skipped : as in `PictureData`.
    device : where training runs. The tensors go there.

    Raises
    ------
    InvalidValueError
        If a file that is looked at cannot be decoded.
    """
    channels = 1 if all_gray(files) else 3
    start = PictureData(
        tuple(files), labels, ids, class_names, *(torch.zeros(channels),) * 3, names,
        size, channels, fit, workers, "", skipped,
    )  # fmt: skip
    some = _spread(len(files), STATISTICS)
    mean, std, background = image_statistics(start.fetch(some))
    data = start._replace(
        mean=mean, std=std, background=background, content=_digest(start, some.tolist())
    )
    return data.to(device)


def sound_files(files: Sequence[File], workers: int = 0) -> tuple[list[int], tuple[Skipped, ...]]:
    """Decode every file, to know before a run which of them it has to do without.

    Parameters
    ----------
    files : sequence of File
    workers : int, 0 or more. As of `Decoders`.

    Returns
    -------
    positions, skipped : list of int, and the files that cannot be decoded.

    Raises
    ------
    InvalidValueError
        If none can.
    """
    check = partial(tried, lambda i: check_file(files[i]), True)
    with ThreadPoolExecutor(workers or cpu_count(), "check") as pool:
        return parted(files, dict(enumerate(pool.map(check, range(len(files))))))


def _spread(n: int, count: int) -> Tensor:
    """`count` positions of n, evenly spread, or all if there are no more."""
    some = min(n, count)
    return torch.arange(some) * n // some


def _digest(data: PictureData, some: Sequence[int]) -> str:
    """Hash of the bytes of some files, and of all that says how they are cut."""
    label = repr((len(data.files), data.shape, data.fit))
    found = hashlib.sha256(label.encode())
    for i in some:
        found.update(hashlib.sha256(data.files[i].read()).digest())
    return found.hexdigest()
