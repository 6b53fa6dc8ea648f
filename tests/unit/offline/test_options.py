"""Options of the solver: none is changed by accident, and limits come in their order."""

from dataclasses import FrozenInstanceError

import pytest

from dualclust.algos.offline import DEFAULT_OPTIONS


def test_the_defaults_are_not_changed_by_accident():
    with pytest.raises(FrozenInstanceError):
        DEFAULT_OPTIONS.tol = 0.0


def test_limits_stand_in_their_order():
    """Small problems in full; then passes; all scores as a last resort; memory above them all."""
    own = DEFAULT_OPTIONS
    assert own.full_entries < own.retry_entries < own.max_entries < own.last_entries
    assert own.chunk_rows < own.max_entries
