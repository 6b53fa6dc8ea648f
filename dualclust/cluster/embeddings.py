"""Rows of files (`formats`) as a source of features, read a block at a time.

Which rows a rank reads is decided by `row_group`, and their order by `algos.scores.blocks`.
`check_embeddings` reads every value once before the clustering starts. A bad row therefore ends the
run in its first seconds, and the error gives its number.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import UsageError
from ..algos.core.projections import project_sphere
from ..algos.scores.blocks import MOST_ROWS
from ..algos.scores.sources import FeatureSource, Group, alone
from ..common.formats import Rows, Selection, open_rows
from ..common.formats.checks import refuse
from .exchange import take_over_ranks
from .threads import Multiply

__all__ = [
    "check_embeddings",
    "check_path",
    "embedding_source",
    "invalid_rows",
    "open_embeddings",
]

Floats = NDArray[np.floating[Any]]


def open_embeddings(path: Path, selection: Selection | None = None) -> Rows:
    """Open a file of (n, d) real numbers, or several (`formats`).

    Raises
    ------
    MissingFileError
        If there is no file at `path`.
    InvalidTypeError, InvalidValueError
        If the file is damaged or of an unknown format, holds no real numbers, is not 2-D or is
        empty.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(path, np.eye(3, dtype=np.float16))
    >>> rows = open_embeddings(path)
    >>> rows.n_samples, rows.rows(1, 2)
    (3, array([[0., 1., 0.]], dtype=float32))
    """
    return open_rows(path, selection, unit=MOST_ROWS)


def check_embeddings(
    rows: Rows, metric: str, group: Group | None = None, *, digest: bool = False
) -> str:
    """Check every value of this rank's rows once.

    Parameters
    ----------
    rows : Rows
    metric : {"cosine", "euclidean"}
        "cosine" refuses a zero row, which has no direction.
    group : Group, optional
        Which rows are this rank's.
    digest : bool
        Whether to compute the hash, which costs time.

    Returns
    -------
    str
        A hash of all values, the same for any number of ranks; empty without `digest`.

    Raises
    ------
    InvalidValueError
        On every rank, with the first wrong row of the file and the number of wrong rows.
    """
    group = alone(rows.n_samples) if group is None else group
    bad, zero, hashed = _look(rows, group, digest=digest)
    found = [_summary(parts) for parts in (bad, zero)]
    bad_rows, zero_rows = group.gather(np.asarray([found])).transpose(1, 0, 2)
    if count := int(bad_rows[:, 1].sum()):
        where = _places(rows.where(_first(bad_rows)), count)
        rule = "Embeddings are finite numbers"
        fix = "drop these rows (--invalid drop), or look at the program that wrote them"
        refuse(rows.name, f"holds NaN or infinity {where}", rule, fix)
    if (count := int(zero_rows[:, 1].sum())) and metric == "cosine":
        where = _places(rows.where(_first(zero_rows)), count)
        rule = "A row of zeros has no direction, which --metric cosine compares"
        fix = "drop these rows (--invalid drop), or choose --metric euclidean"
        refuse(rows.name, f"holds only zeros {where}", rule, fix)
    return hashed


def invalid_rows(
    rows: Rows, metric: str, group: Group, *, digest: bool = False
) -> tuple[NDArray[np.int64], str]:
    """Find the rows that `check_embeddings` would refuse, in one pass over this rank's rows.

    Returns
    -------
    invalid : (m,) int64 array
        Their numbers, ascending, the same on all ranks.
    digest : str
        As of `check_embeddings`.
    """
    bad, zero, hashed = _look(rows, group, digest=digest)
    own = np.concatenate([np.empty(0, np.int64), *bad, *(zero if metric == "cosine" else [])])
    invalid: NDArray[np.int64] = np.unique(group.gather(own))
    return invalid, hashed


def _look(
    rows: Rows, group: Group, *, digest: bool
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], str]:
    """Return the rows of this rank that are not finite, those of zeros, and a hash of all rows."""
    bad: list[NDArray[np.int64]] = []
    zero: list[NDArray[np.int64]] = []
    hashes = np.zeros((-(-group.n_local // MOST_ROWS), 32), dtype=np.uint8)
    for i, start in enumerate(range(0, group.n_local, MOST_ROWS)):
        first = group.first_row + start
        block = rows.rows(first, first + min(MOST_ROWS, group.n_local - start))
        bad.append(np.flatnonzero(~np.isfinite(block).all(axis=1)) + first)
        zero.append(np.flatnonzero(~block.any(axis=1)) + first)
        if digest:
            hashes[i] = np.frombuffer(hashlib.sha256(block.data).digest(), dtype=np.uint8)
    hashed = hashlib.sha256(group.gather(hashes).data).hexdigest() if digest else ""
    return bad, zero, hashed


def embedding_source(
    rows: Rows,
    metric: str,
    group: Group | None = None,
    *,
    device: str = "cpu",
    multiply: Multiply | None = None,
) -> FeatureSource:
    """Return rows as a source: of unit length for "cosine", as stored for "euclidean".

    Parameters
    ----------
    rows : Rows
    metric : {"cosine", "euclidean"}
    group : Group, optional
        Which rows are this rank's: it reads no others. Rows by id are read by the rank whose they
        are and sent to all, so all ranks ask for them together.
    device : str
        "cpu" gives NumPy arrays, any other device gives tensors there.
    multiply : callable, optional
        How NumPy arrays are multiplied (`products`); torch multiplies tensors.
    """
    group = alone(rows.n_samples) if group is None else group
    first = group.first_row

    def finish(block: Floats) -> Any:
        points = project_sphere(block) if metric == "cosine" and len(block) else block
        if device == "cpu":
            return points
        import torch

        return torch.from_numpy(points).to(device)

    def take(ids: Any) -> Any:
        numbers = ids if isinstance(ids, np.ndarray) else ids.cpu().numpy()
        return finish(take_over_ranks(rows.take, group, numbers))

    source = FeatureSource(
        rows.n_features,
        lambda start, stop: finish(rows.rows(first + start, first + stop)),
        take,
        group,
    )
    return source if multiply is None or device != "cpu" else source._replace(multiply=multiply)


def check_path(option: str, path: Path) -> None:
    """Refuse a path that names no file: no name, a NUL, or too long for the file system.

    Raises
    ------
    UsageError
    """
    text = str(path)
    why = f"got {text!r}, which names no file"
    if path.name:
        try:
            path.stat()
            return
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError) as error:  # a name too long or a loop of links; a NUL
            why = f"got {text[:60]!r}: {getattr(error, 'strerror', None) or error}"
    msg = f"{option} must be the path of a file or folder, {why}. To fix this, give another path"
    raise UsageError(msg)


def _summary(parts: list[NDArray[np.int64]]) -> tuple[int, int]:
    """Return the first row, or -1 if there is none, and the number of rows."""
    ids = np.concatenate([np.empty(0, np.int64), *parts])
    return (int(ids[0]) if len(ids) else -1), len(ids)


def _first(found: NDArray[np.int64]) -> int:
    return int(found[found[:, 1] > 0, 0][0])


def _places(first: str, count: int) -> str:
    return f"in {first}" if count == 1 else f"in {count} rows, the first of them {first}"
