"""Small random problems of hostile shapes, each result against an exact reference.

    python -m tests.random_problems                     a new seed, 45 s
    python -m tests.random_problems --seed 7 --n 10000  so many problems, whatever it takes
    python -m tests.random_problems --seed 7 --only 42  one problem again, with its traceback

A problem is a function of the seed and its number. An outcome is right, or an error of ours where
one is due; anything else is printed with the command that repeats it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.random_problems.run import KINDS, new_seed, run, run_one

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_problems", description=__doc__)
    parser.add_argument("--seed", type=int, help="a new one by default")
    parser.add_argument("--n", type=int, help="problems; as many as --seconds allow by default")
    parser.add_argument("--seconds", type=float, default=45.0, help="of the processor")
    parser.add_argument("--kind", choices=sorted(KINDS), help="problems of this kind alone")
    parser.add_argument("--only", type=int, help="the problem of this number alone")
    chosen = parser.parse_args(arguments)
    seed = new_seed() if chosen.seed is None else chosen.seed
    if chosen.only is not None:
        print(run_one(seed, chosen.only, chosen.kind))
        return 0
    began, outcomes, failures = time.process_time(), Counter[str](), 0
    for done in run(seed, n=chosen.n, seconds=chosen.seconds, kind=chosen.kind):
        outcomes[f"{done.kind}: {done.outcome}"] += 1
        if done.failure:
            failures += 1
            print(done.failure, flush=True)
    spent = time.process_time() - began
    for name, count in sorted(outcomes.items()):
        print(f"{count:7} {name}")
    print(f"seed {seed}: {outcomes.total()} problems, {failures} failures, {spent:.0f} s of CPU")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
