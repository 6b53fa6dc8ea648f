"""The rules for files of all formats, and how a file is refused."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...algos.core.errors import (
    InvalidTypeError,
    MissingExtraError,
    UsageError,
)
from ..extras import without_cuda
from ..untrusted import refuse
from .rows import Part, Selection

__all__ = [
    "Array",
    "check_ids",
    "check_numbers",
    "check_shape",
    "listed",
    "load_extra",
    "pick_array",
    "refuse",
    "refuse_options",
]

LISTED = 8
"""Most names in a message."""

BENCHMARK = {"train", "test", "neighbors", "distances"}
"""Arrays of a file of ann-benchmarks.com: the vectors are in the first."""


class Array(NamedTuple):
    """What a header says of one array: its dtype, as a name, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape)) or "a single number"
        return f"{self.dtype}, {size}"


def load_extra(module: str, extra: str, name: object, reader: str) -> Any:
    """Import an optional library.

    Raises
    ------
    MissingExtraError
        If it is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        hint = without_cuda(library) if extra == "train" else ""
        msg = (
            f"{name} is {reader}, which needs {library}, and {library} is not installed. "
            f"To fix this: pip install 'dualclust[{extra}]'{hint}"
        )
        raise MissingExtraError(msg) from error


NO_NUMBERS = {
    "O": (
        "Python objects, which only a pickle can bring back",
        "save the numbers as one array: np.save('X.npy', np.stack(rows).astype(np.float32))",
    ),
    "c": (
        "complex numbers",
        "save real and imaginary parts as columns: np.concatenate([x.real, x.imag], axis=1)",
    ),
    "M": ("dates", "save embeddings instead, or numbers made of the dates"),
    "m": ("time spans", "save embeddings instead, or numbers made of the time spans"),
    "S": ("text", "save embeddings of the text, or convert digits: x.astype(np.float32)"),
    "U": ("text", "save embeddings of the text, or convert digits: x.astype(np.float32)"),
    "V": (
        "raw bytes of no type that NumPy knows, as bfloat16 becomes in an .npy file",
        "save them as numbers: x.astype(np.float32)",
    ),
}


def check_numbers(name: object, dtype: np.dtype[Any]) -> None:
    """Refuse what is no real number.

    Raises
    ------
    InvalidTypeError
    """
    if dtype.kind in "fiub":
        return
    found, fix = NO_NUMBERS[dtype.kind]
    if dtype.names:
        found = f"records with the fields {listed(dtype.names)}"
        fix = "save the fields as columns: np.stack([x[f] for f in x.dtype.names], axis=1)"
    shown = "" if dtype.names else f" ({dtype})"
    refuse(name, f"holds {found}{shown}", "Embeddings are real numbers", fix, InvalidTypeError)


def check_shape(name: object, shape: tuple[int, ...]) -> None:
    """Refuse what is no table of at least one row and one column.

    Raises
    ------
    InvalidValueError
    """
    rule = "Embeddings have the shape (n, d), with at least one row and one column"
    found = f"has the shape {shape}"
    if len(shape) == 0:
        refuse(name, "holds a single number", rule, "save one row for each sample")
    if len(shape) == 1:
        fix = "save it as x.reshape(-1, d), or as x[:, None] if each row is one number"
        refuse(name, found, rule, fix)
    if len(shape) > 2:
        fix = "make each sample one row: x.reshape(len(x), -1), or a mean over an axis"
        refuse(name, found, rule, fix)
    if shape[0] == 0:
        refuse(name, f"{found}: no rows", rule, "look at the program that wrote it")
    if shape[1] == 0:
        refuse(name, f"{found}: rows without numbers", rule, "look at the program that wrote it")


def pick_array(
    name: object,
    arrays: Mapping[str, Array],
    wanted: str,
    *,
    beside: tuple[str | None, ...] = (),
    what: str = "array",
    option: str = "--array",
) -> tuple[str, Part]:
    """Return the array that the user wants, or the only one that can be meant.

    Parameters
    ----------
    name : object
        The file.
    arrays : mapping from names to arrays
    wanted : str
        Empty if the user names none.
    beside : tuple of str
        Names of ids and the like, which are no rows.
    what, option : str
        Words for messages.

    Returns
    -------
    name : str
    part : Part
        It, and the other arrays of the file.

    Raises
    ------
    InvalidValueError
        If there is none of that name, or several of two axes and no name.
    """
    arrays = {key: array for key, array in arrays.items() if key not in beside}
    chosen = _chosen(name, arrays, wanted, what, option)
    left = (key for key in arrays if key != chosen)
    return chosen, Part(what, (chosen,) if chosen else (), tuple(left))


def _chosen(name: object, arrays: Mapping[str, Array], wanted: str, what: str, option: str) -> str:
    if not arrays:
        rule = f"It must hold one {what} of shape (n, d)"
        refuse(name, f"holds no {what}", rule, "look at the program that wrote it")
    shown = "; ".join(f"{key!r} ({array})" for key, array in list(arrays.items())[:LISTED])
    shown += f"; and {len(arrays) - LISTED} more" if len(arrays) > LISTED else ""
    tables = [key for key, array in arrays.items() if len(array.shape) == 2]
    example = max(tables or arrays, key=lambda key: _likely(arrays[key]))
    if wanted:
        if wanted in arrays:
            return wanted
        rule = f"It holds {shown}"
        fix = f"name one of these with {option}"
        fix += f", or as {name}:{example}" if option == "--array" else ", or leave --id out"
        refuse(name, f"has no {what} {wanted!r}", rule, fix)
    if len(arrays) == 1:
        return next(iter(arrays))
    if len(tables) == 1:
        return tables[0]
    if arrays.keys() >= BENCHMARK:
        return "train"
    if not tables:
        rule = f"One of them must have the shape (n, d), and there are {shown}"
        refuse(name, f"holds {len(arrays)} {what}s", rule, "look at the program that wrote it")
    rule = f"Only one can be clustered, and {len(tables)} have the shape (n, d): {shown}"
    fix = f"name one: {name}:{example}, or --array {example}"
    refuse(name, f"holds {len(arrays)} {what}s", rule, fix)


def _likely(array: Array) -> tuple[bool, int]:
    """Return how likely an array is that of the embeddings: floats, and many of them."""
    return "float" in array.dtype.lower() or array.dtype[:1] == "F", math.prod(array.shape)


def check_ids(name: object, dtype: np.dtype[Any], shape: tuple[int, ...], n: int) -> None:
    """Refuse ids that are not one whole number or text for each row.

    Raises
    ------
    InvalidValueError
    """
    if shape != (n,) or dtype.kind not in "iuSU":
        rule = f"Ids are one whole number or text for each of the {n} rows"
        found = f"gives ids of type {dtype} and shape {shape}"
        refuse(name, found, rule, "name another array with --id, or leave --id out")


def refuse_options(name: object, what: str, selection: Selection, allowed: str) -> None:
    """Refuse options that say nothing about this kind of file.

    Parameters
    ----------
    name : object
    what : str
        The kind of file, with its article.
    selection : Selection
    allowed : str
        Names of the fields of `Selection` that the reader uses, with spaces between.

    Raises
    ------
    UsageError
    """
    places = {
        "array": ("--array", "files of several arrays: .npz, .pt, .safetensors, .h5"),
        "columns": ("--columns", "tables: .parquet, .arrow, .feather, .csv, .tsv"),
        "id": ("--id", "tables, and for .npz and .h5 files"),
        "dtype": ("--dtype", "raw numbers, with --dim, and for .csv and .tsv files"),
        "dim": ("--dim", "raw numbers, with --dtype"),
        "offset": ("--offset", "raw numbers, with --dtype and --dim"),
    }
    for field, (option, where) in places.items():
        if field not in allowed.split() and getattr(selection, field) not in (None, "", ()):
            fix = f"leave out {option} (or the ':NAME' after the file)"
            fix = fix if field == "array" else f"leave out {option}"
            refuse(name, f"is {what}", f"{option} is for {where}", fix, UsageError)


def listed(names: Any) -> str:
    """Return names in quotes, with commas, the first few of many."""
    names = list(names)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(repr(str(each)) for each in names[:LISTED]) + more
