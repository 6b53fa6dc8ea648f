"""A checkpoint that is refused says what was expected, and what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from dualclust.algos.core.errors import CheckpointError, InvalidTypeError
from dualclust.train.state.checkpoint import load_checkpoint, save_checkpoint


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_a_file_of_another_length_says_both_lengths(tmp_path: Path, name: str) -> None:
    folder = save_checkpoint(tmp_path / "a", {"w": torch.ones(2)}, {"a": [1]})
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    words = f"expected bytes {len(content)}, got {len(content) + 1}"
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"a": {"b": (1,)}}, r"a\.b is a tuple"),
        ({"a": [1, {"b": [None, {1}]}]}, r"a\[1\]\.b\[1\] is a set"),
        ({"a": [{"b": {3: 1}}]}, r"a\[0\]\.b has the key 3"),
    ],
)
def test_what_json_would_change_is_named_by_its_place(
    tmp_path: Path, metadata: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidTypeError, match=path):
        save_checkpoint(tmp_path / "a", {"w": torch.ones(2)}, metadata)
    assert not (tmp_path / "a").exists()
