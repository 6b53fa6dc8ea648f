"""What a card would be asked to do, counted without one, and how long that takes by a model.

Operations that the host sends to a device, their bytes and products, values that the host reads,
bytes that come to the host, and augmenting paths, which the host computes: counted on a second
device that computes on the CPU (`tests/launches.py`). Larger sizes are extrapolated. Times are
those of a card whose constants were measured (`CARD`): the host sends one operation after the
other, and the card computes meanwhile.

    python benchmarks/launches.py             # a quarter of an hour
    python benchmarks/launches.py --small     # seconds
    python benchmarks/launches.py --lines     # and which functions ask for most
    python benchmarks/launches.py --constants benchmarks/results/gpu/constants.json  # of `make gpu`
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests`, from any folder
import dualclust as dc
from dualclust.algos.offline._candidates import collect_candidates
from dualclust.algos.scores.blocks import MOST_DEVICE_ROWS, block_rows
from dualclust.algos.scores.nearest import FUSED_ROWS
from dualclust.backends import torch_cpu
from dualclust.cluster.distances import nearest_centers
from dualclust.train.loop import Run
from dualclust.train.loop.execution import Execution
from dualclust.train.networks.network import Network
from tests.launches import Launches, counted_launches
from tests.passes import counted_work
from tests.programs import program
from tests.second_device import DEVICE
from tests.train.runs import tiny_recipe, write_images

SIZES = [(20_000, 100), (100_000, 100), (50_000, 1_000), (100_000, 1_000)]
SMALL = [(600, 8), (600, 4)]
LARGE, MEASURED_CLUSTERS = [1_000_000, 10_000_000], 1_000
BATCHES = [16, 32, 48]
ITERATIONS = 1, 3
RATIOS: dict[str, Any] = {"lower": 0.9, "upper": 1.1, "rounding": "outward"}
COPIED = 2**28  # bytes of scores of a block that is handed to `assign`, as in `make gpu`


class Card(NamedTuple):
    """Constants of a card: seconds of the host for an operation and a read, and rates a second.

    Attributes
    ----------
    operation, read : float
        The first explains 219 ms of `nearest_centers` in 977 blocks (benchmarks/results/cuda.md);
        the second is an estimate.
    bytes : float
        Measured by a copy.
    multiplications : float
        Of float32, twice the number of pairs: what a product of (1M, 128) and (128, 1,000) takes of
        8.92 ms, less an argmax at the rate of bytes.
    to_host : float
        Bytes a second; an estimate.
    """

    operation: float
    read: float
    bytes: float
    multiplications: float
    to_host: float


CARD = Card(22e-6, 10e-6, 4.236e12, 36e12, 20e9)
"""One H200, from `benchmarks/results/cuda.md`."""


def measured_card(file: Path) -> Card:
    """Constants that `make gpu` has measured."""
    parts = json.loads(file.read_text(encoding="utf-8"))["parts"].values()
    rows = {row["what"]: row for part in parts for row in part["rows"]}
    return Card(
        operation=1e-6 * rows["operation"]["us"],
        read=1e-6 * rows["read"]["us"],
        bytes=1e9 * rows["copy"]["GB/s"],
        multiplications=1e12 * rows["float32"]["TFLOP/s"],
        to_host=1e9 * rows["to the host"]["GB/s"],
    )


TF32, FLOAT64 = 393e12, 15e12
"""Products of tf32, measured on the same page; sums in float64, half of what the vendor says."""

TF32_PRODUCTS, AGAIN = 3, 0.005
"""Products for one of `tf32x3`; share of rows that are computed again, .0042 at (20,000, 1,000)."""

FUSED_OPERATIONS = 30  # kernels, the bound, prices, and where rows are close: counted by hand

NEAREST, ASSIGN, WITHIN = "`nearest_centers`", "`assign`, one pass", "`assign_source`, 1e-4"
MEASURED = {NEAREST: 219.0, ASSIGN: 705.0, WITHIN: 5_574.0}
"""Milliseconds at (1M, 1,000, 128) on that card, of the library on the day of that page."""


class Count(NamedTuple):
    """What one run asks for; fractions where it is extrapolated or a mean."""

    operations: float
    reads: float
    bytes: float
    multiplications: float
    to_host: float
    paths: float
    host: float

    def seconds(self, card: Card) -> float:
        """How long it takes on a card."""
        sent = self.operations * card.operation
        computed = self.bytes / card.bytes + self.multiplications / card.multiplications
        waits = self.reads * card.read + self.to_host / card.to_host
        return max(sent, computed) + waits + self.host

    def cells(self, card: Card = CARD) -> str:
        """The columns of a table."""
        return (
            f"{self.operations:,.0f} | {self.reads:,.0f} | {self.bytes / 1e9:,.2f} | "
            f"{self.multiplications / 1e9:,.0f} | {self.to_host / 1e6:,.2f} | {self.paths:,.0f} | "
            f"{1e3 * self.host:,.1f} | {1e3 * self.seconds(card):,.1f}"
        )


def extrapolated(
    name: str, few: tuple[int, Count], many: tuple[int, Count], n: int, k: int, block: float
) -> Count:
    """What n rows ask for: by blocks or chunks, whose number is known, and bytes on a line.

    A solver is asked for `block` operations more by each block of rows; its Newton steps, reads and
    paths are those of the largest size that was counted.
    """
    (n_few, a), (n_many, b) = few, many
    share = (n - n_many) / (n_many - n_few)
    grown = Count(*(y + max(y - x, 0.0) * share for x, y in zip(a, b, strict=True)))
    if name == ASSIGN:
        chunks = n_chunks(n, k) / n_chunks(n_many, k)
        return grown._replace(operations=b.operations * chunks, reads=b.reads * chunks)
    more = block * (n_blocks(n, k) - n_blocks(n_many, k)) if name != NEAREST else 0.0
    if name == NEAREST:
        return grown
    return b._replace(
        operations=b.operations + more, bytes=grown.bytes, multiplications=grown.multiplications
    )


def without_scores(n: int, k: int, d: int = 128) -> tuple[Count, Card]:
    """One pass of the kernels in Triton: what it asks for, and a card at its mean rate.

    Features are read twice, by the product and for the values of the labels; centers and features
    of a tile again from the card's cache, which the model does not count.
    """
    products = TF32_PRODUCTS * 2.0 * n * k * d
    again = AGAIN * 2.0 * n * k * d  # in float64
    count = Count(
        operations=FUSED_OPERATIONS * -(-n // FUSED_ROWS),
        reads=-(-n // FUSED_ROWS),
        bytes=2 * 4 * n * d + (8 + 1 + 1 + 8 + 8) * n + AGAIN * 4 * n * d,
        multiplications=products + again,
        to_host=8,
        paths=0,
        host=0.0,
    )
    rate = (products + again) / (products / TF32 + again / FLOAT64)
    return count, CARD._replace(multiplications=rate)


def n_blocks(n: int, k: int) -> int:
    """Blocks of rows of one rank on a device."""
    return -(-n // block_rows(k, like=torch.zeros(1, device="meta"), is_alone=True))


def n_chunks(n: int, k: int) -> int:
    """Chunks of a pass of `assign` in blocks of `COPIED` bytes."""
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, **RATIOS)
    chunk, block = dc.measured_steps(bounds).chunk_size, COPIED // (4 * k)
    return n // block * -(-block // chunk) + -(-(n % block) // chunk)


@contextmanager
def timed_paths() -> Iterator[list[float]]:
    """Seconds of a core for augmenting paths, as they end."""
    real, seconds = torch_cpu.numba_augmenting_paths.augmenting_paths, list[float]()

    def timed(*args: Any, **options: Any) -> Any:
        begun = time.process_time()
        found = real(*args, **options)
        seconds.append(time.process_time() - begun)
        return found

    with patch.object(torch_cpu.numba_augmenting_paths, "augmenting_paths", timed):
        yield seconds


class Program:
    """Runs functions on the device, and counts what they ask for."""

    def __init__(self, launches: Launches, *, show_lines: bool = False, card: Card = CARD) -> None:
        self.launches, self.show_lines, self.card = launches, show_lines, card

    def count(self, run: Callable[[], Any]) -> Count:
        """Count one run."""
        self.launches.clear()
        with counted_work() as work, timed_paths() as seconds:
            run()
        found = self.launches
        if self.show_lines:
            print(
                *(f"    {n:6d}  {line}" for line, n in found.functions().most_common(30)), sep="\n"
            )
        return Count(
            operations=found.operations,
            reads=found.reads.total(),
            bytes=found.size,
            multiplications=found.multiplied,
            to_host=found.to_host,
            paths=work["paths"],
            host=sum(seconds),
        )

    def functions(self, n: int, k: int) -> Iterator[tuple[str, Count]]:
        """Count each function for n rows of 128 features and k clusters."""
        x, c = (torch.from_numpy(a).to(DEVICE) for a in program("assignment").data(n, k))
        bounds = dc.SizeBounds.from_ratios(k, n_samples=n, xp=torch, device=DEVICE, **RATIOS)
        source = dc.product_source(dc.feature_source(x), c)
        prices = torch.linspace(-0.1, 0.1, k, dtype=torch.float64).to(DEVICE)

        def assign() -> None:
            state, steps = dc.init_state(bounds), dc.measured_steps(bounds)
            for part in torch.split(x, max(64, COPIED // (4 * k))):
                _, state = dc.assign(part @ c.T, bounds, state, steps=steps)

        def iterate(most: int) -> None:
            dc.constrained_kmeans(x, bounds, c, max_iter=most, tol=0.0, gap=1e-2)

        def an_iteration() -> Count:
            few, many = (self.count(partial(iterate, most)) for most in ITERATIONS)
            more = ITERATIONS[1] - ITERATIONS[0]
            return Count(*(max(b - a, 0) / more for a, b in zip(few, many, strict=True)))

        yield NEAREST, self.count(lambda: nearest_centers(source, prices))
        yield ASSIGN, self.count(assign)
        for name, tol in (("1e-4", 1e-4), ("exact", 0.0)):
            solve = partial(dc.assign_source, source, bounds, tol=tol)
            yield f"`assign_source`, {name}", self.count(solve)
        yield "`constrained_kmeans`, an iteration", an_iteration()

    def operations_of_a_block(self) -> float:
        """What a block more costs a look at candidates, whatever its size."""
        found, most = [], n_blocks(MOST_DEVICE_ROWS, 8)
        for n in (most * MOST_DEVICE_ROWS, 3 * most * MOST_DEVICE_ROWS):
            x, c = (torch.from_numpy(a).to(DEVICE) for a in program("assignment").data(n, 8))
            source, box = dc.product_source(dc.feature_source(x), c), torch.ones(8).to(DEVICE)
            box = 0.01 * box.to(torch.float64)
            found.append(self.count(partial(collect_candidates, source, -box, box, width=4)))
        return (found[1].operations - found[0].operations) / (2 * most)

    def table(self, sizes: list[tuple[int, int]]) -> Iterator[str]:
        """Yield the rows of each size as they come, and then those that are extrapolated."""
        for _ in self.functions(*SMALL[0]):  # loads compiled functions
            pass
        found: dict[str, list[tuple[int, int, Count]]] = {}
        for n, k in sizes:
            for name, count in self.functions(n, k):
                found.setdefault(name, []).append((n, k, count))
                yield f"| {name} | {n:,} x {k:,} | {count.cells(self.card)} | |"
        block = self.operations_of_a_block()
        for name, (*_, (n_few, k, few), (n_many, same, many)) in found.items():
            for n in LARGE if k == same else []:
                is_measured = (n, k) == (LARGE[0], MEASURED_CLUSTERS)
                measured = MEASURED.get(name, "") if is_measured else ""
                count = extrapolated(name, (n_few, few), (n_many, many), n, k, block)
                cells = count.cells(self.card)
                yield f"| {name} | *{n:,} x {k:,}* | {cells} | {measured} |"
        for n in LARGE:
            count, card = without_scores(n, MEASURED_CLUSTERS)
            cells = count.cells(card)
            yield f"| {NEAREST}, Triton | *{n:,} x {MEASURED_CLUSTERS:,}* | {cells} |  |"


SMALL_HEAD = ["network.width=2", "network.hidden=8"]
STEPS = {
    "secu": ["heads.clusters=[10, 12]", "network.out_dim=8", *SMALL_HEAD],
    "coke": ["heads.clusters=[10]", "network.out_dim=8", *SMALL_HEAD],
    "propos": ["network.out_dim=8", "propos.n_init=1", *SMALL_HEAD],
    "gatcluster": ["network.width=2", "gatcluster.n_init=1", "gatcluster.repeats=1"],
    "mi_margin": ["heads.clusters=[10]", *SMALL_HEAD],
}


class Parts:
    """Operations by the part of a step that asks for them: the innermost one on the stack."""

    def __init__(self, launches: Launches) -> None:
        self.launches, self.found, self.stack = launches, Counter[str](), ["views"]
        self.steps = 0

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a part of this name."""

        def call(*args: Any, **options: Any) -> Any:
            self.steps += name == "ours"
            self._end()
            self.stack.append(name)
            try:
                return function(*args, **options)
            finally:
                self._end()
                self.stack.pop()

        return call

    def _end(self) -> None:
        self.found[self.stack[-1]] += self.launches.operations
        self.launches.operations = 0

    def each(self) -> dict[str, float]:
        """The mean of all steps."""
        return {name: count / max(self.steps, 1) for name, count in self.found.items()}


