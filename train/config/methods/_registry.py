"""The table of the methods' settings, which each module of this folder enters by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..schema import Checked

__all__ = ["METHOD_OPTIONS", "register_options", "with_method_tables"]

Options = TypeVar("Options", bound=Checked)
Record = TypeVar("Record", bound=type)

METHOD_OPTIONS: dict[str, type[Checked]] = {}
"""The record of each method's own settings, by the method's name."""


def register_options(name: str) -> Callable[[type[Options]], type[Options]]:
    """Make a record the settings of the method `name`: a table of that name in a recipe.

    The module must be ``train/config/methods/NAME.py``, and ``train/methods/NAME`` hold the method.
    """

    def enter(options: type[Options]) -> type[Options]:
        METHOD_OPTIONS[name] = options
        return options

    return enter


def with_method_tables(record: Record) -> Record:
    """Give a record, before it becomes a dataclass, a field for each method's settings or None."""
    for name, options in METHOD_OPTIONS.items():
        record.__annotations__[name] = options | None
        setattr(record, name, None)
    return record
