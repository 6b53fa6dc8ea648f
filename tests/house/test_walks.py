"""How many files somebody opens who follows a call from its arguments to its result.

A walk counts the files of the library in which a function runs. It leaves out what runs while a
module is imported, and two rooms that nobody opens to follow a call: `algos.core`, the words of
every text (checks, errors, sums), and `backends`, whose engines repeat text that stands in `algos`.
The limits are today's figures: a change that needs one more file says so here, with its reason.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import dualclust as dc
from dualclust.cli.main import build_parser
from dualclust.cluster.command import run_cluster
from tests.problems import unit_rows

PACKAGE = f"{Path(dc.__file__).parent}/"
WORDS = ("algos/core/", "backends/")


def walk(call: Callable[[], object]) -> set[str]:
    """Return the files of the library that a call enters, but for `WORDS` and imports."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or name[len(PACKAGE) :] in found:
            return
        above: FrameType | None = frame
        while above is not None:
            if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(PACKAGE):
                return
            above = above.f_back
        found.add(name[len(PACKAGE) :])

    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
    return {name for name in found if not name.startswith(WORDS)}


def count(call: Callable[[], object], most: int) -> None:
    """Fail with the files if a walk enters more than `most`."""
    files = sorted(walk(call))
    assert len(files) <= most, f"{len(files)} files instead of {most}:\n" + "\n".join(files)


@pytest.mark.parametrize(
    ("n", "k", "most"),
    [
        # 11 before a search could be timed, and its problem and last resort had a file each.
        pytest.param(3_000, 10, 14, id="all clusters are candidates"),
        # 17 before rows of candidates had a file of their own, which a second look reads as well;
        # 19 before the size of a region had one, 20 before falling temperatures had, and 21 before
        # blocks were begun ahead.
        pytest.param(20_000, 100, 22, id="candidates are truncated"),
    ],
)
def test_scores_through_assign_offline(n, k, most, rng):
    scores = rng.standard_normal((n, k)).astype(np.float32)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    count(lambda: dc.assign_offline(scores, bounds), most)


def test_the_command_cluster(tmp_path, rng, capsys):
    np.save(tmp_path / "X.npy", unit_rows(rng.standard_normal((600, 8))).astype(np.float32))
    options = build_parser().parse_args(["cluster", str(tmp_path / "X.npy"), "-k", "5"])
    # Headers are read as training reads them; prices of the last round are brought near first.
    # 47 before names of packed files, and what is said of the input and of odd results; 50 before a
    # run could be timed, 52 before inputs that are in memory as a whole, 53 before Ctrl-C kept its
    # labels, 54 before groups, 55 before vectors that stay on the host beside a device.
    count(lambda: run_cluster(options), 57)
    assert "written to" in capsys.readouterr().out


def test_a_training_step(tmp_path, monkeypatch):
    """From a batch of views to moved parameters."""
    pytest.importorskip("torch")
    from dualclust.train.loop import train
    from dualclust.train.loop.execution import Execution
    from tests.train.runs import tiny, write_images

    step, found, losses = Execution.train_step, set(), []

    def walked(*arguments):
        found.update(walk(lambda: losses.append(step(*arguments))))
        return losses[-1]

    monkeypatch.setattr(Execution, "train_step", walked)
    train(tiny(write_images(tmp_path / "images.npz"), "epochs=1"), tmp_path / "run")
    assert losses
    assert len(found) <= 12, sorted(found)


def test_a_file_more_is_found(rng):
    scores = rng.standard_normal((30, 3))
    bounds = dc.SizeBounds.from_ratios(3, n_samples=30)
    with pytest.raises(AssertionError, match=r"online/assignment\.py"):
        count(lambda: dc.assign(scores, bounds), 1)