def step(launches: Launches, method: str, batch: int, folder: Path) -> dict[str, float]:
    """Operations of a training step by their part: the mean of those of two epochs.

    "ours" is all of a step that is neither in the network, in a backward pass, nor in the
    optimizer; "views" come between the steps, as does what an epoch begins and ends with.
    """
    images = write_images(folder / f"{batch}.npz", n=6 * batch + 1)
    cut = [f"batch_size={batch}", "evaluation.views=0", "assignment.rounding=outward"]
    if method == "gatcluster":
        cut.append(f"gatcluster.sub_batch={batch}")
    run = Run(tiny_recipe(f"{method}_digits", images, *cut, *STEPS[method]), str(DEVICE))
    run.init()
    parts, optimizer = Parts(launches), type(run.optimizer)
    with (
        patch.object(Execution, "train_step", parts.counted("ours", Execution.train_step)),
        patch.object(Network, "__call__", parts.counted("network", Network.__call__)),
        patch.object(Network, "predict", parts.counted("network", Network.predict)),
        patch.object(torch.Tensor, "backward", parts.counted("backward", torch.Tensor.backward)),
        patch.object(optimizer, "step", parts.counted("optimizer", optimizer.step)),
    ):
        launches.clear()
        run.run_epoch()
        run.run_epoch()  # in CoKe's first one nothing is learned
    return parts.each()


