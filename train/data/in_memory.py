"""Samples that are kept in memory: images of one size, or embeddings, and what normalizes them.

They live on the training device where they fit it, else on the host or in their file; `pictures`
holds those that stay in files of their own.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .arrays import normalize
from .splits import Skipped

__all__ = ["EmbeddingData", "ImageData"]


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
    skipped : tuple of Skipped. Files that cannot be read, and are no samples.
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
    skipped: tuple[Skipped, ...] = ()

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


def _digest(samples: Tensor) -> str:
    every = max(1, len(samples) // 4096)  # of a large set, some samples say which set it is
    sample = samples[::every].cpu().contiguous().numpy()
    label = repr((len(samples), sample.shape)).encode()
    return hashlib.sha256(label + sample.tobytes()).hexdigest()


def _moved(fields: dict[str, Any], device: str | torch.device) -> dict[str, Any]:
    return {k: v.to(device) for k, v in fields.items() if isinstance(v, Tensor)}
