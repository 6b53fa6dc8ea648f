"""Flipped bits and truncations of stored files are noticed: a sample of `make faults`."""

from __future__ import annotations

import json

import pytest

from dualclust.algos.core.errors import CheckpointError
from dualclust.train.models import load_model
from tests.faults.corruption import cut_off, flipped, targets, try_all


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return targets(tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize(("damage", "n"), [(flipped, 240), (cut_off, 60)])
def test_damaged_files_are_refused_by_errors_of_the_library(stored, damage, n) -> None:
    found = try_all(stored, damage, n, seed=1)
    assert sum(sum(counts.values()) for counts in found.values()) == n
    for name, counts in found.items():
        assert set(counts) == {"noticed"}, name
    for target in stored.values():
        target.read()  # whole again


def test_what_is_not_noticed_would_be_counted(stored) -> None:
    found = try_all(stored, lambda content, rng: content, 6, seed=0)
    assert all(set(counts) == {"not noticed"} for counts in found.values())


def test_a_description_of_the_same_meaning_is_refused(stored) -> None:
    """A flipped bit may turn 1e-05 into 1E-05."""
    path = stored["exported model"].path
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    text = header["__metadata__"]["dualclust"]
    header["__metadata__"]["dualclust"] = text.replace(": ", ":  ", 1)
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    path.write_bytes(len(words).to_bytes(8, "little") + words + whole[8 + length :])
    with pytest.raises(CheckpointError, match="its description is not as it was written"):
        load_model(path)
    path.write_bytes(whole)
