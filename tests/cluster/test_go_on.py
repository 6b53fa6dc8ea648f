"""What someone is told whose run was stopped: `--resume` only where there is a state."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dualclust.cluster.resume import again, how_to_go_on


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("state", ["none", "not yet", "there"])
def test_only_what_is_there_can_be_resumed(tmp_path: Path, state: str, resume: bool) -> None:
    path = None if state == "none" else tmp_path / "X.state"
    if path is not None and state == "there":
        path.write_bytes(b"state")
    options = argparse.Namespace(checkpoint=path, resume=resume)
    told = how_to_go_on(options)
    assert ("--resume" in again(options)) == (state == "there" and not resume)
    assert ("the state is in" in told) == (state == "there")
    assert ("nothing was written" in told) == (state != "there")
    assert ("With --checkpoint FILE" in told) == (state == "none")
    assert again(options).startswith("give the same command")
    assert (again(options) in told) == (state == "there")
