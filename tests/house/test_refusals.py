"""The helper that compares messages can fail."""

import pytest

from tests.refusals import is_refusal

WRONG = "n must be at least 1, got 0"


@pytest.mark.parametrize(
    ("message", "good"),
    [
        (f"{WRONG}. To fix this, pass a larger one", True),
        (f"{WRONG}. To fix this, pass a smaler one", False),
        (f"{WRONG}!. To fix this, pass a larger one", False),
        (f"the {WRONG}. To fix this, pass a larger one", False),
        (WRONG, False),
    ],
)
def test_what_is_wrong_and_the_way_out_are_compared(message, good):
    assert is_refusal(message, WRONG) is good


def test_a_way_out_of_its_own_is_compared_whole():
    assert is_refusal(f"{WRONG}. To fix this, sing", f"{WRONG}. To fix this, sing")
    assert not is_refusal(f"{WRONG}. To fix this, sing it", f"{WRONG}. To fix this, sing")
