"""A bad input, and what must happen: an error of ours that says what to do, and nothing written."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dualclust.algos.core.errors import DualclustError

__all__ = ["Bad", "Verdict", "judged"]

LONGEST = 1200
"""Letters of a message."""


class Bad(NamedTuple):
    """One bad input.

    Attributes
    ----------
    name : str
        Of one kind, one argument and one way to be wrong.
    call : callable
        Gets the folder, and must be refused.
    about : str
        What the message must name: the argument or the file.
    write : callable or None
        Writes what `call` reads, into the folder.
    """

    name: str
    call: Callable[[Path], Any]
    about: str
    write: Callable[[Path], Any] | None = None


class Verdict(NamedTuple):
    """What is to be complained of in a bad input, and the processor's seconds that it took."""

    complaints: list[str]
    seconds: float


def judged(bad: Bad, folder: Path) -> Verdict:
    """Give a bad input to the library.

    Parameters
    ----------
    bad : Bad
    folder : Path
        Empty.
    """
    if bad.write is not None:
        bad.write(folder)
    before, began = _state(folder), time.process_time()
    complaints = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="PIL")  # which warns, and then fails
        try:
            bad.call(folder)
            complaints.append("it was taken")
        except DualclustError as error:
            complaints += _complaints(str(error), bad.about)
        except (Exception, SystemExit) as error:
            complaints.append(f"{type(error).__name__} is not an error of ours: {error}")
    seconds = time.process_time() - began
    if _state(folder) != before:
        complaints.append("something was written")
    return Verdict([text[:400] for text in complaints], seconds)


def _complaints(text: str, about: str) -> list[str]:
    found = []
    if "To fix" not in text:
        found.append(f"no fix: {text}")
    if about not in text:
        found.append(f"{about!r} is not named: {text}")
    if "\n" in text or len(text) > LONGEST:
        found.append(f"{len(text)} letters, {text.count(chr(10))} line breaks: {text[:80]}")
    return found


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all that lies in a folder; links are not followed."""
    paths = sorted(folder.rglob("*"))
    states = [(path, os.lstat(path)) for path in paths]
    return [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]