PARTS = ("network", "backward", "optimizer", "ours", "views")


def steps(launches: Launches, batches: list[int]) -> Iterator[str]:
    """Yield a row for each method and size of a batch."""
    with tempfile.TemporaryDirectory() as folder:
        for method in STEPS:
            for batch in batches:
                found = step(launches, method, batch, Path(folder))
                cells = " | ".join(f"{found.get(name, 0.0):.0f}" for name in PARTS)
                yield f"| {method} | {batch} | {cells} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--constants", type=Path, metavar="FILE")
    options = parser.parse_args()
    card = CARD if options.constants is None else measured_card(options.constants)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, no card\n")
    with counted_launches(name_lines=options.lines) as launches:
        counting = Program(launches, show_lines=options.lines, card=card)
        print(
            "| function | n x k | operations | reads | GB | GFLOP | MB to the host | paths |",
            end="",
        )
        print(" ms of paths | ms, model | ms, measured |")
        print("|" + "---|" * 11)
        for row in counting.table(SMALL if options.small else SIZES):
            print(row, flush=True)
        print("\n| method | batch | " + " | ".join(PARTS) + " |\n|" + "---|" * 7)
        for row in steps(launches, BATCHES[:1] if options.small else BATCHES):
            print(row, flush=True)


if __name__ == "__main__":
    main()
