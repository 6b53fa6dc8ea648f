"""Look at a data set before a run: how many samples, of what kind and size, without loading it.

Settings for data of one's own are chosen by this (`own_data`). Of many files, the heads of some are
read, evenly spread over all; nothing is decoded, and what cannot be opened is passed over. Of
embeddings the header is enough, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ...algos.core.errors import InvalidValueError
from .arrays import channels_first, check_rows, join
from .image_files import head_of
from .sources import choose, read_source
from .splits import Array, File, Reading, Split

__all__ = ["LOOKED_AT", "Look", "look_at"]

LOOKED_AT = 2048
"""Most files whose heads are read."""


class Look(NamedTuple):
    """What a data set is like.

    Attributes
    ----------
    kind : ``"files"`` (pictures, each in its file), ``"images"`` (an array) or ``"embeddings"``.
    n : int. Samples; of files, those that may yet turn out to be bad included.
    channels : int, 1 or 3; of embeddings 0.
    width, height : int, pixels. Of files, the medians.
    varied : bool. Whether files have several sizes.
    dim : int. Length of an embedding; 0 of images.
    folders : int. Sub-folders, at the first level, in which files lie.
    classes : bool. Whether the samples come with classes, for evaluation.
    """

    kind: str
    n: int
    channels: int = 0
    width: int = 0
    height: int = 0
    varied: bool = False
    dim: int = 0
    folders: int = 0
    classes: bool = False

    @property
    def side(self) -> int:
        """The shorter side of an image in pixels."""
        return min(self.width, self.height)

    def describe(self) -> str:
        """Return a line that says it.

        Examples
        --------
        >>> Look("files", 500, 3, 180, 135, varied=True, folders=4).describe()
        '500 pictures in color, 180 × 135 pixels (median), in 4 sub-folders'
        >>> Look("embeddings", 10000, dim=384).describe()
        '10,000 embeddings of 384 numbers'
        """
        if self.kind == "embeddings":
            return f"{self.n:,} embeddings of {self.dim:,} numbers"
        what = "pictures" if self.kind == "files" else "images"
        colors = "in color" if self.channels == 3 else "in gray"
        size = f"{self.width} × {self.height} pixels" + (" (median)" if self.varied else "")
        where = f", in {self.folders} sub-folders" if self.folders else ""
        return f"{self.n:,} {what} {colors}, {size}{where}"


def look_at(source: str | Path, *, split: str = "auto", folders: str = "names") -> Look:
    """Look at what `load_source` would load.

    Parameters
    ----------
    source : str or path. As of `load_source`.
    split, folders : str. See `config.DataConfig`.

    Raises
    ------
    MissingFileError, UsageError, InvalidTypeError, InvalidValueError
        As of `load_source`, but for files that cannot be decoded; those are an error only if none
        of the heads that are looked at can be read.
    """
    found = read_source(source, Reading(mapped=True, folders=folders))
    parts = choose(found, split, source)
    classes = all(part.labels is not None for part in parts)
    files = [file for part in parts if part.files is not None for file in part.files()]
    if files:
        return _look_at_files(files, parts)._replace(classes=classes)
    shapes = [part.shape for part in parts if part.shape is not None]
    if found.rows and len(shapes) == len(parts) and {len(s) for s in shapes} == {2}:
        n, dim = sum(s[0] for s in shapes), shapes[0][1]
        return Look("embeddings", n, dim=dim, classes=classes)
    samples: Array = join([part.read() for part in parts], "samples")
    if found.rows:
        check_rows(samples)
        return Look("embeddings", len(samples), dim=samples.shape[1], classes=classes)
    n, channels, height, width = channels_first(samples).shape
    return Look("images", n, channels, width, height, classes=classes)


def _look_at_files(files: Sequence[File], parts: Sequence[Split]) -> Look:
    some = min(len(files), LOOKED_AT)
    heads, last = [], None
    for i in range(some):
        try:
            heads.append(head_of(files[i * len(files) // some]))
        except InvalidValueError as error:
            last = str(error)  # the error itself would hold what it has read
    if last is not None and not heads:
        msg = f"none of {some} pictures can be opened; the last one: {last}"
        raise InvalidValueError(msg)
    sizes = [size for _, size in heads]
    names = [name for part in parts for name in part.names or ()]
    return Look(
        "files",
        len(files),
        1 if all(gray for gray, _ in heads) else 3,
        round(median(width for width, _ in sizes)),
        round(median(height for _, height in sizes)),
        varied=len(set(sizes)) > 1,
        folders=len({name.partition("/")[0] for name in names if "/" in name}),
    )
