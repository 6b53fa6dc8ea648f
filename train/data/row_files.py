"""Embeddings in the files that ``dualclust cluster`` reads, and labels beside them.

That command has options for what a file leaves open: which columns, which array, of which type.
Training has none of them, so that a message about a file says what helps here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...algos.core.errors import DualclustError
from ...common.array_headers import PARSING, check_array_file
from ...common.formats import file_of, look_at, open_rows
from .splits import Array, Source, Split, damaged

__all__ = ["labels_beside", "row_source", "rows_of"]


def row_source(path: Path) -> Source:
    """Look at embeddings of a format of `common.formats`.

    Raises
    ------
    DualclustError
        As `formats.open_rows`, with remedies for training.
    """
    with _remedies_here():
        n, d = look_at(path)
    shape = None if n is None else (n, d)
    split = Split(lambda: rows_of(path), labels_beside(file_of(path)), shape=shape)
    return Source({"all": split}, rows=True)


def rows_of(path: Path) -> Array:
    """Read embeddings of a format of `common.formats`."""
    with _remedies_here():
        rows = open_rows(path)
        return rows.rows(0, rows.n_samples)


def labels_beside(path: Path) -> Array | None:
    """Read the labels of a file of embeddings, if the user gives some."""
    file = path.with_name(f"{path.stem}_labels.npy")
    if not file.is_file():
        return None
    with damaged(file):
        check_array_file(file)
        with PARSING:
            labels: Array = np.load(file, allow_pickle=False)
    return labels


HERE = (
    (r"name one of these with --array, or as (\S+)", r"name one: \1"),
    (r", or --array \S+", ""),
    (r"--array is for", "':NAME' is for"),
    (
        r"leave out --array \(or the ':NAME' after the file\)",
        "leave out the ':NAME' after the file",
    ),
    (r"drop these rows with --invalid drop", "leave these rows out of the file"),
    (r", and its id where --id asks for one", ""),
)
"""Words of messages that name options of ``dualclust cluster``, and what is said here."""

OPTION = re.compile(r"(?<!\w)--[a-z]+")
SAVED = "save the numbers that you mean, a row for each sample: np.save('X.npy', rows)"
"""What helps where only an option of that command would say what a file holds."""


@contextmanager
def _remedies_here() -> Iterator[None]:
    """Let the messages of errors say what can be done in training."""
    try:
        yield
    except DualclustError as error:
        text = str(error)
        for pattern, said in HERE:
            text = re.sub(pattern, said, text)
        found, to_fix, remedy = text.partition("To fix this, ")
        error.args = (f"{found}{to_fix}{SAVED}" if OPTION.search(remedy) else text,)
        raise
