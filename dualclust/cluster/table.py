"""``--table``: one line for each row, with its id, its cluster and its other choices."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.choices import RowChoices
from ..algos.core.errors import InvalidValueError, UsageError
from ..common.files import write_file
from ..common.formats import Ids
from ..common.tables import check_table_path, csv_text

__all__ = ["WORD", "check_table", "written_table"]

WORD = "word"
"""Column of the ids that a format has by itself: words of GloVe and word2vec."""

COLUMNS = ("cluster", "margin", "runner_up", "free_choice")
LINES = 2**16
"""Lines written at a time."""


def check_table(path: Path, key: str | None) -> None:
    """Refuse a table that could not be written.

    Raises
    ------
    UsageError
        For another suffix than those of a table, or ids under the name of another column.
    OutputError
        If there is something at `path`.
    MissingExtraError
        If the library that writes it is missing.
    """
    hint = ". Labels alone are in labels.npy of the output folder"
    check_table_path(path, "--table", hint=hint if path.suffix.lower() == ".npy" else "")
    if key in COLUMNS:
        msg = f"--table has a column {key!r} of its own. To fix this, rename the column of ids"
        raise UsageError(msg)


@contextmanager
def written_table(
    path: Path | None,
    labels: NDArray[np.int64],
    choices: RowChoices | None,
    key: str | None,
    ids: Ids | None,
) -> Iterator[None]:
    """Write the table if one is wanted, and take it away again if what is inside fails.

    Parameters
    ----------
    path : Path or None
        Without a path nothing happens.
    labels : (n,) int64 array
        -1 for rows that are dropped, whose other columns than the id are empty.
    choices : RowChoices or None
        Of all rows (`notable`).
    key : str or None
        Name of the column of ids; without ids, the column "row" has the numbers of the rows.
    ids : callable or None
    """
    if path is None or choices is None:
        yield
        return
    parts = _lines(path, labels, ids)
    name = "row" if ids is None else key or WORD
    made = _csv(name, parts, labels, choices)
    if path.suffix.lower() != ".csv":
        made = _arrow(path.suffix.lower(), name, parts, labels, choices)
    write_file(path, made, parents=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _lines(path: Path, labels: NDArray[np.int64], ids: Ids | None) -> Iterator[tuple[int, Any]]:
    """Yield the ids with the number of the first of them, some at a time."""
    if ids is None:
        for start in range(0, len(labels), LINES):
            yield start, np.arange(start, min(len(labels), start + LINES))
        return
    start = 0
    for part in ids():
        yield start, part
        start += len(part)
    if start != len(labels):
        msg = (
            f"{path} would have {len(labels)} lines, and the input has {start} ids by now. To fix "
            f"this, let nobody write to it while it is read"
        )
        raise InvalidValueError(msg)


def _csv(
    name: str, parts: Iterator[tuple[int, Any]], labels: NDArray[np.int64], choices: RowChoices
) -> Iterator[bytes]:
    for i, (start, part) in enumerate(parts):
        own = part.tolist() if isinstance(part, np.ndarray) else part.to_pylist()
        own = [each.decode() if isinstance(each, bytes) else each for each in own]
        some = slice(start, start + len(own))
        rest = (labels[some], choices.runner_up[some], choices.free[some])
        own_labels, others, free = (["" if m < 0 else m for m in x.tolist()] for x in rest)
        margins = ["" if m == math.inf else m for m in choices.margin[some].tolist()]
        columns = own, own_labels, margins, others, free
        named = dict(zip((name, *COLUMNS), columns, strict=True))
        yield csv_text(named, is_named=i == 0).encode()


class _Sink(io.RawIOBase):
    """Keeps what a writer of pyarrow hands over, until it is taken."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.parts.append(bytes(content))
        return len(self.parts[-1])

    def taken(self) -> bytes:
        content = b"".join(self.parts)
        self.parts.clear()
        return content


def _arrow(
    suffix: str,
    name: str,
    parts: Iterator[tuple[int, Any]],
    labels: NDArray[np.int64],
    choices: RowChoices,
) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink, writer = _Sink(), None
    missing = choices.runner_up < 0
    for start, part in parts:
        own = part
        if isinstance(part, np.ndarray):
            own = pa.array(np.char.decode(part) if part.dtype.kind == "S" else part)
        some = slice(start, start + len(own))
        columns = [
            own,
            pa.array(labels[some], mask=labels[some] < 0),
            pa.array(choices.margin[some], mask=missing[some]),
            pa.array(choices.runner_up[some], mask=missing[some]),
            pa.array(choices.free[some], mask=choices.free[some] < 0),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[name, *COLUMNS])
        if writer is None:
            make = parquet.ParquetWriter if suffix == ".parquet" else pa.ipc.new_file
            writer = make(sink, batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()
