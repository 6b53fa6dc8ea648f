"""The rows of the table as things to call: an engine and the library whose arrays it takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from dualclust.backends import TABLE
from tests.libraries import IMMUTABLE, LIBRARIES, Library


class Row(NamedTuple):
    """One row of the table."""

    library: str
    device: str
    target: str

    def arrays(self) -> Library:
        """The library for this row; the CPU stands in for a CUDA device that is not there."""
        if self.library != "torch":
            known = (*LIBRARIES, *IMMUTABLE)
            return next(library for library in known if library.name.startswith(self.library))
        import array_api_compat.torch
        import torch

        there = self.device != "cuda" or torch.cuda.is_available()
        device = torch.device(self.device if there else "cpu")
        return Library(f"torch:{device}", array_api_compat.torch, device)

    def engine(self) -> Callable[..., Any]:
        """The engine, by its address: on the CPU, dispatch would choose another for a CUDA row."""
        module, _, function = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"dualclust.backends.{module}"), function)
        return found


def rows_of(kernel: str) -> list[Row]:
    """The rows of one kernel whose libraries are installed; `tests.libraries` has each of them."""
    rows = [Row(*place, target) for place, target in TABLE[kernel].items()]
    return [row for row in rows if find_spec(row.library) is not None]


def row_id(row: Row) -> str:
    """Name of a row in test ids."""
    return f"{row.library}-{row.device}"
