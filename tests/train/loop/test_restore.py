"""A state of other settings is refused, whatever the difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualclust.algos.core.errors import CheckpointError
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore
from dualclust.train.state.checkpoint import Checkpoint
from tests.train.runs import tiny


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
