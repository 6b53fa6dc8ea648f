"""Views depend on the place of their batch in the epoch, and an epoch says how long it took."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch

from dualclust.common.stopping import StoppedError
from dualclust.train.loop import Run
from tests.train.runs import tiny


@pytest.mark.parametrize("first", [0, 1_500, 2**20 + 5])
def test_a_batch_has_the_views_of_its_place(source: Path, first: int) -> None:
    """Also beyond many batches: an epoch that goes on draws what it would have drawn."""
    run = Run(tiny(source), "cpu")
    batches, names = run.loader.batches(0)[:2], run.method.views
    both = list(run.loader.views(batches, 0, names, first=first))
    [(ids, views)] = run.loader.views(batches[1:], 0, names, first=first + 1)
    assert torch.equal(ids, both[1][0])
    assert all(torch.equal(a, b) for a, b in zip(views, both[1][1], strict=True))
    [(_, other)] = run.loader.views(batches[1:], 0, names, first=first + 2)
    assert not all(torch.equal(a, b) for a, b in zip(views, other, strict=True))


def test_the_seconds_of_an_epoch_are_those_that_passed(source: Path) -> None:
    """The clock goes on by a second where it is read, and by 100 in each step."""
    ticks = count()
    run = Run(tiny(source, "batch_size=64"), "cpu", clock=lambda: next(ticks) + 100.0 * len(steps))
    steps: list[int] = []
    run.on_step = lambda done, total: steps.append(done)
    batches = len(run.loader.batches(0))
    assert [run.run_epoch()["seconds"] for _ in range(2)] == [100.0 * batches + 1] * 2


def test_the_seconds_of_a_stopped_epoch_count_once(source: Path) -> None:
    ticks = count()
    run = Run(tiny(source, "batch_size=64"), "cpu", clock=lambda: float(next(ticks)))
    run.stop = lambda: run.part is None
    with pytest.raises(StoppedError):
        run.run_epoch()
    assert run.part is not None
    assert run.part.seconds == 1.0
    next(ticks)  # what passes while it stands still is not its own
    assert run.run_epoch()["seconds"] == 2.0
