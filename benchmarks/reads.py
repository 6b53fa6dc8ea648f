"""How often the host reads from a device, and how often it sends something there.

A read waits for everything that the device has to do. This program counts them on a second device
that computes on the CPU (`tests/second_device.py`), so it needs no card and measures no time. It
prints a row for each function and size: reads, uploads, and reads for each chunk of an online pass,
for each pass of the offline solver over scores or candidates (`tests/passes.py`), each iteration of
k-means, the assignment inside it counted, each block of rows, each mini-batch, or each training
step of a method, from the first of an epoch to the last.

    python benchmarks/reads.py             # a minute
    python benchmarks/reads.py --small     # seconds
    python benchmarks/reads.py --lines     # and which lines ask
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests`, from any folder
import dualclust as dc
from dualclust.algos.clustering import constrained_kmeans, kmeans
from dualclust.algos.clustering.minibatch import init_minibatch
from dualclust.algos.clustering.minibatch_pass import minibatch_pass
from dualclust.algos.offline import assign_exact
from dualclust.algos.scores import block_rows
from dualclust.cluster.distances import nearest_centers
from dualclust.train.loop import Run
from tests.passes import counted_passes
from tests.second_device import DEVICE, Transfers, second_device
from tests.train.runs import tiny_recipe, write_images
from tests.train.steps import counted_steps

ASSIGNED = [(1_000, 10), (20_000, 10), (20_000, 100)]
SOLVED = [(1_000, 10), (20_000, 10), (20_000, 50), (20_000, 300)]
CLUSTERED = [(1_000, 10), (20_000, 10)]
SMALL = [(1_000, 10)]
LOOKED_AT = [(1_000, 10), (40_000, 10)]
BATCH = 1_024
HEADS = ["heads.clusters=[10]", "network.width=2", "network.hidden=8"]
STEPS = {
    "secu": ["heads.clusters=[10, 12]", *HEADS[1:], "network.out_dim=8"],
    "coke": [*HEADS, "network.out_dim=8"],
    "propos": [*HEADS, "network.out_dim=8", "propos.n_init=1"],
    "gatcluster": [
        "network.width=2",
        "gatcluster.sub_batch=25",
        "gatcluster.n_init=1",
        "gatcluster.repeats=1",
    ],
    "mi_margin": ["network.width=2"],
}


class Count(NamedTuple):
    """One row of the table; `lines` are the lines that ask most."""

    name: str
    size: str
    reads: int
    uploads: int
    n_units: int
    unit: str
    lines: list[tuple[str, int]]

    def __str__(self) -> str:
        each = self.reads / max(self.n_units, 1)
        return (
            f"| {self.name} | {self.size} | {self.reads} | {self.uploads} | "
            f"{self.n_units} {self.unit} | {each:.2f} |"
        )


def problem(n: int, k: int) -> tuple[torch.Tensor, dc.SizeBounds]:
    """Scores where a quarter of the clusters is wanted by many, and bounds 0.9 and 1.1 n / k."""
    scores = np.random.default_rng(0).normal(size=(n, k)).astype(np.float32)
    scores[:, : max(1, k // 4)] += 0.7
    bounds = dc.SizeBounds.from_ratios(
        k, n_samples=n, lower=0.9, upper=1.1, rounding="outward", xp=torch, device=DEVICE
    )
    return torch.tensor(scores).to(DEVICE), bounds


def points(n: int) -> torch.Tensor:
    """Points in five dimensions, around three centers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5)) + 2.0 * rng.integers(0, 3, size=(n, 1))
    return torch.tensor(x).to(DEVICE)


