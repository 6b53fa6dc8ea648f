"""Time bounds on groups, linked rows, and rows left out, beside the plain optimum of the scores.

Four groups, of which two fifths of the rows prefer some clusters; each group keeps 0.8 to 1.25 of
its mean in each cluster, beside the sizes of the family (`families.py`). CPU seconds, least of the
rounds, which take turns. The peer is the whole program by HiGHS, where n k is small.

    python benchmarks/constraints.py --n 100000 --k 100
    python benchmarks/constraints.py --n 500 --k 10 --peer
    python benchmarks/constraints.py --links

Links are n / 100 pairs: of any two rows, or of two that have one label in the plain optimum.

With --sizes: rows that count by their sizes, whole numbers from 1 to 10 or lognormal ones, with the
bounds of the family on loads; and peak memory of the allocations that Python traces, beside the
scores. The peer is then the whole program by HiGHS, in 60 seconds of wall time.

    python benchmarks/constraints.py --sizes --n 100000 --k 100
    python benchmarks/constraints.py --sizes --n 200 --k 10 --peer
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from families import FAMILIES, Instance
from numpy.typing import NDArray

import dualclust as dc
from dualclust.algos.bounds import GroupBounds, LoadBounds
from dualclust.algos.offline.grouped import (
    LinkedAssignment,
    assign_grouped,
    assign_linked,
    assign_partial,
)
from dualclust.algos.offline.weighted import assign_weighted

PANEL = "normal", "mixture 0.7", "crowded", "heavy 1.1", "forbidden"


def groups_of(made: Instance, seed: int) -> NDArray[np.int64]:
    """Four groups: two fifths of the rows have that of their best cluster."""
    rng = np.random.default_rng(seed)
    n = len(made.scores)
    own, other = made.scores.argmax(axis=1) % 4, rng.integers(0, 4, n)
    return np.where(rng.random(n) < 0.4, own, other).astype(np.int64)


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def whole_program(made: Instance, groups: GroupBounds) -> Callable[[], object]:
    """Return the peer: HiGHS on all n k pairs, as a linear program whose corners are whole."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, kron, vstack

    n, k = made.scores.shape
    lines = [kron(np.ones((1, n)), eye_array(k))]
    lines += [kron((groups.groups == g)[None, :].astype(float), eye_array(k)) for g in range(4)]
    a = vstack(lines)
    low = np.concatenate([made.bounds.lower, groups.lower.ravel()])
    high = np.concatenate([made.bounds.upper, groups.upper.ravel()])
    return lambda: linprog(
        -made.scores.ravel().astype(float),
        A_ub=vstack([a, -a]).tocsr(),
        b_ub=np.concatenate([high, -low]),
        A_eq=csr_array(kron(eye_array(n), np.ones((1, k)))),
        b_eq=np.ones(n),
        method="highs",
    )


