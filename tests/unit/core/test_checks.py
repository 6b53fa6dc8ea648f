"""Checks of arguments: what passes, and what the messages name."""

import math
import sys

import array_api_compat as compat
import array_api_strict
import numpy as np
import pytest
import torch

from dualclust.algos.core import checks
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from tests.refusals import is_refusal, message_of


def test_shape_is_returned_where_it_fits(xp):
    assert checks.check_shape("x", xp.asarray(np.zeros((2, 3))), ("n", 3)) == (2, 3)
    assert checks.check_shape("x", xp.asarray(1.0), ()) == ()


@pytest.mark.parametrize(
    ("axes", "wanted", "fix"),
    [
        (("n",), "(n,)", "reshape it to 1 axis"),
        (("n", 4), "(n, 4)", "make axis 1 of length 4"),
        ((5, 4), "(5, 4)", "make axis 0 of length 5"),
        (("n", 2), "(n, 2)", "transpose it"),
        ((3, 2), "(3, 2)", "transpose it"),
        (("n", 3, "d"), "(n, 3, d)", "reshape it to 3 axes"),
        ((), "()", "reshape it to 0 axes"),
    ],
)
def test_a_wrong_shape_is_named(xp, axes, wanted, fix):
    x = xp.asarray(np.zeros((2, 3)))
    text = message_of(InvalidValueError, checks.check_shape, "x", x, axes)
    assert text == f"x must have shape {wanted}, got (2, 3). To fix this, {fix}"
    assert is_refusal(text, f"x must have shape {wanted}, got (2, 3)")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_arrays_give_their_namespace(xp, dtype):
    assert checks.check_real("x", xp.asarray([1.0], dtype)) is xp.namespace


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex128"])
def test_a_dtype_that_is_not_real_is_named(xp, dtype):
    x = xp.asarray([1], dtype)
    text = message_of(InvalidTypeError, checks.check_real, "x", x)
    assert text == (
        f"x must have a real floating dtype, got {x.dtype}. "
        "To fix this, convert it to float32 or float64"
    )


@pytest.mark.parametrize("value", [[1.0], 1.0, None, "ab", (1.0,)], ids=repr)
def test_what_is_no_array_is_named(value):
    text = message_of(InvalidTypeError, checks.check_real, "x", value)
    assert text == (
        "x must be an array of an array-API library (numpy, torch, ...), got "
        f"{type(value).__name__}. To fix this, convert it, e.g. numpy.asarray(x)"
    )


def test_finite_arrays_of_any_shape_pass(xp):
    for shape in ((), (0,), (3,), (2, 0), (2, 3, 4)):
        x = np.zeros(shape)
        checks.check_finite("x", xp.asarray(x))
        if x.size:
            x.flat[-1] = math.nan
            message_of(InvalidValueError, checks.check_finite, "x", xp.asarray(x))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3), (0, 2, 1)])
def test_the_first_place_that_is_not_finite_is_named(xp, bad, place):
    data = np.zeros((2, 3, 4))
    data[place] = bad
    data[-1, -1, -1] = bad
    text = message_of(InvalidValueError, checks.check_finite, "x", xp.asarray(data))
    assert text == (
        f"x must be finite, got {bad} at index {place}. To fix this, drop or impute that entry"
    )


def test_a_scalar_that_is_not_finite_is_named(xp):
    text = message_of(InvalidValueError, checks.check_finite, "x", xp.asarray(math.nan))
    assert is_refusal(text, "x must be finite, got nan at index ()")


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_labels_of_any_integer_dtype_pass(xp, dtype):
    checks.check_labels("labels", xp.asarray([0, 2, 1], dtype), 3, 3)
    message_of(InvalidValueError, checks.check_labels, "labels", xp.asarray([0, 2, 1], dtype), 3, 2)
    checks.check_labels("labels", xp.asarray([], dtype), 0, 3)
    message_of(InvalidValueError, checks.check_labels, "labels", xp.asarray([], dtype), 1, 3)


@pytest.mark.parametrize(
    ("labels", "error", "text"),
    [
        ([0, 3], InvalidValueError, "labels must lie in [0, 3), got values from 0 to 3"),
        ([-1, 2], InvalidValueError, "labels must lie in [0, 3), got values from -1 to 2"),
        ([0, 1, 2], InvalidValueError, "labels must have shape (2,), got (3,)"),
        ([[0, 1]], InvalidValueError, "labels must have shape (2,), got (1, 2)"),
    ],
)
def test_labels_outside_their_range_are_named(xp, labels, error, text):
    assert is_refusal(
        message_of(error, checks.check_labels, "labels", xp.asarray(labels), 2, 3), text
    )


