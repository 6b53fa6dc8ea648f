"""How `dualclust cluster` grows with rows, clusters, dimensions, ranks and threads.

One case after the other changes one of the five from the base case. Each is a run of the command in
processes of its own, one per rank. A table says for the first rank: the time and processor time,
the peak of its memory, how often it read each of its rows, and the bytes that it got from others,
counted where all exchanges pass (`Ranks.join`), by what they were for.

    python benchmarks/scale.py                       # some minutes
    python benchmarks/scale.py --n 20000 --k 20 --d 8 --only ranks
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.common.ranks import Ranks

BLOCK = 100_000

# Counts what passes through; the first rank says it when it ends.
CHILD = """
import json, pathlib, re, resource, sys
from collections import Counter
from dualclust.cli.main import main
from dualclust.cluster import exchange
from dualclust.common.formats.plain import PlainRows
from dualclust.common.ranks import Ranks

seen, inside = Counter(), []
join, rows, take = Ranks.join, PlainRows.rows, PlainRows.take
gather, of_ranks = exchange._gather, exchange.take_over_ranks

def counted_join(self, own, lengths):
    found = join(self, own, lengths)
    seen["rows by number" if inside else "all else"] += found.nbytes - own.nbytes
    seen["exchanges"] += 1
    return found

def counted_rows(self, start, stop):
    seen["rows"] += stop - start
    return rows(self, start, stop)

def counted_take(self, ids):
    seen["taken"] += len(ids)
    return take(self, ids)

def marked(*arguments):
    inside.append(1)
    try:
        return of_ranks(*arguments)
    finally:
        inside.pop()

Ranks.join, PlainRows.rows, PlainRows.take = counted_join, counted_rows, counted_take
from dualclust.cluster import embeddings
embeddings.take_over_ranks = marked
code = main(json.loads(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
status = pathlib.Path("/proc/self/status")
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) if status.exists() else 0
print(json.dumps({**seen, "cpu": used.ru_utime + used.ru_stime, "peak": peak, "code": code}))
"""


class Case(NamedTuple):
    """One run."""

    n: int
    k: int
    d: int
    ranks: int
    threads: int


def cases(base: Case, only: str | None) -> list[Case]:
    """The base case, and those that change one number of it."""
    changes: dict[str, list[int]] = {
        "n": [base.n // 2, base.n * 2],
        "k": [base.k // 2, base.k * 2],
        "d": [base.d // 2, base.d * 2],
        "ranks": [2, 3],
        "threads": [2],
    }
    kept = changes if only is None else {only: changes[only]}
    return [base, *(base._replace(**{name: v}) for name, some in kept.items() for v in some)]


def write_rows(path: Path, n: int, d: int, groups: int) -> None:
    """Write n float16 rows around random directions; the largest group has 5 times the smallest."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((groups, d), dtype=np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = np.linspace(1.0, 5.0, groups)
    share /= share.sum()
    with path.open("wb") as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            noise = rng.standard_normal((m, d), dtype=np.float32) * np.float32(0.7 / d**0.5)
            rows = directions[rng.choice(groups, size=m, p=share)] + noise
            file.write(rows.astype("<f2").tobytes())


def run(case: Case, folder: Path, iterations: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a case; return what its first rank counted, with the time, and its result."""
    path, out = folder / "X.npy", folder / "out"
    write_rows(path, case.n, case.d, case.k)
    words = ["cluster", str(path), "-k", str(case.k), "--out", str(out), "--tol", "0"]
    words += ["--max-iter", str(iterations), "--threads", str(case.threads)]
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"WORLD_SIZE": str(case.ranks), "LOCAL_WORLD_SIZE": str(case.ranks)}
    command, began = [sys.executable, "-c", CHILD, json.dumps(words)], time.perf_counter()
    children = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(case.ranks)
    ]
    said = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    seconds = time.perf_counter() - began
    if any(one["code"] for one in said):
        msg = f"{case} failed"
        raise SystemExit(msg)
    result = json.loads((out / "result.json").read_text())
    for file in (*out.iterdir(), path):
        file.unlink()
    out.rmdir()
    return {**said[0], "s": seconds, "all_cpu": sum(one["cpu"] for one in said)}, result


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--only", choices=["n", "k", "d", "ranks", "threads"])
    parser.add_argument("--folder", type=Path, help="for the rows; temporary by default")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} cores\n")
    titles = "n k d ranks threads|s|CPU s|CPU s of all|peak MB|reads of a row|taken|exchanges|"
    titles += "MB rows by number|MB all else|iterations|gap"
    heads = [head for part in titles.split("|")[:1] for head in part.split()]
    heads += titles.split("|")[1:]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        base = Case(options.n, options.k, options.d, 1, 1)
        for case in cases(base, options.only):
            found, result = run(case, Path(folder), options.iterations)
            start, stop = Ranks(0, case.ranks).shard(case.n, unit=MOST_ROWS)
            own = stop - start
            cells = [f"{number:,}" for number in case]
            cells += [f"{found['s']:.1f}", f"{found['cpu']:.1f}", f"{found['all_cpu']:.1f}"]
            cells += [f"{found['peak'] / 1e6:.0f}", f"{found.get('rows', 0) / own:.1f}"]
            cells += [f"{found.get('taken', 0):,}", f"{found.get('exchanges', 0):,}"]
            cells += [f"{found.get(name, 0) / 1e6:.1f}" for name in ("rows by number", "all else")]
            cells += [str(result["passes"]), f"{result['relative_gap']:.1e}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
