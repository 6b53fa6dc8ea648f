"""Views depend on the place of their batch in the epoch, and an epoch says how long it took."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

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
    run = Run(tiny(source), "cpu")
    for _ in range(2):
        before = time.perf_counter()
        record = run.run_epoch()
        passed = time.perf_counter() - before
        assert 0.0 < record["seconds"] <= passed + 1e-3  # it is rounded
