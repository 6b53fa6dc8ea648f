"""Two ranks begin several times, choose the same beginning as one process, and go on together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dualclust.common.locks import LOCK_FILES
from dualclust.train.config.run import dump_config
from dualclust.train.loop import train
from dualclust.train.state.checkpoint import latest_checkpoint
from tests.train.runs import tiny

STARTS = ["starts.count=2", "starts.epochs=1", "epochs=2", "evaluation.every=1"]
HANGS = 600


def run_ranks(*arguments: str) -> list[subprocess.CompletedProcess[str]]:
    """The command in two processes that know of each other."""
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = str(here.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "dualclust", *arguments]
    ranks = [
        subprocess.Popen(
            command,
            env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [process.communicate(timeout=HANGS) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    return [
        subprocess.CompletedProcess(command, process.returncode, *text)
        for process, text in zip(ranks, texts, strict=True)
    ]


@pytest.fixture(scope="module")
def alone(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(tiny(source, *STARTS), folder)
    return folder


def check_same(folder: Path, alone: Path) -> None:
    """Fail unless both runs chose alike and ended alike, to rounding."""
    found, expected = (json.loads((f / "starts.json").read_text()) for f in (folder, alone))
    assert (found["chosen"], found["seed"]) == (expected["chosen"], expected["seed"])
    assert found["losses"] == pytest.approx(expected["losses"], rel=1e-3)
    ours, theirs = (latest_checkpoint(f).tensors for f in (folder, alone))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value.is_floating_point():
            torch.testing.assert_close(ours[name], value, rtol=0.05, atol=0.02, msg=name)


@pytest.fixture
def together(source, tmp_path) -> Path:
    """The run of two ranks."""
    recipe, folder = tmp_path / "tiny.toml", tmp_path / "run"
    recipe.write_text(dump_config(tiny(source, *STARTS)))
    asked = ("train", "secu", "--recipe", str(recipe), "--data", str(source), "--out", str(folder))
    ended = run_ranks(*asked)
    assert [rank.returncode for rank in ended] == [0, 0], ended
    return folder


def test_two_ranks_choose_as_one(together, alone):
    check_same(together, alone)
    assert not LOCK_FILES & {path.name for path in together.iterdir()}


@pytest.mark.slow  # two more interpreters with torch
def test_two_ranks_choose_after_an_interrupt(together, alone):
    (together / "starts.json").unlink()
    ended = run_ranks("resume", str(together))
    assert [rank.returncode for rank in ended] == [0, 0], ended
    check_same(together, alone)
