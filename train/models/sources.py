"""Pictures and data sets as samples of a model: the readers of training, without its statistics."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...algos.core.errors import InvalidValueError, MissingFileError, UsageError
from ..augment.crops import Cut, plain_cut
from ..data.arrays import join
from ..data.folders import SUFFIXES
from ..data.picture_files import cut_picture, opened, picture_size, shrunk, upright
from ..data.pictures import Decoders, sound_files
from ..data.sources import choose, read_source
from ..data.splits import Array, File, Reading
from .arrays import Inputs, of_array
from .spec import InputSpec

__all__ = ["of_files", "of_path"]


def of_path(
    data: str | Path, spec: InputSpec, *, split: str, workers: int, bad: str = "stop"
) -> Inputs:
    """Take a picture, or a source of `data.load_source`, as samples; see `inputs.inputs_of`."""
    path = Path(data)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return of_files([path], spec, workers=workers)
    # Neither size nor fit: pictures are cut one by one below, and arrays stay as they are.
    parts = choose(read_source(data, Reading(mapped=True)), split, data)
    names: tuple[str, ...] | None = None
    if all(part.names is not None for part in parts):
        names = tuple(name for part in parts for name in part.names or ())
    if spec.is_image and all(part.files is not None for part in parts):
        files = [file for part in parts if part.files is not None for file in part.files()]
        known = names or tuple(file.name for file in files)
        if bad == "stop":
            return _pictures(files, spec, workers, known)
        good, skipped = sound_files(files, workers)
        skipped = (*(one for part in parts for one in part.unread), *skipped)
        kept = _pictures([files[i] for i in good], spec, workers, tuple(known[i] for i in good))
        return kept._replace(skipped=skipped)
    array = join([part.read() for part in parts], "samples")
    if (array.dtype == np.uint8) != spec.is_image:
        made, held = ("images", "embeddings") if spec.is_image else ("embeddings", "images")
        msg = (
            f"{data} holds {held}, and the model was trained on {made}. "
            f"To fix this, name {made} of shape {spec.shape}"
        )
        raise UsageError(msg)
    return of_array(array, spec, str(data))._replace(names=names)


def of_files(paths: Sequence[Path], spec: InputSpec, *, workers: int) -> Inputs:
    """Take pictures by their paths as samples; see `inputs.inputs_of`."""
    if not spec.is_image:
        msg = (
            f"{paths[0]} is a picture, and the model was trained on embeddings of {spec.shape[0]} "
            f"numbers. To fix this, name an .npy file of them"
        )
        raise UsageError(msg)
    for path in paths:
        if not path.is_file():
            msg = f"no picture at {path}. To fix this, look at the path"
            raise MissingFileError(msg)
    names = tuple(map(str, paths))
    # Absolute: the files are read later, maybe from another folder.
    files = [File(str(path), str(path.absolute())) for path in paths]
    return _pictures(files, spec, workers, names)


def _pictures(
    files: Sequence[File], spec: InputSpec, workers: int, names: tuple[str, ...]
) -> Inputs:
    """Decode files some at a time."""
    c, h, w = spec.shape

    def read(start: int, stop: int) -> Tensor:
        views = np.empty((stop - start, h, w, c), np.uint8)

        def fill(row: int) -> None:
            views[row] = _picture(files[start + row], spec)

        with closing(Decoders(workers)) as decoders:
            decoders.each(fill, stop - start)
        return torch.from_numpy(views).permute(0, 3, 1, 2)

    return Inputs(len(files), read, names)


def _picture(file: File, spec: InputSpec) -> Array:
    """Decode one picture, by the cut that evaluation sees: (h, w, c) uint8."""
    c, h, w = spec.shape

    def plan(width: int, height: int) -> list[Cut]:
        return [plain_cut(width, height, size=h, fit=spec.fit)]

    if spec.fit != "none":
        if spec.copy_side:
            file = File(file.name, shrunk(file, spec.copy_side, channels=c))
        return cut_picture(file, plan, channels=c)[0]
    with opened(file) as image:
        if picture_size(image) != (w, h):
            across, down = picture_size(image)
            msg = (
                f"{file.name} has {across} × {down} pixels, and the model was trained on images of "
                f"{w} × {h}, without a rule for others. To fix this, resize it, or train with "
                f"data.size={h}"
            )
            raise InvalidValueError(msg)
        return np.asarray(upright(image, gray=c == 1)).reshape(h, w, c)
