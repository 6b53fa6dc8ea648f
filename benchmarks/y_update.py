"""Compare the pseudo-label update of MI + margin by Newton steps with the published EM.

Prints, for each size, kind of outputs and balance lambda (beta = 1, u uniform): the Newton steps
to a residual of 1e-10 of the optimality conditions with their time and the certified gap, and
the steps of EM to the same residual, or the residual it had reached
when its time was up. Outputs are softmax of N(0, 1) logits with a class bias ("soft"), of 8 times
these ("sharp"), and sharp ones rounded to half precision, a tenth of the clusters absent everywhere
("zeros"). One core.

    python benchmarks/y_update.py                      # an hour; 2 GB
    python benchmarks/y_update.py --m 2500 --k 100     # one size
    python benchmarks/y_update.py --small              # seconds
"""

from __future__ import annotations

import argparse
import itertools
import math
import platform
import time

import numpy as np
from numpy.typing import NDArray

import dualclust as dc
from dualclust.algos.pseudo_labels._interior_point import Problem
from dualclust.algos.pseudo_labels._newton import bound, init, iterate, residual
from dualclust.algos.pseudo_labels.em import em_step

SIZES_M, SIZES_K = [250, 2500, 25000], [10, 100, 1000]
KINDS, BALANCES = ["soft", "sharp", "zeros"], [1.0, 10.0, 100.0]
ACCURACY = 1e-10
MOST = 40

Floats = NDArray[np.float64]


def outputs(m: int, k: int, kind: str) -> Floats:
    """Return rows on the simplex."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(m, k))
    logits += rng.normal(size=k)
    if kind != "soft":
        logits *= 8.0
    logits -= logits.max(axis=1, keepdims=True)
    sigma: Floats = np.exp(logits, out=logits)
    sigma /= sigma.sum(axis=1, keepdims=True)
    if kind == "zeros":
        sigma = sigma.astype(np.float16).astype(np.float64)
        sigma[:, rng.permutation(k)[: max(1, k // 10)]] = 0.0
        alive = np.flatnonzero(sigma.any(axis=0))
        sigma[~sigma.any(axis=1), alive[0]] = 1.0
        sigma /= sigma.sum(axis=1, keepdims=True)
    return sigma


def problem_of(sigma: Floats, balance: float) -> Problem:
    """Return the scaled problem that `pseudo_labels` solves, for a tight tolerance."""
    m, k = sigma.shape
    total = 1.0 + balance
    shares = np.full(k, m * balance / (total * k))
    return Problem(
        sigma, np.asarray(1.0 / total), shares, np.asarray(1e-13 / k), max(1, 2**17 // k), False
    )


def newton(sigma: Floats, balance: float) -> tuple[int, float, float, float]:
    """Steps to the accuracy, their seconds, the certified gap, and the residual, at the end."""
    problem = problem_of(sigma, balance)
    going, seconds, steps = np.asarray(False), 0.0, 0
    start = time.perf_counter()
    state = init(problem)
    while True:
        seconds += time.perf_counter() - start
        reached = float(residual(problem, state.labels))
        if reached <= ACCURACY or steps == MOST:
            return steps, seconds, float(bound(problem, state)) * (1.0 + balance), reached
        start = time.perf_counter()
        state, steps = iterate(problem, state, going), steps + 1


def em(sigma: Floats, balance: float, most: float) -> tuple[int, float, float]:
    """Steps of EM, their seconds, and the residual, at the accuracy or after `most` seconds."""
    problem = problem_of(sigma, balance)
    floored = np.clip(sigma, 1e-12, None)
    labels = floored / floored.sum(axis=1, keepdims=True)
    steps, seconds, reached, look = 0, 0.0, math.inf, 1
    while reached > ACCURACY and seconds < most:
        start = time.perf_counter()
        for _ in range(look):
            labels = em_step(sigma, labels, fairness_weight=balance)
        seconds += time.perf_counter() - start
        steps += look
        look = max(1, min(steps // 4, int(0.2 * most * steps / seconds)))
        reached = float(residual(problem, tuple(labels[rows] for rows in problem.rows())))
    return steps, seconds, reached


def compare(m: int, k: int, kind: str, balance: float, em_seconds: float) -> str:
    """Return one row of the table."""
    sigma = outputs(m, k, kind)
    steps, seconds, gap, reached = newton(sigma, balance)
    shown = f"{steps}" if reached <= ACCURACY else f"{reached:.0e} after {steps}"
    slow, slow_seconds, left = em(sigma, balance, em_seconds)
    em_shown = f"{slow:,}" if left <= ACCURACY else f"{left:.0e} after {slow:,}"
    return (
        f"| {m:,} | {k:,} | {kind} | {balance:g} | **{shown}** | {seconds:.3g} | {gap:.0e} | "
        f"{em_shown} | "
        f"{slow_seconds:.2g} |"
    )


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="run (250, 10) only, EM for 0.2 s")
    parser.add_argument("--m", type=int, nargs="*", default=SIZES_M, help="numbers of samples")
    parser.add_argument("--k", type=int, nargs="*", default=SIZES_K, help="numbers of clusters")
    parser.add_argument("--kind", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--balance", type=float, nargs="*", default=BALANCES)
    parser.add_argument("--em-seconds", type=float, default=2.0, help="seconds for EM (default 2)")
    options = parser.parse_args()
    if options.small:
        options.m, options.k, options.em_seconds = [250], [10], 0.2
    versions = f"numpy {np.__version__}, dualclust {dc.__version__}"
    print(f"{platform.machine()}, one core, Python {platform.python_version()}, {versions}\n")
    print("| m | k | outputs | lambda | Newton to 1e-10 | s | gap | EM to 1e-10 | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for m, k, kind, balance in itertools.product(
        options.m, options.k, options.kind, options.balance
    ):
        print(compare(m, k, kind, balance, options.em_seconds), flush=True)


if __name__ == "__main__":
    main()
