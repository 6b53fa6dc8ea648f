"""Every loss, every array and every number of it: what does not fit is an error that names it.

A call that works is taken, and one argument after the other is replaced: by whole numbers or by
fractions, by an array that is one longer along an axis, by one of another library, and by numbers
at both ends of their range and just outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import (
    DeviceMismatchError,
    DualclustError,
    InvalidTypeError,
    InvalidValueError,
)
from tests.refusals import message_of
from tests.unit.loss_calls import CASES


def leaves(arguments: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays with an axis, by the argument's name or that of a tuple's part, ``"online.valid"``."""
    for name, value in arguments.items():
        parts = value._asdict().items() if hasattr(value, "_asdict") else [("", value)]
        for part, array in parts:
            if isinstance(array, np.ndarray) and array.ndim:
                yield f"{name}.{part}".rstrip("."), array


def replaced(arguments: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, _, part = path.partition(".")
    return arguments | {name: arguments[name]._replace(**{part: value}) if part else value}


def each(kind: str) -> pytest.MarkDecorator:
    """One test for each loss that has arguments of a kind."""
    return pytest.mark.parametrize("name", [n for n, case in CASES.items() if getattr(case, kind)])


def named(message: str, path: str) -> bool:
    """Whether a message begins with an argument, or with the part of one."""
    whole, _, part = path.partition(".")
    return message.startswith(tuple(f"{name} must " for name in {whole, part, path} - {""}))


@pytest.mark.parametrize("name", CASES)
def test_the_calls_that_are_changed_work(name):
    case = CASES[name]
    case.call(**case.arguments)


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_another_kind_are_named(name):
    """Whole numbers where there are fractions, and the other way round."""
    case = CASES[name]
    for path, array in leaves(case.arguments):
        if array.dtype == bool or path in case.any_kind.split():
            continue
        wrong = array.astype(np.float64 if array.dtype == np.int64 else np.int64)
        told = message_of(InvalidTypeError, case.call, **replaced(case.arguments, path, wrong))
        assert named(told, path), (path, told)
        assert "dtype" in told


@pytest.mark.parametrize("name", CASES)
def test_an_axis_of_another_length_is_refused(name):
    case = CASES[name]
    for path, array in leaves(case.arguments):
        for axis in range(array.ndim):
            if f"{path}.{axis}" in case.free.split():
                continue
            longer = np.concatenate([array, array.take([0], axis=axis)], axis=axis)
            told = message_of(
                InvalidValueError, case.call, **replaced(case.arguments, path, longer)
            )
            assert any(named(told, other) for other, _ in leaves(case.arguments)), (path, told)


@each("placed")
def test_arrays_of_two_libraries_are_refused(name):
    case = CASES[name]
    arrays = dict(leaves(case.arguments))
    for together in case.placed.split():
        arguments = case.arguments
        for path in together.split("+"):
            arguments = replaced(arguments, path, torch.from_numpy(arrays[path].copy()))
        message_of(DeviceMismatchError, case.call, **arguments)


@each("numbers")
def test_numbers_lie_in_their_ranges(name):
    case = CASES[name]
    for argument, (inside, outside) in case.numbers.items():
        for value in inside:
            case.call(**case.arguments | {argument: value})
        for value in outside:
            told = message_of(DualclustError, case.call, **case.arguments | {argument: value})
            assert told.startswith(f"{argument} must "), told