class Counter:
    """Runs things on the device and counts what they read."""

    def __init__(self, transfers: Transfers) -> None:
        self.transfers = transfers

    def count(self, name: str, size: str, unit: str, run: Callable[[], int | None]) -> Count:
        """Count one run; it returns the number of its units, or None for passes."""
        self.transfers.clear()
        with counted_passes() as passes:
            n_units = run()
        reads, uploads = self.transfers.reads, self.transfers.uploads
        n = sum(passes.values()) if n_units is None else n_units
        lines = reads.most_common(12)
        return Count(name, size, sum(reads.values()), sum(uploads.values()), n, unit, lines)

    def online(self, n: int, k: int) -> Count:
        """One pass of `assign`."""
        scores, bounds = problem(n, k)
        steps = dc.measured_steps(bounds)

        def run() -> int:
            dc.assign(scores, bounds, steps=steps)
            return -(-n // steps.chunk_size)

        return self.count("`assign`, one pass", f"{n:,} x {k}", "chunks", run)

    def offline(self, n: int, k: int, name: str, solve: Callable[..., Any]) -> Count:
        """All passes of an offline solver."""
        scores, bounds = problem(n, k)

        def run() -> None:
            solve(scores, bounds)

        return self.count(name, f"{n:,} x {k}", "passes", run)

    def clustering(self, n: int, k: int, name: str) -> Count:
        """Ten iterations of k-means, with or without bounds."""
        x, (_, bounds) = points(n), problem(n, k)

        def run() -> int:
            if name == "`kmeans`":
                return kmeans(x, x[:k], metric="euclidean", max_iter=10).n_iter
            return constrained_kmeans(x, bounds, x[:k], metric="euclidean", max_iter=10).n_iter

        return self.count(name, f"{n:,} x 5, k = {k}", "iterations", run)

    def ruled(self, n: int, k: int) -> Count:
        """Ten iterations of constrained k-means with rows that are known and pairs forbidden."""
        x, (_, bounds), row = points(n), problem(n, k), torch.arange(n)
        known = row % 20 == 0
        rules = {
            "fixed": torch.where(known, row % k, -1).to(DEVICE),
            "forbidden": torch.stack([row, row % k], dim=1)[~known].to(DEVICE),
        }

        def run() -> int:
            options: dict[str, Any] = {"metric": "euclidean", "max_iter": 10}
            return constrained_kmeans(x, bounds, x[:k], **options, **rules).n_iter

        return self.count("`constrained_kmeans`, rules", f"{n:,} x 5, k = {k}", "iterations", run)

    def nearest(self, n: int, k: int) -> Count:
        """The best cluster of each row at prices."""
        x = points(n)
        source = dc.product_source(dc.feature_source(x), x[:k])
        prices = torch.zeros(k, dtype=torch.float64, device=DEVICE)

        def run() -> int:
            nearest_centers(source, prices)
            return -(-n // block_rows(k, like=prices))

        return self.count("nearest centers, at prices", f"{n:,} x 5, k = {k}", "blocks", run)

    def minibatch(self, n: int, k: int) -> Count:
        """One pass in mini-batches."""
        source = dc.feature_source(points(n))
        bounds = dc.SizeBounds.for_stream(k, lower=0.8, xp=torch, device=DEVICE)
        state = init_minibatch(source.rows(0, k), bounds)

        def run() -> int:
            minibatch_pass(source, state, bounds, metric="euclidean", batch_size=BATCH)
            return -(-n // BATCH)

        return self.count("`minibatch_pass`", f"{n:,} x 5, k = {k}", "batches", run)

    def training(self, method: str, folder: Path) -> Count:
        """The steps of two epochs, on small drawn images."""
        images = write_images(folder / "images.npz", n=97)
        cut = ["batch_size=49", "evaluation.views=0", "assignment.rounding=outward", *STEPS[method]]
        run = Run(tiny_recipe(f"{method}_digits", images, *cut), str(DEVICE))
        run.init()
        with counted_steps(self.transfers) as steps:
            run.run_epoch()
            run.run_epoch()  # in CoKe's first one nothing is learned
        reads, uploads, lines = steps.reads, steps.uploads, steps.reads.most_common(12)
        name = f"a training step of `{method}`"
        return Count(name, "49 images", reads.total(), uploads.total(), steps.count, "steps", lines)

    def table(self, *, small: bool = False) -> Iterator[Count]:
        """Yield every row."""
        for size in SMALL if small else ASSIGNED:
            yield self.online(*size)
        solvers = {"`assign_offline`": dc.assign_offline, "`assign_exact`": assign_exact}
        for name, solve in solvers.items():
            for size in SMALL if small else SOLVED:
                yield self.offline(*size, name, solve)
        for name in ("`kmeans`", "`constrained_kmeans`"):
            for size in SMALL if small else CLUSTERED:
                yield self.clustering(*size, name)
        yield self.ruled(*SMALL[0])
        for count in (self.nearest, self.minibatch):
            for size in SMALL if small else LOOKED_AT:
                yield count(*size)
        with tempfile.TemporaryDirectory() as folder:
            for method in STEPS:
                yield self.training(method, Path(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, Python {platform.python_version()}, no card\n")
    print("| function | size | reads | uploads | of | reads for each |")
    print("|---|---|---|---|---|---|")
    with second_device() as transfers:
        for row in Counter(transfers).table(small=options.small):
            print(row, flush=True)
            if options.lines:
                print("".join(f"    {n:5d}  {line}\n" for line, n in row.lines), end="")
