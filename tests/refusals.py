"""How a call is refused: by an error of ours, of this class, in these words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dualclust.algos.core.errors import DualclustError

__all__ = ["assert_refused", "message_of"]

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
