"""`message_of` and `assert_refused` themselves can fail."""

from __future__ import annotations

import pytest

from dualclust.algos.core.errors import (
    DeviceMismatchError,
    DualclustError,
    InvalidTypeError,
    InvalidValueError,
)
from tests.refusals import LONGEST, assert_refused, message_of


def refuse(error: Exception | None) -> None:
    if error is not None:
        raise error


def test_the_message_comes_back() -> None:
    error = InvalidValueError("k must be at least 1, got 0")
    assert message_of(InvalidValueError, refuse, error) == "k must be at least 1, got 0"
    assert message_of(DualclustError, refuse, error=error) == "k must be at least 1, got 0"
    assert_refused(InvalidValueError, r"at least \d", refuse, error)


@pytest.mark.parametrize(
    ("raised", "expected", "why"),
    [
        (DeviceMismatchError("k"), InvalidValueError, "DeviceMismatchError, expected Invalid"),
        (ValueError("k"), ValueError, "ValueError is not an error of ours"),
        (InvalidTypeError("k\n"), InvalidTypeError, "k\n"),
        (InvalidTypeError("k" * LONGEST), InvalidTypeError, "kkk"),
        (InvalidTypeError("n is missing"), InvalidTypeError, "'k' is not in 'n is missing'"),
    ],
    ids=["a subclass", "not of ours", "two lines", "long", "other words"],
)
def test_a_wrong_refusal_is_seen(raised: Exception, expected: type[Exception], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert_refused(expected, "k", refuse, raised)


def test_an_error_of_another_kind_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        message_of(InvalidValueError, refuse, ZeroDivisionError())


def test_a_call_that_is_not_refused_is_seen() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        message_of(InvalidValueError, refuse, None)
