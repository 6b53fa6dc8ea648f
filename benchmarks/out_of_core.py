"""`dualclust cluster` on a file that is larger than the memory it takes.

Makes an (n, d) float16 file of unequal groups on the sphere, a block at a time, in a temporary
folder; runs the command on it in a process of its own; prints time, processor time and peak memory
of that process (``VmHWM``), and whether every size is inside its bounds, counted from the labels.

    python benchmarks/out_of_core.py                          # 10,000,000 x 64, 1.3 GB on disk
    python benchmarks/out_of_core.py --n 300000 --k 100
    python benchmarks/out_of_core.py --metric euclidean --folder /scratch
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dualclust as dc

BLOCK = 100_000
NOISE = 0.5  # length of the noise added to a direction of length 1

# The child says its own peak when it ends: what `getrusage` says on Linux counts the parent's.
CHILD = """
import pathlib, re, resource, sys
from dualclust.cli.main import main
code = main(sys.argv[1:])
status = pathlib.Path("/proc/self/status")
if status.exists():
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
used = resource.getrusage(resource.RUSAGE_SELF)
print("cpu", used.ru_utime + used.ru_stime)
print("peak", peak)
sys.exit(code)
"""


class Measured(NamedTuple):
    """What one run took: seconds and bytes at most; what it wrote in result.json; sizes.

    `seconds` is wall time, with the imports; `cpu` the processor time of the process.
    """

    seconds: float
    cpu: float
    peak: int
    result: dict[str, float]
    counts: np.ndarray


def write_rows(path: Path, n: int, d: int, groups: int, seed: int = 0) -> None:
    """Write n rows around random directions; the largest group has 20 times the smallest."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((groups, d), dtype=np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = np.linspace(1.0, 20.0, groups)
    share /= share.sum()
    header = {"descr": "<f2", "fortran_order": False, "shape": (n, d)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            noise = rng.standard_normal((m, d), dtype=np.float32) * np.float32(NOISE / d**0.5)
            rows = directions[rng.choice(groups, size=m, p=share)] + noise
            file.write(rows.astype("<f2").tobytes())


def measure(path: Path, out: Path, k: int, options: list[str]) -> Measured:
    """Run the command on `path` in a process of its own."""
    command = ["cluster", str(path), "-k", str(k), "--out", str(out), *options]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command], stdout=subprocess.PIPE, text=True, check=True
    )
    seconds = time.perf_counter() - start
    labels = np.load(out / "labels.npy")
    result = json.loads((out / "result.json").read_text())
    before, _, peak = done.stdout.rpartition("peak ")
    cpu = float(before.rpartition("cpu ")[2])
    return Measured(seconds, cpu, int(peak), result, np.bincount(labels, minlength=k))


def main() -> None:
    """Print one row of a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--n", type=int, default=10_000_000, help="number of rows (default 10,000,000)")
    add("--d", type=int, default=64, help="number of columns (default 64)")
    add("--k", type=int, default=1000, help="number of clusters (default 1000)")
    add("--metric", choices=["cosine", "euclidean"], default="cosine")
    add("--max-iter", type=int, default=5, help="number of center updates (default 5)")
    add("--folder", type=Path, help="folder in which to make the temporary folder")
    options = parser.parse_args()
    n, d, k = options.n, options.d, options.k
    print(
        f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"dualclust {dc.__version__}, {options.max_iter} center updates\n"
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "X.npy"
        write_rows(path, n, d, groups=max(2, k // 2))
        size = path.stat().st_size
        run = ["--metric", options.metric, "--max-iter", str(options.max_iter), "--tol", "0"]
        found = measure(path, Path(folder) / "out", k, run)
    low, high = int(found.result["min_count"]), int(found.result["max_count"])
    inside = bool(((low <= found.counts) & (found.counts <= high)).all())
    print("| n | d | k | metric | file MB | peak MB | s | CPU s | sizes | bounds | inside | gap |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    print(
        f"| {n:,} | {d} | {k:,} | {options.metric} | {size / 1e6:.0f} | {found.peak / 1e6:.0f} | "
        f"{found.seconds:.1f} | {found.cpu:.1f} | {found.counts.min()}-{found.counts.max()} | "
        f"{low}-{high} | {'yes' if inside else 'NO'} | {found.result['relative_gap']:.1e} |"
    )


if __name__ == "__main__":
    main()
