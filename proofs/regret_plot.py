r"""Regret and violation against the number of samples: a figure, its data and fitted slopes.

The problems have a known solution. Scores are ``s_ik = x_ik - d_k`` with x uniform on [0, 1/2] and
handicaps d spread evenly over [0, 1/2], so that without prices most clusters starve. The prices
``rho* = d`` make all clusters alike, each wanted by a share 1/K: they are optimal for the bounds
``gamma_k = N/K`` (0 for cluster 0, whose price is 0), and by weak duality (R6) D(rho*) is at least
OPT, above it by a few units whatever N. Regret R is taken against D, so that it is never flattered.

The plain update has a negative R where it violates bounds: what is drawn is the *charged* regret
``R + sum_k rho*_k max(gamma_k - n_k, 0)``, which no run can make negative, and which is R
for labels inside the bounds. In the mean over independent rows theorem R, 5, bounds it by
``||rho*||^2 / (2h) + h N (1 + ||l||^2) / 2``.

Three methods in three orders: the plain update with ``h = c / sqrt(N)``, of which the theorem
speaks; `assignment.assign` with its default step and completion, which never violates a bound; and
the same again with prices learned in one pass before (under relaxed bounds, since labels forced by
completion would spoil them). Sorted:
by the cluster that is best at rho*. Adversarial: the rows that lose least by leaving their favorite
first, those that lose most last, so that the prices learned are wrong when they matter.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from ..algos import bounds
from ..algos.core.errors import MissingExtraError, MissingFileError
from ..algos.online import assignment, certificates, step_sizes
from .references.online_runs import Floats, Ints
from .theorem_r import regret as theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "METHODS",
    "ORDERS",
    "SIZES",
    "Row",
    "Slope",
    "draw",
    "known_problem",
    "measure",
    "read",
    "slopes",
]

ORDERS = ("random", "sorted", "adversarial")
METHODS = ("plain update", "assign", "assign, second pass")
DASHES = ("-", (0, (4, 2)), (0, (1, 1.2)))
SIZES: Mapping[int, tuple[int, ...]] = {
    10: (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000),
    100: (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000),
    1000: (2000, 4000, 8000, 16_000),  # 16 million scores at the end
}
SEEDS = 8
COLORS = {"random": "#3b6ea8", "sorted": "#4f9d69", "adversarial": "#d1571b"}
INK, FAINT = "#1f2328", "#7d8590"


class Row(NamedTuple):
    """One run: what it lost, and what the theorem allows (NaN where it does not speak)."""

    n_clusters: int
    n: int
    order: str
    method: str
    seed: int
    regret: float
    charged: float
    violation: int
    bound_charged: float
    bound_violation: float


class Slope(NamedTuple):
    """Slope of log quantity against log n, with a 95 % interval over seeds."""

    n_clusters: int
    order: str
    method: str
    quantity: str
    slope: float
    low: float
    high: float


def step_of(n: int, k: int) -> float:
    """Return ``h = c / sqrt(n)``, c = (k/10)^(2/3).

    It is large enough that prices arrive at their values.
    """
    return math.pow(k / 10.0, 2.0 / 3.0) / math.sqrt(n)


def known_problem(n: int, k: int, seed: int) -> tuple[Floats, Floats, bounds.SizeBounds]:
    """Return the scores (n, k) in [-1/2, 1/2], their optimal prices (k,), and the bounds.

    The number of clusters k divides n.
    """
    rng = np.random.default_rng([seed, n, k])
    prices = np.linspace(0.0, 0.5, k)
    lower = np.full(k, n // k)
    lower[0] = 0
    scores = 0.5 * rng.random((n, k)) - prices
    return scores, prices, bounds.SizeBounds.from_counts(lower, n_samples=n)


def _order(name: str, scores: Floats, prices: Floats, seed: int) -> Ints:
    """Return the indices of the rows as they arrive."""
    best = (scores + prices).argmax(axis=1)
    if name == "sorted":
        return np.argsort(best, kind="stable")
    if name == "adversarial":
        loss = scores.max(axis=1) - np.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        return np.argsort(loss, kind="stable")
    return np.random.default_rng(seed).permutation(len(scores))


def measure(n: int, k: int, seed: int) -> list[Row]:
    """Run the methods in the three orders on one problem."""
    scores, prices, limits = known_problem(n, k, seed)
    dual = certificates.dual_value(scores, prices, limits)
    h, reach = step_of(n, k), float(np.ptp(scores, axis=1).max())
    allowed = h * n * (1.0 + float((limits.lower_share**2).sum())) / 2.0
    allowed += float((prices**2).sum()) / (2.0 * h)
    short = theorem.largest_price(k, reach, h) / h
    free, rows = assignment.relaxed(limits), []
    for order in ORDERS:
        stream = scores[_order(order, scores, prices, seed)]
        for method in METHODS:
            if method == "assign":
                found = assignment.assign(stream, limits)
            elif method == "plain update":
                found = assignment.assign(stream, free, steps=step_sizes.StepRule(h))
            else:
                first = assignment.assign(stream, free, steps=step_sizes.measured_steps(limits))
                rule = step_sizes.measured_steps(limits, epoch=1)
                warm = assignment.next_pass(first.state)
                found = assignment.assign(stream, limits, warm, steps=rule)
            regret = dual - certificates.objective(stream, found.labels)
            missing = np.maximum(limits.lower - found.state.counts, 0)
            charged = regret + float(prices @ missing)
            plain = method == METHODS[0]
            rows.append(
                Row(
                    *(k, n, order, method, seed, regret, charged, int(missing.max())),
                    allowed if plain and order == "random" else math.nan,
                    short if plain else math.nan,
                )
            )
    return rows


def _values(rows: list[Row], k: int, order: str, method: str, quantity: str) -> dict[int, Floats]:
    """Return the values over seeds for each n."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if (row.n_clusters, row.order, row.method) == (k, order, method):
            found.setdefault(row.n, []).append(float(getattr(row, quantity)))
    return {n: np.asarray(values) for n, values in sorted(found.items())}


