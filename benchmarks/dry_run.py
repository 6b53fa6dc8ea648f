"""How far the time that ``dualclust cluster --dry-run`` says is from the time of the run.

    python -m benchmarks.dry_run [MNIST.npz]

CPU seconds of the process, on one thread: other jobs on the machine do not count. Five kinds of
rows, the last of them for --k-range. Without a file of MNIST, the digits of scikit-learn are
repeated with noise.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from dualclust.cli.main import build_parser, main
from dualclust.cluster import choice, plan
from dualclust.cluster.options import check_options, fill_in_metric
from dualclust.cluster.problem import open_valid, read_inputs
from dualclust.cluster.progress import Meter
from dualclust.common.ranks import Ranks

from .families import heavy_tails


def pixels(archive: str | None) -> np.ndarray:
    """Pictures as rows: 60,000 of MNIST, or digits with noise."""
    if archive is not None:
        with np.load(archive) as held:
            images: Any = held["train_images"]
        return np.asarray(images.reshape(len(images), -1), dtype=np.float32)
    from sklearn.datasets import load_digits

    rng, x = np.random.default_rng(0), load_digits().data
    noisy = x[rng.integers(len(x), size=60_000)] + rng.standard_normal((60_000, 64))
    return np.asarray(noisy, dtype=np.float32)


def mixture(n: int, k: int) -> np.ndarray:
    """Rows around k centers that overlap."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((k, 64))
    x = centers[rng.integers(k, size=n)] + 1.5 * rng.standard_normal((n, 64))
    return np.asarray(x, dtype=np.float32)


def near_duplicates(n: int) -> np.ndarray:
    """Each row about ten times, but for 1e-4 of it."""
    rng, few = np.random.default_rng(0), mixture(n // 10, 40)
    x = few[rng.integers(len(few), size=n)] + 1e-4 * rng.standard_normal((n, 64))
    return np.asarray(x, dtype=np.float32)


def jobs(archive: str | None) -> Iterator[tuple[str, np.ndarray, list[str]]]:
    """Name, rows and options of each job."""
    yield (
        "heavy tails (60k, 64), k = 150",
        heavy_tails(60_000, 210, 0),
        ["-k", "150", "--lower", "0.75", "--upper", "1.5"],
    )
    name = "MNIST" if archive else "digits"
    yield f"{name} (60k), k = 30, euclidean", pixels(archive), ["-k", "30", "--metric", "euclidean"]
    yield "mixture (100k, 64), k = 100", mixture(100_000, 100), ["-k", "100"]
    yield "near-duplicates (60k, 64), k = 60", near_duplicates(60_000), ["-k", "60"]
    yield "mixture (100k, 64), k = 5, 10, 20", mixture(100_000, 10), ["--k-range", "5,10,20"]


def expected(words: list[str]) -> tuple[float, float]:
    """CPU seconds that a dry run says, and those that it takes."""
    options = build_parser().parse_args(words)
    begun, ranks, meter, clock = time.process_time(), Ranks(0, 1), Meter(False), time.process_time
    if options.k_range is None:
        check_options(options)
        rows, _ = open_valid(options, ranks, meter, options.metric)
        inputs = read_inputs(options, rows)
        seconds = plan.expected_time(options, inputs, np.matmul, clock=clock).seconds
    else:
        fill_in_metric(options)
        rows, _ = open_valid(options, ranks, meter, options.metric)
        ks, shares = choice.k_range(options.k_range), [(0.9, 1.1)]
        seconds = choice.expected_time(options, rows, ks, shares, np.matmul, clock=clock)
    return seconds, time.process_time() - begun


def show() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("archive", nargs="?")
    print("| job | said, CPU s | took | said / took | within two | the dry run took |")
    print("|---|---|---|---|---|---|")
    for name, x, options in jobs(parser.parse_args().archive):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "X.npy")
            np.save(path, x)
            words = ["cluster", str(path), *options]
            said, own = expected(words)
            begun = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                code = main(words)
            took = time.process_time() - begun
        assert code == 0
        fits = "yes" if 0.5 <= said / took <= 2.0 else "NO"
        print(
            f"| {name} | {said:.1f} | {took:.1f} | {said / took:.2f} | {fits} | {own:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(show())
