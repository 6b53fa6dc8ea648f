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

    def assert_nothing_crossed(self) -> None:
        """Fail where a step, or what lies between two steps, waits for the other side."""
        assert self.count > 0
        assert not self.reads, f"values that the host reads in steps: {dict(self.reads)}"
        assert not self.uploads, f"copies to the device in steps: {dict(self.uploads)}"


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
