"""A checkpoint that is refused says what was expected, and what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dualclust.algos.core.errors import CheckpointError
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore
from dualclust.train.state.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.train.runs import tiny


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_a_file_of_another_length_says_both_lengths(tmp_path: Path, name: str) -> None:
    folder = save_checkpoint(tmp_path / "a", {"w": torch.ones(2)}, {"a": [1]})
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    words = f"expected bytes {len(content)}, got {len(content) + 1}"
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(folder)


def test_settings_that_lack_a_line_of_the_checkpoint_are_refused(
    source: Path, tmp_path: Path
) -> None:
    """No line of theirs is new: there is none to name."""
    run = Run(tiny(source), "cpu")
    saved = run.identity()
    checkpoint = Checkpoint({}, {**saved, "config": saved["config"] + "more = 1\n"}, tmp_path)
    with pytest.raises(CheckpointError, match="does not fit: other config"):
        restore(run, checkpoint, tmp_path / "config.toml")
    line = next(line for line in saved["config"].splitlines() if "seed" in line)
    fewer = saved["config"].replace(line + "\n", "")
    with pytest.raises(CheckpointError, match="has " + repr(line).replace("[", r"\[")):
        restore(run, checkpoint._replace(metadata={**saved, "config": fewer}), tmp_path / "a.toml")
