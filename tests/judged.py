"""Passes what public functions return to `tests.judge`, wherever a test or doctest calls them.

`observe` gives a function object other code: it calls the old code, hands arguments and result to
the judge, and returns the result. The object stays the same, in all modules that hold it, with its
name, signature and docstring. Calls inside a call that is judged are not judged themselves: what
they find is part of the outer result; but `survey` is, whose figures others print as shares.

`TALLY` counts each name and how it was judged: "exact", "interval", "part" for the rows of a rank
that are judged together with those of the others once all have come, or why it was not judged.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from dualclust.algos.core.errors import InfeasibleBoundsError
from tests.judge_calls import JUDGES, OF_PROOFS, PIECES, on_host

TALLY: Counter[tuple[str, str]] = Counter()
NESTED = {"survey"}
OPEN = {"train", "resume"}
"""Functions inside which calls are judged as well."""

UNREADABLE = "values that no program can read yet"

_here, _why = threading.local(), [""]


def through(*args: Any, **kwargs: Any) -> Any:
    """Call what stands in the place of the name below."""
    judged = "JUDGED"
    return judged(*args, **kwargs)  # type: ignore[operator]


def observe(function: types.FunctionType, judge: Callable[[dict[str, Any], Any], str]) -> None:
    """Judge all that a function returns from now on."""
    name, code = function.__name__, function.__code__
    assert not code.co_freevars, f"{name} is a closure"
    inner = types.FunctionType(code, function.__globals__, name, function.__defaults__)
    functools.update_wrapper(inner, function)
    del inner.__wrapped__  # type: ignore[attr-defined]
    inner.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(inner)

    def tell(found: Any, /, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        with np.errstate(all="ignore"):
            TALLY[name, _judgment(judge, given.arguments, found)] += 1

    def judged(*args: Any, **kwargs: Any) -> Any:
        depth = getattr(_here, "depth", 0)
        if depth and name not in NESTED:
            return inner(*args, **kwargs)
        if _why[0]:
            TALLY[name, f"not judged: {_why[0]}"] += 1
            return inner(*args, **kwargs)
        _here.depth = depth + (name not in OPEN)
        try:
            found = inner(*args, **kwargs)
            tell(found, *args, **kwargs)
        except InfeasibleBoundsError as error:
            tell(error, *args, **kwargs)
            raise
        finally:
            _here.depth = depth
        return found

    names = tuple(judged if const == "JUDGED" else const for const in through.__code__.co_consts)
    function.__wrapped__ = inner  # type: ignore[attr-defined]
    function.__code__ = through.__code__.replace(co_consts=names, co_name=code.co_name)


def _judgment(
    judge: Callable[[dict[str, Any], Any], str], given: dict[str, Any], found: Any
) -> str:
    try:
        read = {name: on_host(value) for name, value in given.items()}, on_host(found)
    except (RuntimeError, TypeError, ValueError) as error:
        return f"not judged: {UNREADABLE}: {type(error).__name__}"
    if isinstance(found, InfeasibleBoundsError) and judge not in OF_PROOFS:
        return "not judged: an error of a call inside, which names what it proves"
    return judge(*read)


def install() -> None:
    """Observe all functions that have a judge, once in a process."""
    for place, judge in JUDGES.items():
        module, _, name = place.partition(":")
        if module.startswith("train") and find_spec("torch") is None:
            continue
        function = getattr(importlib.import_module(f"dualclust.{module}"), name)
        if not hasattr(function, "__wrapped__"):
            observe(function, judge)


@contextmanager
def unjudged(reason: str) -> Iterator[None]:
    """Judge nothing, and count why not."""
    _why[0] = reason
    try:
        yield
    finally:
        _why[0] = ""
        PIECES.clear()  # of ranks whose rows never came together


def lines() -> list[list[Any]]:
    """Return the tally as plain lists."""
    return [[name, way, times] for (name, way), times in TALLY.items()]


def add(more: list[list[Any]]) -> None:
    """Add the `lines` of another process."""
    for name, way, times in more:
        TALLY[name, way] += times


def text() -> str:
    """Return a line for each way in which results were judged, or why they were not."""
    total: Counter[str] = Counter()
    for (_, way), times in TALLY.items():
        total[way] += times
    return "\n".join(f"{times:9,d} {way}" for way, times in total.most_common())
