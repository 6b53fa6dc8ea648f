"""A training run where others keep the machine busy: threads that it takes, and its `--time`.

Run as ``python benchmarks/busy.py``; ``--load 8`` processes that do nothing but count run beside
it. First an epoch is timed with one thread and with all, by turns, and what the library would take
is told. Then ``dualclust train --time`` runs with this load from its beginning, with one that
comes in its middle and one that goes there, and the times that it took are printed. Steps that
ended before the load of the last minute was that load would tell nothing, so that it comes first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from dualclust.common.cores import cores_here, cpu_count
from dualclust.train.config.run import RunConfig, load_config, override
from dualclust.train.loop.results import read_metrics
from dualclust.train.loop.run import Run

COUNTING = [sys.executable, "-c", "while True: pass"]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep a number of processes counting inside the block."""
    others = [subprocess.Popen(COUNTING) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def pictures(folder: Path) -> Path:
    """Write 600 noisy pictures of ten kinds, 32 x 32 in color."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, (10, 32, 32, 3))
    noise = 40 * rng.normal(size=(600, 32, 32, 3))
    images = np.clip(kinds[np.arange(600) % 10] + noise, 0, 255).astype(np.uint8)
    np.savez(folder / "pictures.npz", images=images)
    return folder / "pictures.npz"


def embeddings(folder: Path) -> Path:
    """Write 4,000 rows of 64 numbers around ten centers."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 64))[np.arange(4000) % 10] + rng.normal(size=(4000, 64))
    np.save(folder / "X.npy", rows.astype(np.float32))
    return folder / "X.npy"


def rates(config: RunConfig, rounds: int) -> dict[int, float]:
    """Samples a second with one thread and with all, by turns: the median of rounds."""
    found: dict[int, list[float]] = {1: [], cpu_count(): []}
    runs = {}
    for threads in found:
        runs[threads] = Run(replace(config, threads=threads), "cpu")
        runs[threads].init()
    for _ in range(rounds):
        for threads, run in runs.items():
            torch.set_num_threads(threads)
            begun = time.perf_counter()
            run.run_epoch()
            found[threads].append(run.loader.n / (time.perf_counter() - begun))
    return {threads: median(each) for threads, each in found.items()}


def timed(source: Path, folder: Path, seconds: int, *, before: int, after: int, at: float) -> None:
    """Print what a run with `--time` took, with a load that changes at a share of the time."""
    command = [
        sys.executable,
        "-m",
        "dualclust",
        "train",
        "secu",
        "--data",
        str(source),
        "-k",
        "10",
    ]
    command += ["--time", f"{seconds}s", "--out", str(folder)]
    with busy(min(before, after)):
        begun = time.perf_counter()
        with busy(before - min(before, after)):
            run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            time.sleep(at * seconds)
        with busy(after - min(before, after)):
            _, told = run.communicate()
        took = time.perf_counter() - begun
    assert run.returncode == 0, told.decode()
    planned = next(line for line in told.decode().splitlines() if "epochs = " in line)
    epochs = len(read_metrics(folder))
    print(
        f"| {before} and {after} | {seconds} | {planned.split()[2]} | {epochs} | {took:.0f} | "
        f"{took / seconds:.2f} | {load_config(folder / 'config.toml').threads} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", action="store_true", help="in place of embeddings")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds of load before all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        source = pictures(Path(made)) if options.pictures else embeddings(Path(made))
        with busy(options.load):
            time.sleep(options.settle)
            own = ["network.name=resnet18-stl", "network.width=8"] if options.pictures else []
            own = own or ["network.name=mlp", "network.hidden=256"]
            own += ["heads.clusters=[10]", "data.limit=512"]
            config = override(RunConfig(), [f'data.source="{source}"', *own])
            found = rates(config, options.rounds)
            taken = cores_here()
            best = max(found.values())
            print(
                f"load {options.load}: samples/s by threads {found}, taken {taken.threads}, ",
                end="",
            )
            print(
                f"{found.get(taken.threads, 0) / best:.2f} of the best ({taken.reason})", flush=True
            )
        print("| others before and after | --time | planned | epochs | s | of --time | threads |")
        few = options.load // 4
        for before, after in (
            (options.load, options.load),
            (few, options.load),
            (options.load, few),
        ):
            folder = Path(made, f"run-{before}-{after}")
            timed(source, folder, options.seconds, before=before, after=after, at=0.4)


if __name__ == "__main__":
    main()
