"""Two ranks begin several times, choose the same beginning as one process, and go on together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from dualclust.common.locks import LOCK_FILES
from dualclust.train.config.run import dump_config
from dualclust.train.loop import train
from dualclust.train.state.checkpoint import latest_checkpoint
from tests.forked import run_program
from tests.train.runs import tiny

STARTS = ["starts.count=2", "starts.epochs=1", "epochs=2", "evaluation.every=1"]
STARTS += ["starts.by=silhouette", "starts.views=[1.0, 0.5]", "augment.rotate=20.0"]
FORK = """
import json, sys
from contextlib import contextmanager
from pathlib import Path
import torch
from tests import judged
from tests.faults.processes import start_ranks

words, log = json.loads(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)

@contextmanager
def told(rank):
    yield
    log.with_name(f"judged{rank}").write_text(json.dumps(judged.lines()))

print(json.dumps([child.wait(600) for child in start_ranks([words] * 2, log, during=told)]))
"""


def run_ranks(log: Path, *arguments: str) -> list[list[object]]:
    """The command in two processes that know of each other: their codes, and what they said."""
    done = run_program(FORK, json.dumps(arguments), str(log))
    assert done.returncode == 0, done.stderr
    ended: list[list[object]] = json.loads(done.stdout)
    return ended


@pytest.fixture(scope="module")
def alone(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(tiny(source, *STARTS), folder)
    return folder


def check_same(folder: Path, alone: Path) -> None:
    """Fail unless both runs chose alike and ended alike, to rounding."""
    found, expected = (json.loads((f / "starts.json").read_text()) for f in (folder, alone))
    assert (found["chosen"], found["seed"]) == (expected["chosen"], expected["seed"])
    for figures in ("losses", "silhouettes"):
        assert found[figures] == pytest.approx(expected[figures], rel=1e-3, abs=1e-3)
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
    ended = run_ranks(tmp_path / "said", *asked)
    assert [code for code, _ in ended] == [0, 0], ended
    return folder


def test_two_ranks_choose_as_one(together, alone, tmp_path):
    check_same(together, alone)
    ways = [json.loads((tmp_path / f"judged{rank}").read_text()) for rank in (0, 1)]
    of_train = [[[way, times] for name, way, times in of if name == "train"] for of in ways]
    assert of_train == [[["interval", 1]], [["interval", 1]]]  # the files of one folder
    assert not LOCK_FILES & {path.name for path in together.iterdir()}


@pytest.mark.slow  # another interpreter with torch
def test_two_ranks_choose_after_an_interrupt(together, alone, tmp_path):
    (together / "starts.json").unlink()
    ended = run_ranks(tmp_path / "said", "resume", str(together))
    assert [code for code, _ in ended] == [0, 0], ended
    check_same(together, alone)
