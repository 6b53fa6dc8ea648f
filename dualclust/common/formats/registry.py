"""Which reader opens which file: the end of its name and its first bytes must agree."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...algos.core.errors import MissingFileError, UsageError
from .checks import refuse
from .copies import copy_rows
from .delimited import open_text
from .hdf5 import open_hdf5
from .kinds import Kind, kind_of
from .npy import open_npy, open_raw
from .npz import open_npz
from .parquet_arrow import open_arrow, open_parquet
from .plain import PlainRows
from .rows import Ids, Rows, Selection, Stream
from .shards import JoinedRows, check_widths, left_out, shards_of
from .tensors import open_safetensors, open_torch
from .unpacked import suffix_of
from .vectors import HEADED, RECORDS, open_headed, open_records, structure_of
from .words import open_word2vec

__all__ = ["FORMATS", "Format", "default_folder", "file_of", "look_at", "open_ids", "open_rows"]


class Format(NamedTuple):
    """A format of files.

    Attributes
    ----------
    what : str
        What such a file is, for messages.
    suffixes : tuple of str
        Ends of names, in small letters; the first is the usual one.
    kinds : tuple of str
        Keys of the `kinds.Kind` that such a file has.
    read : callable
    """

    what: str
    suffixes: tuple[str, ...]
    kinds: tuple[str, ...]
    read: Callable[[Path, Selection], PlainRows | Stream]


TEXTS = (".csv", ".tsv", ".txt", ".vec", ".dat")
ANY = "any"
"""In the place of kinds: the format has no magic bytes, and its reader looks at the structure."""

FORMATS = (
    Format("an .npy file", (".npy",), ("npy",), open_npy),
    Format("an .npz archive", (".npz",), ("npz",), open_npz),
    Format("a Parquet file", (".parquet", ".pq"), ("parquet",), open_parquet),
    Format(
        "an Arrow file or stream",
        (".arrow", ".feather", ".ipc", ".arrows"),
        ("arrow", "stream"),
        open_arrow,
    ),
    Format("text in UTF-8", TEXTS, ("text",), open_text),
    Format("a PyTorch file", (".pt", ".pth"), ("torch",), open_torch),
    Format("a .safetensors file", (".safetensors",), ("safetensors",), open_safetensors),
    Format("an HDF5 file", (".h5", ".hdf5", ".he5", ".h5ad", ".hdf", ".mat"), ("hdf5",), open_hdf5),
    Format("a file of vectors, each with its length", (*RECORDS,), (ANY,), open_records),
    Format("a file of vectors behind their shape", (*HEADED,), (ANY,), open_headed),
    Format("a word2vec file", (".w2v",), ("word2vec",), open_word2vec),
)

SUFFIXES = {suffix for format in FORMATS for suffix in format.suffixes}
"""Ends of names of files that are read."""

READ = "These formats are read: " + ", ".join(format.suffixes[0] for format in FORMATS)


def open_rows(place: Path, selection: Selection | None = None, *, unit: int | None = None) -> Rows:
    """Open a file of embeddings, or the files of a folder or a pattern.

    Parameters
    ----------
    place : Path
        ``X.npz:NAME`` names an array of a file; a pattern has ``*``, ``?`` or ``[``.
    selection : Selection, optional
        What to read.
    unit : int, optional
        Of the shares of ranks, in rows, where each reads those of its own share alone.

    Raises
    ------
    MissingFileError
        If there is no such file.
    InvalidTypeError, InvalidValueError
        If a file is damaged, is something else than its name says, or has no rows of real numbers.
    MissingExtraError
        If a library that reads the format is not installed.
    UsageError
        If an option says nothing about this format.
    OutputError
        If there is no space for a temporary copy.
    """
    place, parts = _parts(place, selection)
    if place.is_file():
        [part] = parts
        if isinstance(part, PlainRows):
            return part
        return copy_rows(part.name, [part], part.ids, files=[place], part=part.part)
    ids = None if parts[0].ids is None else _joined_ids(parts)
    joined = parts[0].part
    joined = joined._replace(left_out=(*joined.left_out, *left_out(place, SUFFIXES)))
    plain = [part for part in parts if isinstance(part, PlainRows)]
    if len(plain) == len(parts):
        edges = np.asarray(list(accumulate((part.n_samples for part in plain), initial=0)))
        wide = any(part.dtype == np.float64 for part in plain)
        dtype = np.dtype(np.float64 if wide else np.float32)
        return JoinedRows(str(place), list(plain), edges, dtype, ids, joined)
    if selection is not None and selection.drop:
        unit = None  # rows that stay move to other shares
    return copy_rows(
        str(place), parts, ids, files=shards_of(place, SUFFIXES), part=joined, unit=unit
    )


def open_ids(place: Path, selection: Selection) -> Ids:
    """Return the ids of rows without their numbers, and without copying anything.

    Raises
    ------
    DualclustError
        As `open_rows`.
    """
    _, parts = _parts(place, selection)
    return _joined_ids(parts)


def look_at(place: Path, selection: Selection | None = None) -> tuple[int | None, int]:
    """Raise what `open_rows` raises for the beginnings of files, without copying anything.

    Returns
    -------
    n_samples : int or None
        Number of rows, if headers tell it.
    n_features : int
        Numbers per row.
    """
    _, parts = _parts(place, selection)
    lengths = [part.n_samples for part in parts]
    known = [n for n in lengths if n is not None]
    return sum(known) if len(known) == len(lengths) else None, parts[0].n_features


def file_of(place: Path) -> Path:
    """Return the file that ``X.npz:NAME`` names an array of; other places as they are.

    Examples
    --------
    >>> file_of(Path("X.npz:emb"))  # there is no such file
    PosixPath('X.npz:emb')
    """
    return _split_name(place, Selection())[0]


def default_folder(place: Path, ending: str = "-clusters") -> Path:
    """Return the folder for the results: beside the input, of the same name and an ending.

    Examples
    --------
    >>> [str(default_folder(Path(p))) for p in ("a/X.npy", "X.npz:emb", "a/x-*.npy", "a/*.npy")]
    ['a/X-clusters', 'X-clusters', 'a/x-clusters', 'a-clusters']
    """
    file, _ = _split_name(place, Selection())
    if file == place and not place.exists() and ":" in place.name and not _is_pattern(place.name):
        file = place.with_name(place.name.partition(":")[0])
    while _is_pattern(file.name):
        stem = file.stem.partition("*")[0].partition("?")[0].partition("[")[0].rstrip("-_. ")
        file = file.with_name(stem) if stem else file.parent
        file = file if file.name else Path(file.absolute().name)
    stem = file.name if file.is_dir() else file.stem.removesuffix(suffix_of(file))
    return file.with_name(f"{stem}{ending}")


def _is_pattern(text: str) -> bool:
    """Tell whether a path stands for several files."""
    return glob.has_magic(text)


def _split_name(place: Path, selection: Selection) -> tuple[Path, Selection]:
    """Split ``X.npz:NAME`` where there is a file X.npz and none of the whole name."""
    text = str(place)
    if place.exists() or ":" not in text:
        return place, selection
    for i in (i for i, letter in enumerate(text) if letter == ":"):
        file, name = Path(text[:i]), text[i + 1 :]
        if text[:i] and name and (file.exists() or _is_pattern(text[:i])):
            if selection.array and selection.array != name:
                msg = f"--array {selection.array} and {text} name two arrays. To fix this, name one"
                raise UsageError(msg)
            return file, selection._replace(array=name)
    return place, selection


def _parts(place: Path, selection: Selection | None) -> tuple[Path, list[PlainRows | Stream]]:
    """Open the only file, or all shards."""
    place, selection = _split_name(place, selection or Selection())
    if place.is_file():
        return place, [_open_file(place, selection)]
    if not place.is_dir() and not _is_pattern(str(place)):
        msg = f"no file at {place}. To fix this, look at the path, and put a pattern in quotes"
        raise MissingFileError(msg)
    _refuse_stores(place)
    parts = [_open_file(path, selection) for path in shards_of(place, SUFFIXES)]
    check_widths(str(place), parts)
    return place, parts


def _open_file(path: Path, selection: Selection) -> PlainRows | Stream:
    suffix = suffix_of(path)
    by_name = next((f for f in FORMATS if suffix in f.suffixes), None)
    of_text = suffix in (*TEXTS, "")
    numbers = selection.dim is not None or selection.offset is not None
    if numbers or (selection.dtype and not of_text):
        return open_raw(path, selection)
    if by_name is not None and ANY in by_name.kinds:
        return by_name.read(path, selection)
    try:
        kind = kind_of(path)
    except OSError as error:
        found = f"cannot be opened ({error.strerror or error})"
        refuse(path, found, "The file must be there to be read", "look at who may read it")
    by_content = next((f for f in FORMATS if kind.key in f.kinds), None)
    if by_name is not None and kind.key in by_name.kinds:
        return by_name.read(path, selection)
    named = by_name is None and suffix != ""  # text without an ending may be that of a pipe
    if by_name is None and by_content is not None and not (named and kind.key == "text"):
        return by_content.read(path, selection)
    _refuse_kind(path, kind, by_name, by_content)


def _refuse_kind(
    path: Path, kind: Kind, by_name: Format | None, by_content: Format | None
) -> NoReturn:
    rule = READ
    if by_name is not None:
        rule = f"A file whose name ends in {path.suffix} must be {by_name.what}"
    if kind.key == "text":
        fix = f"rename it to {path.with_suffix('.txt').name} if each of its lines is a row"
        refuse(path, "is text", rule, fix)
    if by_content is not None:
        fix = f"rename it to {path.with_suffix(by_content.suffixes[0]).name}"
        refuse(path, f"is {kind.what}, by its first bytes", rule, fix)
    if kind.key == "unknown" and (suffix := structure_of(path)):
        fix = f"rename it to {path.with_suffix(suffix).name}"
        refuse(path, f"is built like {suffix}", rule, fix)
    refuse(path, f"is {kind.what}", rule, kind.fix)


def _refuse_stores(place: Path) -> None:
    """Refuse folders that are one array each, and no shards."""
    zarr = (".zarray", ".zgroup", "zarr.json")
    if any((place / name).exists() for name in zarr):
        fix = "write it as .npy, or as HDF5, a block at a time"
        refuse(place, "is a Zarr store, which is not read", READ, fix)


def _joined_ids(parts: list[Any]) -> Ids:
    def ids() -> Iterator[Any]:
        for part in parts:
            yield from part.ids()

    return ids
