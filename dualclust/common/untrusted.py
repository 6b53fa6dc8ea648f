"""Rules for files of strangers: how much they may promise, and how one is refused.

A file may say anything of itself. What it says is compared with how long it is before a number of
it decides how much memory or disk is taken.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from ..algos.core.errors import DualclustError, InvalidValueError

__all__ = [
    "MOST_DOTS",
    "MOST_ENTRIES",
    "MOST_PACKED",
    "MOST_TEXT",
    "SMALL",
    "packed_too_much",
    "parse_json",
    "parse_toml",
    "read_toml",
    "refuse",
]

MOST_PACKED = 250
"""An array that becomes this many times as large is no data: noise packs to nine tenths."""

SMALL = 2**26
"""Bytes of an array whose packing does not matter."""

MOST_ENTRIES = 2**14
"""Entries of an archive of arrays."""

MOST_TEXT = 2**24
"""Bytes of a file of settings or of names."""

MOST_DOTS = 100
"""Dots in a key of TOML: ten thousand names in a row take its parser seconds, a million days."""

# Each name is taken once and never given back ("++", "*+"), so that no text takes long to search.
_DEEP_KEY = re.compile(
    r"""(?<![\w\\"'-])(?:(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{MOST_DOTS + 1}}}"
)


def refuse(
    name: object, found: str, rule: str, fix: str, kind: type[DualclustError] = InvalidValueError
) -> NoReturn:
    """Raise an error of four parts: the file, what it is or holds, the rule, and what to do."""
    msg = f"{name} {found}. {rule}. To fix this, {fix}"
    raise kind(msg)


def packed_too_much(promised: int, there: int) -> bool:
    """Whether a file promises far more bytes than it has, as one that is made to fill a disk does.

    Examples
    --------
    >>> packed_too_much(promised=10**9, there=10**6), packed_too_much(10**9, 10**8)
    (True, False)
    """
    return promised > SMALL and promised > MOST_PACKED * there


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of somebody else: each name once, and no deeper than Python can follow.

    Raises
    ------
    ValueError
        For whatever is wrong with it.

    Examples
    --------
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the name 'a' comes twice
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML of somebody else, no deeper than Python can follow.

    Raises
    ------
    ValueError
        For whatever is wrong with it.

    Examples
    --------
    >>> parse_toml("a = 1")
    {'a': 1}
    """
    msg = "it is nested too deeply"
    if _DEEP_KEY.search(text):
        raise ValueError(msg)
    try:
        found = tomllib.loads(text)
        repr(found)  # what messages show of it must not be nested too deeply either
    except RecursionError as error:
        raise ValueError(msg) from error
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file of settings, unless it is far too long for one.

    Raises
    ------
    OSError, ValueError
    """
    if (there := path.stat().st_size) > MOST_TEXT:
        msg = f"{there} bytes are too many for settings"
        raise ValueError(msg)
    return parse_toml(path.read_text(encoding="utf-8"))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            msg = f"the name {name[:60]!r} comes twice"
            raise ValueError(msg)
        found[name] = value
    return found