def links(options: argparse.Namespace) -> None:
    """Print the table of pairs of rows as Markdown."""
    print("| family | plain, s | pairs | s | x plain | proven gap | rows repaired |")
    print("|---|---|---|---|---|---|---|")
    n, rng = options.n, np.random.default_rng(options.seed)
    for family in PANEL:
        made = FAMILIES[family](n, options.k, options.seed)
        calls = [lambda made=made: dc.assign_exact(made.scores, made.bounds)] * options.rounds  # type: ignore[misc]
        plain = min(map(seconds, calls))
        order = np.argsort(calls[0]().labels, kind="stable")
        alike = rng.permutation(order[: n // 2 * 2].reshape(-1, 2))[: n // 100]
        any_two = rng.permutation(n)[: n // 100 * 2].reshape(-1, 2)
        for name, pairs in (
            ("any two together", {"must_link": any_two}),
            ("alike together", {"must_link": alike}),
            ("any two apart", {"cannot_link": any_two}),
            ("alike apart", {"cannot_link": alike}),
        ):
            found: list[LinkedAssignment] = []

            def call(made: Instance = made, pairs: dict[str, NDArray[np.int64]] = pairs) -> None:
                found.append(assign_linked(made.scores, made.bounds, **pairs))  # noqa: B023

            took = min(seconds(call) for _ in range(options.rounds))
            last = found[-1]
            print(
                f"| {family} | {plain:.3f} | {name} | {took:.2f} | {took / plain:.1f} "
                f"| {last.gap:.1e} | {last.n_repaired} |",
                flush=True,
            )


SIZES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "1 to 10": lambda rng, n: rng.integers(1, 11, n).astype(float),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 1.0, n),
}


def peak(call: Callable[[], object]) -> int:
    """Peak of the memory that Python traces in one call."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def whole_rows(made: Instance, bounds: LoadBounds) -> tuple[str, float, float]:
    """Return what the peer says: seconds, value and bound of HiGHS on all n k pairs."""
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import eye_array, kron

    n, k = made.scores.shape
    begun = time.perf_counter()
    found = milp(
        -made.scores.ravel().astype(float),
        constraints=[
            LinearConstraint(kron(eye_array(n), np.ones((1, k))).tocsr(), 1.0, 1.0),
            LinearConstraint(
                kron(bounds.sizes[None, :], eye_array(k)).tocsr(), bounds.lower, bounds.upper
            ),
        ],
        bounds=(0.0, 1.0),
        integrality=np.ones(n * k),
        options={"time_limit": 60.0, "mip_rel_gap": 0.0},
    )
    seconds = time.perf_counter() - begun
    value = float("nan") if found.x is None else -found.fun
    return f"{seconds:.1f}{'' if found.status == 0 else ' (limit)'}", value, -found.mip_dual_bound


def weighted(options: argparse.Namespace) -> None:
    """Print the table of rows with sizes."""
    n, k = options.n, options.k
    peer = " HiGHS, s | HiGHS lacks |" if options.peer else ""
    head = "| family | sizes | plain, s | sizes, s | x plain | plain, MB | sizes, MB | status |"
    print(f"{head} gap |{peer}")
    print("|---|---|---|---|---|---|---|---|---|" + "---|---|" * options.peer)
    for family in PANEL:
        made = FAMILIES[family](n, k, options.seed)
        if options.peer and not np.isfinite(made.scores).all():
            continue  # the peer is not told which pairs are forbidden
        low, high = (np.asarray(b) / n for b in (made.bounds.lower, made.bounds.upper))
        for name, draw in SIZES.items():
            sizes = draw(np.random.default_rng(options.seed + 1), n)
            lower, upper = (sizes.sum() * side for side in (low, high))
            bounds = LoadBounds.from_loads(sizes, k, lower=lower, upper=upper)
            calls: list[Callable[[], object]] = [
                lambda made=made: dc.assign_exact(made.scores, made.bounds),  # type: ignore[misc]
                lambda made=made, bounds=bounds: assign_weighted(made.scores, bounds),  # type: ignore[misc]
            ]
            found = assign_weighted(made.scores, bounds)
            times = np.asarray([[seconds(call) for call in calls] for _ in range(options.rounds)])
            plain, ours = times.min(axis=0)
            first, second = (peak(call) for call in calls)
            line = f"| {family} | {name} | {plain:.3f} | {ours:.3f} | {ours / plain:.1f} "
            line += (
                f"| {first / 2**20:.0f} | {second / 2**20:.0f} | {found.status} | {found.gap:.0e} |"
            )
            if options.peer:
                took, value, bound = whole_rows(made, bounds)
                line += f" {took} | {(bound - value) / abs(bound):.0e}, "
                line += f"{(found.objective - value) / abs(value):+.0e} ours |"
            print(line, flush=True)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", action="store_true", help="HiGHS on all pairs as well")
    parser.add_argument("--links", action="store_true", help="pairs of rows in place of groups")
    parser.add_argument("--sizes", action="store_true", help="rows that have sizes instead")
    options = parser.parse_args()
    if options.links:
        links(options)
        return
    if options.sizes:
        weighted(options)
        return
    n, k = options.n, options.k
    print("| family | plain, s | groups, s | x plain | 1 % out, s | x plain | HiGHS, s | status |")
    print("|---|---|---|---|---|---|---|---|")
    for family in PANEL:
        made = FAMILIES[family](n, k, options.seed)
        groups = GroupBounds.from_shares(groups_of(made, options.seed), k, lower=0.8, upper=1.25)
        low = np.maximum(np.asarray(made.bounds.lower) - n // 100, 0).tolist()
        high, most = np.asarray(made.bounds.upper).tolist(), float(made.scores.max())
        found = assign_grouped(made.scores, made.bounds, groups)
        calls: list[Callable[[], object]] = [
            lambda made=made: dc.assign_exact(made.scores, made.bounds),  # type: ignore[misc]
            lambda made=made, groups=groups: assign_grouped(made.scores, made.bounds, groups),  # type: ignore[misc]
            lambda made=made, low=low, high=high, most=most: assign_partial(  # type: ignore[misc]
                made.scores, max_out=n // 100, out_score=most, min_count=low, max_count=high
            ),
        ]
        if options.peer and np.isfinite(made.scores).all():
            calls.append(whole_program(made, groups))
        times = np.asarray([[seconds(call) for call in calls] for _ in range(options.rounds)])
        plain, grouped, partial, *peer = times.min(axis=0)
        print(
            f"| {family} | {plain:.3f} | {grouped:.2f} | {grouped / plain:.1f} | {partial:.2f} "
            f"| {partial / plain:.1f} | {f'{peer[0]:.2f}' if peer else ''} | {found.status} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
