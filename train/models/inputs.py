"""What a model is asked about, brought to batches: arrays, tensors, pictures, files of a data set.

Arrays need nothing but NumPy (`arrays`). Pictures are decoded by Pillow, with the cut that
evaluation sees; both that and the readers of data sets (`sources`) are loaded when they are needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ...algos.core.errors import InvalidTypeError, MissingExtraError
from ...common.extras import needs_train
from .arrays import Inputs, of_array
from .spec import InputSpec

__all__ = ["inputs_of"]


def inputs_of(
    data: Any, spec: InputSpec, *, split: str = "auto", workers: int = 0, bad: str = "stop"
) -> Inputs:
    """Turn what a user has into samples of a model.

    Parameters
    ----------
    data : array or tensor; a path or several paths of pictures; or a path that
        `data.load_source` takes: a folder, an archive, an ``.npz`` or ``.npy`` file.
    spec : InputSpec
    split : str. Of a source that comes split; see `config.DataConfig`.
    workers : int. Threads that decode pictures; 0: one for each CPU.
    bad : ``"stop"`` or ``"skip"``. Whether files of a folder that cannot be decoded are an error,
        when they are read, or left out, which takes decoding all of them first.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UsageError, MissingFileError
        If the samples are not what the model was made for. Of numbers that are NaN or infinite:
        when they are read.
    MissingExtraError
        If pictures are to be decoded and Pillow is missing.
    """
    listed = isinstance(data, (list, tuple)) and len(data) > 0
    if isinstance(data, (str, Path)) or (
        listed and all(isinstance(one, (str, Path)) for one in data)
    ):
        return _of_paths(data, spec, split, workers, bad)
    if isinstance(data, Tensor):
        return of_array(data.detach().cpu(), spec)
    try:
        array = np.asarray(data)
    except (ValueError, TypeError) as error:
        msg = f"data must be an array, a tensor or paths, got {type(data).__name__}: {error}"
        raise InvalidTypeError(msg) from error
    return of_array(array, spec)


def _of_paths(data: Any, spec: InputSpec, split: str, workers: int, bad: str) -> Inputs:
    """Samples in files, by the readers of pictures and data sets, which need Pillow."""
    try:
        from .sources import of_files, of_path
    except ModuleNotFoundError as error:
        msg = needs_train("pictures and data sets", error.name, or_else="pass an array")
        raise MissingExtraError(msg) from error
    if isinstance(data, (str, Path)):
        return of_path(data, spec, split=split, workers=workers, bad=bad)
    return of_files([Path(one) for one in data], spec, workers=workers)
