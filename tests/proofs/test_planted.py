"""`assert_noticed` itself can fail."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dualclust.proofs.registry.claims import REGISTRY, Claim, Status
from tests.proofs.planted import assert_noticed

TARGET = "math.hypot"


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Any:
    def register(check: Any, tolerance: float = 0.0) -> None:
        item = Claim(
            "Z1", "dualclust", "", "", "", Status.HOLDS, "", check, tolerance, mutations=(TARGET,)
        )
        monkeypatch.setitem(REGISTRY, "Z1", item)

    return register


def test_a_seen_error_passes(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 4.0) - 5.0))
    assert_noticed("Z1", monkeypatch, TARGET, lambda x, y: x + y)
    assert_noticed("Z1", monkeypatch, TARGET, lambda x, y: math.nan)
    assert math.hypot(3.0, 4.0) == 5.0  # and is taken back


def test_an_error_that_raises_is_noticed(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 4.0) - 5.0))

    def refuse(x: float, y: float) -> float:
        raise ValueError

    assert_noticed("Z1", monkeypatch, TARGET, refuse)


def test_an_unseen_error_fails(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 0.0) - 3.0))
    with pytest.raises(AssertionError, match="did not notice"):
        assert_noticed("Z1", monkeypatch, TARGET, lambda x, y: x + y)


def test_an_error_within_the_tolerance_fails(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 4.0) - 5.0), 3.0)
    with pytest.raises(AssertionError, match="did not notice"):
        assert_noticed("Z1", monkeypatch, TARGET, lambda x, y: x + y)


def test_a_check_that_fails_anyway_fails(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: math.hypot(3.0, 4.0))
    with pytest.raises(AssertionError, match="without a planted error"):
        assert_noticed("Z1", monkeypatch, TARGET, lambda x, y: x + y)


def test_a_broken_replacement_is_no_finding(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 4.0) - 5.0))
    with pytest.raises(TypeError):
        assert_noticed("Z1", monkeypatch, TARGET, lambda: 0.0)


def test_an_unlisted_target_fails(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(lambda: abs(math.hypot(3.0, 4.0) - 5.0))
    with pytest.raises(AssertionError, match="does not list"):
        assert_noticed("Z1", monkeypatch, "math.dist", lambda p, q: 0.0)