def _half_width(values: Floats) -> float:
    """Return half of the 95 % interval of the mean, by Student's t."""
    m = len(values)
    return float(stats.t.ppf(0.975, m - 1) * values.std(ddof=1) / math.sqrt(m)) if m > 1 else 0.0


def _slope(values: dict[int, Floats]) -> tuple[float, float, float] | None:
    """Return the mean slope of the seeds and its interval; None unless every value is positive."""
    table = np.stack(list(values.values()))
    if (table <= 0.0).any() or table.shape[0] < 2:
        return None
    x = np.log(np.asarray(list(values), dtype=float))
    x = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slopes = x @ np.log(table)
    half = _half_width(slopes)
    return float(slopes.mean()), float(slopes.mean()) - half, float(slopes.mean()) + half


def slopes(rows: list[Row], n_clusters: Sequence[int]) -> list[Slope]:
    """Return the slopes of all curves that are positive, by number of clusters and quantity."""
    found = []
    for k in n_clusters:
        for quantity in ("charged", "violation"):
            for method in METHODS:
                for order in ORDERS:
                    fit = _slope(_values(rows, k, order, method, quantity))
                    if fit is not None:
                        found.append(Slope(k, order, method, quantity, *fit))
    return found


def read(path: str | Path) -> list[Row]:
    """Return the runs that `draw` has written to ``regret.csv``.

    Raises
    ------
    MissingFileError
        If there is no such file.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            return [_row(line) for line in csv.DictReader(file)]
    except FileNotFoundError as error:
        msg = f"there are no runs in {path}. To fix this, write them by regret_plot.draw"
        raise MissingFileError(msg) from error


def _row(line: Mapping[str, str]) -> Row:
    k, n, seed, violation = (int(line[f]) for f in ("n_clusters", "n", "seed", "violation"))
    regret, charged = float(line["regret"]), float(line["charged"])
    allowed = float(line["bound_charged"]), float(line["bound_violation"])
    return Row(k, n, line["order"], line["method"], seed, regret, charged, violation, *allowed)


def draw(
    folder: str | Path,
    sizes: Mapping[int, Sequence[int]] = SIZES,
    n_clusters: Sequence[int] = (10, 100, 1000),
    *,
    seeds: int = SEEDS,
    progress: Callable[[str], None] | None = None,
) -> list[Slope]:
    """Measure, and write ``regret.png`` and ``regret.csv`` into `folder`.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    sizes : mapping of int to sequence of int
        Numbers of samples for each number of clusters, multiples of it.
    n_clusters : sequence of int
        One column of the figure each.
    seeds : int
        Problems of each size, at least 2.
    progress : callable, optional
        Called with a line of text per size.

    Returns
    -------
    list of Slope
        Of every curve that is positive throughout.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed; the data are written all the same.

    Notes
    -----
    The default run takes about a minute on one core. n stops at 16,000 for k = 1000, where the
    scores fill 128 MB.
    """
    rows: list[Row] = []
    for k in n_clusters:
        for n in sizes[k]:
            for seed in range(seeds):
                rows += measure(n, k, seed)
            if progress is not None:
                progress(f"k = {k}, n = {n}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "regret.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows)
    _figure(rows, n_clusters, folder / "regret.png")
    return slopes(rows, n_clusters)


def _figure(rows: list[Row], n_clusters: Sequence[int], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError as error:
        msg = "pictures need matplotlib. To fix this: pip install matplotlib"
        raise MissingExtraError(msg) from error

    figure = Figure(figsize=(3.4 * len(n_clusters) + 1.0, 7.4), dpi=160)
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(n_clusters), squeeze=False)
    for column, k in enumerate(n_clusters):
        for line, quantity in enumerate(("charged", "violation")):
            _panel(axes[line, column], rows, k, quantity)
        axes[0, column].set_title(f"{k} clusters", fontsize=11, color=INK)
        axes[1, column].set_xlabel("samples n")
    axes[0, 0].set_ylabel("regret, with missing samples\ncharged at their price")
    axes[1, 0].set_ylabel("violation: samples missing\nin the worst cluster")
    keys = [Line2D([], [], color=COLORS[o], marker="o", ms=4, label=f"{o} order") for o in ORDERS]
    keys += [
        Line2D([], [], color=FAINT, label="plain update, h = c/√n (band: 95 % over seeds)"),
        Line2D(
            [], [], color=FAINT, ls=DASHES[1], label="assign, first pass (violation 0, not drawn)"
        ),
        Line2D([], [], color=FAINT, ls=DASHES[2], lw=2, label="assign, second pass (violation 0)"),
        Line2D([], [], color=INK, lw=2, label="theorem R (regret: random order; violation: any)"),
        Line2D([], [], color=FAINT, lw=3, alpha=0.4, label="slope 1/2, for the eye"),
    ]
    figure.legend(handles=keys, loc="lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(
        "Violation grows like √n in every order; regret does in random order, and like n at worst",
        fontsize=13,
        color=INK,
    )
    figure.tight_layout(rect=(0.0, 0.13, 1.0, 0.98))
    figure.savefig(path)


def _panel(ax: Axes, rows: list[Row], k: int, quantity: str) -> None:
    """One number of clusters, one quantity, all orders and methods."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    plain_number = FuncFormatter(lambda value, _: f"{value:,.15g}")
    for method, dashes in zip(METHODS, DASHES, strict=True):
        if quantity == "violation" and method != METHODS[0]:
            continue
        for order in ORDERS:
            values = _values(rows, k, order, method, quantity)
            n = np.asarray(list(values), dtype=float)
            mean = np.asarray([v.mean() for v in values.values()])
            half = np.asarray([_half_width(v) for v in values.values()])
            shown = np.where(mean > 0.0, mean, np.nan)
            low = np.where(mean - half > 0.0, mean - half, 0.2 * shown)
            marker = "o" if method == METHODS[0] else None
            ax.plot(n, shown, color=COLORS[order], ls=dashes, lw=1.5, marker=marker, ms=3.5)
            ax.fill_between(n, low, mean + half, color=COLORS[order], alpha=0.15, lw=0)
    bound = _values(rows, k, "random", METHODS[0], f"bound_{quantity}")
    n = np.asarray(list(bound), dtype=float)
    line = np.asarray([v.mean() for v in bound.values()])
    ax.plot(n, line, color=INK, lw=2)
    start = _values(rows, k, "random", METHODS[0], quantity)
    first = float(next(iter(start.values())).mean())
    if first > 0.0:
        ax.plot(n, first * np.sqrt(n / n[0]), color=FAINT, lw=3, alpha=0.4, zorder=0)
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(n, [f"{int(v) // 1000}k" for v in n])
    ax.set_xticks([], minor=True)
    ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    ax.yaxis.set_major_formatter(plain_number)
    ax.yaxis.set_minor_formatter(plain_number)
    ax.tick_params(which="minor", labelsize=8)
    ax.grid(True, which="major", color="#e6e8eb", lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