def test_labels_of_a_real_dtype_are_named(xp):
    labels = xp.asarray([0.0, 1.0])
    assert message_of(InvalidTypeError, checks.check_labels, "labels", labels, 2, 3) == (
        f"labels must have an integer dtype, got {labels.dtype}. To fix this, use int64"
    )


def test_labels_that_are_no_array_are_named():
    message_of(InvalidTypeError, checks.check_labels, "labels", [0, 1], 2, 3)


def test_arrays_of_one_place_pass(xp):
    checks.check_same_place(a=xp.asarray([1.0]), b=xp.asarray([1]), c=None)
    for wrong in ([1], 1.0, "1"):
        message_of(InvalidTypeError, checks.check_same_place, a=xp.asarray([1.0]), b=wrong)


@pytest.mark.parametrize(
    ("other", "found"),
    [(torch.ones(2), "torch and numpy"), (array_api_strict.ones(2), "array_api_strict and numpy")],
    ids=["torch", "strict"],
)
def test_arrays_of_two_libraries_are_named(other, found):
    text = message_of(DeviceMismatchError, checks.check_same_place, a=np.ones(2), b=other)
    assert is_refusal(text, f"b must be of the same array library as a, got {found}")


def test_what_is_no_array_has_no_place():
    message_of(InvalidTypeError, checks.check_same_place, a=np.ones(2), b=[0, 1])


def test_arrays_on_two_devices_are_named():
    first = array_api_strict.ones(2)
    second = array_api_strict.ones(2, device=array_api_strict.Device("device1"))
    text = message_of(DeviceMismatchError, checks.check_same_place, a=first, b=second)
    places = f"{compat.device(second)} and {compat.device(first)}"
    assert is_refusal(text, f"b must be on the device of a, got {places}")


def test_subclasses_of_one_library_are_of_one_place(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    memmap = np.load(tmp_path / "x.npy", mmap_mode="r")
    parameter = torch.nn.Parameter(torch.ones(2))
    checks.check_same_place(features=memmap, centers=np.ones(3))
    checks.check_same_place(features=torch.ones(2), centers=parameter)
    text = message_of(
        DeviceMismatchError, checks.check_same_place, features=memmap, centers=parameter
    )
    wrong = "centers must be of the same array library as features, got torch and numpy"
    assert is_refusal(text, wrong)


def test_numbers_inside_an_interval_come_back_as_floats():
    assert checks.check_interval("x", 1, 0.0, 1.0) == 1.0
    assert type(checks.check_interval("x", 1, 0.0, 1.0)) is float
    assert checks.check_interval("x", 0, 0.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "x must lie in [0, 1], got 1.5"),
        (-1, "x must lie in [0, 1], got -1"),
        (math.nan, "x must lie in [0, 1], got nan"),
        (math.inf, "x must lie in [0, 1], got inf"),
    ],
)
def test_numbers_outside_are_named(value, text):
    assert is_refusal(
        message_of(InvalidValueError, checks.check_interval, "x", value, 0.0, 1.0), text
    )


def test_the_end_of_an_open_interval_is_outside():
    text = message_of(
        InvalidValueError, checks.check_interval, "x", 0.0, 0.0, math.inf, open_low=True
    )
    assert is_refusal(text, "x must lie in (0, inf), got 0.0")


@pytest.mark.parametrize("value", [True, "1", None, [1.0], 1j], ids=repr)
def test_what_is_no_number_is_named(value):
    text = message_of(InvalidTypeError, checks.check_interval, "x", value, 0.0, 1.0)
    assert text == (
        f"x must be a number, got {value!r} ({type(value).__name__}). "
        f"To fix this, pass an int or a float"
    )


def test_counts():
    assert checks.check_count("n", 3, 1) == 3
    assert message_of(InvalidValueError, checks.check_count, "n", 0, 1) == (
        "n must be at least 1, got 0. To fix this, pass a larger one"
    )
    for value in (True, 1.0, "1", None):
        text = message_of(InvalidTypeError, checks.check_count, "n", value, 1)
        assert text == (
            f"n must be an int, got {value!r} ({type(value).__name__}). "
            f"To fix this, pass a whole number"
        )


