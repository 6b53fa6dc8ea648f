"""What the steps of an epoch make the host wait for, on the second device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from dualclust.train.loop.execution import Execution
from tests.second_device import Transfers


@dataclass
class Steps:
    """How many steps were taken, and what crossed from the first step of an epoch to its last."""

    count: int = 0
    reads: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)

    def assert_nothing_crossed(self, *, but: int = 0) -> None:
        """Fail where a step, or what lies between two steps, waits for the other side.

        But so many times in each step, there and back: what the host solves.
        """
        assert self.count > 0
        allowed = but * self.count
        reads, uploads = self.reads, self.uploads
        assert reads.total() == allowed, f"values that the host reads in steps: {dict(reads)}"
        assert uploads.total() == allowed, f"copies to the device in steps: {dict(uploads)}"


@contextmanager
def counted_steps(transfers: Transfers) -> Iterator[Steps]:
    """Count what crosses from the start of the first step of each epoch to the end of its last.

    The views of all batches but the first are drawn in between, and are counted.
    """
    found, fresh = Steps(), [True]
    begin, step = Execution.begin_epoch, Execution.train_step

    def begin_epoch(self: Execution, *rest: Any) -> None:
        begin(self, *rest)
        fresh[0] = True

    def train_step(self: Execution, *rest: Any) -> Any:
        if fresh[0]:
            transfers.clear()
            fresh[0] = False
        loss = step(self, *rest)
        found.count += 1
        found.reads.update(transfers.reads)
        found.uploads.update(transfers.uploads)
        transfers.clear()
        return loss

    with (
        patch.object(Execution, "begin_epoch", begin_epoch),
        patch.object(Execution, "train_step", train_step),
    ):
        yield found
