"""How a call is refused: by an error of ours, of this class, in these words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dualclust.algos.core.errors import DualclustError

__all__ = ["assert_refused", "is_refusal", "message_of"]

LONGEST = 400


Expected = type[Exception] | tuple[type[Exception], ...]


def message_of(error: Expected, call: Callable[..., Any], /, *args: Any, **options: Any) -> str:
    """Return the message with which the call is refused: one line, of a bearable length.

    The class must be `error` itself, no subclass; `DualclustError` stands for any of ours, and a
    tuple for what is or derives from one of its classes.
    """
    with pytest.raises(error) as caught:
        call(*args, **options)
    kind, text = type(caught.value), str(caught.value)
    assert issubclass(kind, DualclustError), f"{kind.__name__} is not an error of ours"
    if isinstance(error, type) and error is not DualclustError:
        assert kind is error, f"{kind.__name__}, expected {error.__name__}"
    assert "\n" not in text, text
    assert len(text) < LONGEST, text
    return text


def assert_refused(
    error: Expected, words: str, call: Callable[..., Any], /, *args: Any, **options: Any
) -> None:
    """Fail unless the call is refused by `error`, with `words` (a pattern) in its message."""
    text = message_of(error, call, *args, **options)
    assert re.search(words, text), f"{words!r} is not in {text!r}"


FIXES = frozenset(
    {
        "call its to_dense()",
        "convert it to float32 or float64",
        "convert one of them",
        "drop or fill the masked entries",
        "drop or impute that entry",
        "give one for each cluster",
        "give one of them",
        "lower them",
        "move one of them",
        "number the clusters from 0",
        "pass 0 or more",
        "pass a larger one",
        "pass a module, e.g. numpy or torch",
        "pass a number in there",
        "pass a smaller one",
        "pass a whole number",
        "pass an array of numbers",
        "pass an int or a float",
        "pass one of these",
        "use a ratio of at most 1",
        "use int64",
        "widen the bounds",
    }
)
"""Ways out that messages share; a message of one place only is compared whole."""

OF_SHAPES = re.compile(
    r"transpose it|reshape it to (1 axis|\d axes)"
    r"|make axis \d of length \d+"
)
"""Ways out that `check_shape` finds; test_checks says which it is for which shape."""


def is_refusal(message: str, wrong: str) -> bool:
    """Say whether a message is what is wrong, to the letter, and one of the known ways out.

    Where `wrong` has its own way out, the message is just that.
    """
    if ". To fix this, " in wrong:
        return message == wrong
    said, _, fix = message.partition(". To fix this, ")
    return said == wrong and (fix in FIXES or OF_SHAPES.fullmatch(fix) is not None)