def test_choices():
    checks.check_choice("x", "a", ("a", "b"))
    text = message_of(InvalidValueError, checks.check_choice, "x", "c", ("a", "b"))
    assert is_refusal(text, "x must be one of 'a', 'b', got 'c'")
    text = message_of(InvalidValueError, checks.check_choice, "x", "lef", ("left", "right"))
    assert text == "x must be one of 'left', 'right', got 'lef'. To fix this, pass 'left'"


def test_the_ends_of_the_floats():
    largest = sys.float_info.max
    assert checks.check_interval("x", largest, 0.0, math.inf) == largest
    assert checks.check_interval("x", -largest, -math.inf, 0.0) == -largest
    text = message_of(InvalidValueError, checks.check_interval, "x", 10**309, 0.0, math.inf)
    assert is_refusal(text, f"x must lie in [0, inf), got {10**309}")
    assert checks.check_interval("x", 1.0, 1.0, 1.0) == 1.0
    assert checks.check_count("n", 1, 1) == 1


@pytest.mark.parametrize("value", [["a"], 1, None, np.asarray(["a"])], ids=lambda v: str(type(v)))
def test_a_choice_is_a_text(value):
    text = message_of(InvalidValueError, checks.check_choice, "x", value, ("a", "b"))
    assert is_refusal(text, f"x must be one of 'a', 'b', got {checks.shown(value)}")


@pytest.mark.parametrize(
    ("name", "article"), [("Ax", "an"), ("XA", "a"), ("Ab", "an"), ("Bo", "a")]
)
def test_kinds_have_their_article(name, article):
    kind = type(name, (), {})
    checks.check_kind("x", kind(), kind, "make one")
    text = message_of(InvalidTypeError, checks.check_kind, "x", 3, kind, "make one")
    assert text == f"x must be {article} {name}, got 3 (int). To fix this, make one"


def test_a_namespace_has_all_that_is_needed(xp):
    assert checks.check_namespace(xp.namespace) is xp.namespace
    for names in ((), ("asarray", "float64", "int64"), ("float64", "int64", "zeros")):
        wrong = type("Module", (), dict.fromkeys(names))
        text = message_of(InvalidTypeError, checks.check_namespace, wrong)
        wrong = f"xp must be the namespace of an array library, got {checks.shown(wrong)} (type)"
        assert is_refusal(text, wrong)


def test_a_shown_value_is_one_line_of_60_characters(xp):
    assert checks.shown(xp.asarray([[1.0, 2.0]])) == "an array of shape (1, 2)"
    assert checks.shown("a" * 58) == f"'{'a' * 58}'"  # 60 with the quotes
    assert checks.shown("a" * 59) == f"'{'a' * 56}..."
    spread = type("Spread", (), {"__repr__": lambda self: "a\n   b"})
    assert checks.shown(spread()) == "a b"


def test_masked_and_sparse_arrays_and_those_without_values_are_named():
    for wrong, words in (
        (np.ma.masked_array([1.0], [True]), "x must not be a masked array"),
        (torch.eye(2).to_sparse(), "x must be a dense tensor, got one of layout torch.sparse_coo"),
    ):
        for check in (checks.check_real, checks.check_integral, checks.check_finite):
            assert is_refusal(message_of(InvalidTypeError, check, "x", wrong), words)
        text = message_of(InvalidTypeError, checks.check_shape, "x", wrong, ("n",))
        assert is_refusal(text, words)
    meta = torch.ones(2, device="meta")
    checks.check_real("x", meta)
    for check in (checks.check_finite, checks.check_values):
        assert "device 'meta'" in message_of(InvalidTypeError, check, "x", meta)
    labels = torch.ones(2, device="meta", dtype=torch.int64)
    assert "device 'meta'" in message_of(InvalidTypeError, checks.check_labels, "y", labels, 2, 3)


def test_libraries_and_devices_are_compared_with_the_first():
    text = message_of(
        DeviceMismatchError, checks.check_same_place, a=None, b=np.ones(2), c=torch.ones(2)
    )
    assert text == (
        "c must be of the same array library as b, got torch and numpy. "
        "To fix this, convert one of them"
    )
