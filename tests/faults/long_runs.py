"""Runs longer than a test may be: whether an epoch or a pass costs what the first did.

    python -m tests.faults.long_runs --epochs 10000 --passes 1000 --batches 1000

Work is counted, not timed: operations on the disk, files, bytes written, objects that live. Prices
after 10^9 updates are exact: scores and steps are dyadic, so that a stream that repeats must come
to prices that it has had before, and from there on it repeats for ever.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import AssignmentState, assign, next_pass
from dualclust.algos.online.duals import DualRule, Duals, assign_batch
from dualclust.common import files
from dualclust.train.config.run import override
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import run_and_save_epoch
from tests.faults.disk import Disk, on_disk
from tests.faults.tasks import CHANGES
from tests.train.runs import tiny_recipe

__all__ = ["Cycle", "Epoch", "cycle_of", "epochs", "passes"]


class Epoch(NamedTuple):
    """What an epoch has cost, and what there is after it.

    Attributes
    ----------
    operations, files, objects : int
    written : int. Bytes.
    lines : int. Of these, bytes of the metrics so far, of which each epoch writes two copies.
    resident : int. Largest size of the process so far, in KiB.
    seconds : float. Of the processor, the mean of the epochs since the last one that was looked at.
    """

    operations: int
    files: int
    objects: int
    written: int
    lines: int
    resident: int
    seconds: float


def epochs(home: Path, count: int, *, every: int = 1) -> list[Epoch]:
    """Train a tiny run; return what each `every`-th epoch has cost."""
    rng = np.random.default_rng(0)
    np.save(home / "rows.npy", rng.normal(size=(16, 3)).astype(np.float32))
    changes = [*CHANGES, f"epochs={count + 1}", f"evaluation.every={count + 1}"]
    config = override(tiny_recipe("secu_digits", home / "rows.npy"), changes)
    run, folder, found = Run(config, "cpu"), home / "run", []
    folder.mkdir()
    run.init()
    write, written, began = files._write_flushed, [0], time.process_time()

    def counted(path: Path, parts: Any) -> None:
        content = b"".join(parts)
        written[0] += len(content)
        write(path, [content])

    for number in range(1, count + 1):
        disk, written[0] = Disk(-1, lambda disk, name: None), 0
        files._write_flushed = counted
        try:
            with on_disk(disk):
                run_and_save_epoch(run, folder)
        finally:
            files._write_flushed = write
        if number % every == 0:
            seconds = (time.process_time() - began) / every
            gc.collect()
            objects = len(gc.get_objects())
            there = sum(1 for _ in folder.rglob("*"))
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            text = run.metrics_text  # in metrics.jsonl, and quoted in the checkpoint
            lines = len(text) + len(json.dumps(text))
            found.append(Epoch(disk.count, there, objects, written[0], lines, size, seconds))
            began = time.process_time()
    return found


def passes(n_passes: int, n_batches: int) -> tuple[AssignmentState, list[int]]:
    """Stream batches of 8 rows pass after pass; return the state and two counts of objects."""
    rng = np.random.default_rng(0)
    batches = rng.normal(size=(n_batches, 8, 5))
    bounds = SizeBounds.from_ratios(5, n_samples=8 * n_batches, lower=0.9, upper=1.1)
    state: AssignmentState | None = None
    objects = []
    for number in range(n_passes):
        state = None if state is None else next_pass(state)
        for scores in batches:
            _, state = assign(scores, bounds, state)
        if number in (1, n_passes - 1):
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert state is not None
    return state, objects


class Cycle(NamedTuple):
    """Prices of a stream that repeats, until they repeat too.

    Attributes
    ----------
    lower, upper : (t, k) arrays. Prices after each update up to the end of the cycle.
    counts : (t, k) int64 array. Labels of each update.
    start : int. Update after which the cycle begins.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    counts: NDArray[np.int64]
    start: int

    def place(self, update: int) -> int:
        """Return the place of an update, however late, among those that are kept."""
        length = len(self.lower) - self.start
        return update if update < self.start else self.start + (update - self.start) % length

    def counts_after(self, updates: int) -> list[int]:
        """Return how often each cluster was chosen in so many updates, exactly."""
        whole = self.counts.astype(object)
        if updates <= len(whole):
            return list(whole[:updates].sum(axis=0))
        cycle = whole[self.start :]
        turns, rest = divmod(updates - self.start, len(cycle))
        total = whole[: self.start].sum(axis=0) + turns * cycle.sum(axis=0)
        return list(total + cycle[:rest].sum(axis=0))


def cycle_of(scores: NDArray[np.float64], rule: DualRule, *, longest: int = 100_000) -> Cycle:
    """Stream the same batches (p, b, k) again and again until prices come back.

    Parameters
    ----------
    scores : array of dyadic numbers
    rule : DualRule. Of dyadic numbers too, so that no sum is rounded.
    longest : int. Updates after which to give up.

    Raises
    ------
    ValueError
        If the prices have not come back by then.
    """
    period, batch, k = scores.shape
    duals = Duals(np.zeros(k), np.zeros(k))
    lower, upper, counts = [], [], []
    seen: dict[bytes, int] = {}
    for update in range(longest):
        if update % period == 0:
            key = duals.lower.tobytes() + duals.upper.tobytes()
            if key in seen:
                return Cycle(np.stack(lower), np.stack(upper), np.stack(counts), seen[key])
            seen[key] = update
        labels, duals = assign_batch(scores[update % period], duals, rule)
        lower.append(duals.lower)
        upper.append(duals.upper)
        counts.append(np.bincount(labels, minlength=k))
    msg = f"the prices have not come back within {longest} updates of {batch} samples"
    raise ValueError(msg)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code: 1 if anything grew but the lines of the metrics."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=1_000)
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="dualclust-long-"))
    found = epochs(home, options.epochs, every=max(1, options.epochs // 10))
    heads = ("epoch", "disk", "files", "objects", "bytes", "of lines", "MiB", "CPU ms")
    print("".join(f"{head:>10}" for head in heads))
    step = max(1, options.epochs // 10)
    for i, e in enumerate(found, 1):
        sizes = (e.written - e.lines, e.lines, e.resident // 1024)
        cells = (i * step, e.operations, e.files, e.objects, *sizes, round(1e3 * e.seconds))
        print("".join(f"{cell:>10}" for cell in cells))
    shutil.rmtree(home)
    state, objects = passes(options.passes, options.batches)
    print(
        f"{options.passes} passes of {options.batches} batches: {state.seen} samples in the last,"
    )
    print(f"objects after the second and the last pass: {objects[0]}, {objects[-1]}")
    steady = [(e.operations, e.files) for e in found]
    return int(len(set(steady[1:])) > 1 or objects[-1] > objects[0] + options.passes // 10)


if __name__ == "__main__":
    sys.exit(main())
