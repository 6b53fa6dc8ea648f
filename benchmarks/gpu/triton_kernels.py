"""The kernels in Triton: right on this card, and then how long a pass takes, by precision and tile.

Less than a minute, most of it compiling. The first part compares equal bits with the text; the
second counts labels that differ from a float64 argmax on a million rows, and times each precision
with its tile and with others beside the pass that runs without Triton.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

import dualclust as dc
from dualclust.algos.scores.nearest import best_products
from dualclust.cluster.distances import nearest_centers

from .records import Row
from .stages import Context, PartOf, Stage, attempted
from .timing import measure

__all__ = ["STAGE"]

SHAPES = [(1, 1, 1), (1_000, 10, 2), (777, 129, 33), (3_000, 300, 128), (500, 70, 700)]
SIZE, TOY = (1_000_000, 1_000, 128), (200, 5, 4)
SAME = (
    1e-12  # of the lengths: two clusters that are worth the same to this may stand for each other
)


def _missing(context: Context) -> str:
    """Why the kernels cannot run here; empty where they can."""
    if context.machine.toy:
        return "not in a rehearsal: make triton runs them in the interpreter"
    return "" if find_spec("triton") else "the package triton is not installed"


def compare(context: Context) -> Iterator[Row]:
    """Labels and values beside those of the text, to the last bit, for each precision."""
    if missing := _missing(context):
        yield {"what": missing}
        return
    from dualclust.backends import triton_products

    torch.manual_seed(context.seed)
    for precision in triton_products.TILES:
        for n, k, d in SHAPES:
            for levels in ("many", "few"):
                given = _problem(n, k, d, few=levels == "few")
                label = {"precision": precision, "n, k, d": f"{n}, {k}, {d}", "levels": levels}
                yield from attempted(context, label, partial(_compared, context, precision, given))


def _problem(n: int, k: int, d: int, *, few: bool) -> list[torch.Tensor]:
    """Rows, centers and offsets on the host; few levels make ties."""
    drawn = [torch.randn(n, d), torch.randn(k, d), torch.randn(k, dtype=torch.float64)]
    return [a.round() if few else a for a in drawn]


def _compared(context: Context, precision: Any, given: list[torch.Tensor]) -> Row:
    from dualclust.backends import triton_products

    away = [a.to(context.machine.device) for a in given]
    found = triton_products.best_products(*away, precision=precision)
    halves = torch.split(away[0], max(1, len(away[0]) // 2))
    parts = [triton_products.best_products(x, *away[1:], precision=precision) for x in halves]
    expected = best_products.reference(*given)  # type: ignore[attr-defined]
    wrong = [int((f.cpu() != e).sum()) for f, e in zip(found, expected, strict=True)]
    split = sum(int((torch.cat([p[i] for p in parts]) != found[i]).sum()) for i in range(2))
    right = not any(wrong) and not split
    return {
        "other labels": wrong[0],
        "other values": wrong[1],
        "other in two blocks": split,
        "verdict": "ok" if right else "differs",
    }


def time_passes(context: Context) -> Iterator[Row]:
    """Yield a row for the pass without Triton, and for each precision and tile."""
    if missing := _missing(context):
        yield {"what": missing}
        return
    from dualclust.backends.triton_products import TILES, Tile

    n, k, d = context.machine.size(SIZE, TOY)
    device = context.machine.device
    torch.manual_seed(0)
    unit = partial(torch.nn.functional.normalize, dim=1)
    c = unit(torch.randn(k, d, device=device))
    member = torch.randint(k, (n,), device=device)
    x = unit(c[member] + 2 * torch.randn(n, d, device=device) / d**0.5)
    prices = torch.linspace(-0.1, 0.1, k, dtype=torch.float64, device=device)
    source = dc.product_source(dc.feature_source(x), c)
    plain = measure(context.machine, [partial(nearest_centers, source, prices)], repeats=5, warm=1)
    yield {"precision": "without Triton", "tile": "", **plain.row()}
    tiles = [(p, tile) for p, tile in TILES.items()]
    tiles += [("tf32x3", Tile(128, 128, 32, 8, 2)), ("tf32x3", Tile(64, 64, 32, 4, 3))]
    tiles += [("tf32", Tile(128, 64, 32, 8, 3)), ("ieee", Tile(64, 64, 32, 4, 2))]
    for precision, tile in tiles:
        label = {"precision": precision, "tile": " ".join(map(str, tile))}
        given = partial(_timed, context, x, c, prices, precision, tile, plain.median)
        yield from attempted(context, label, given)


def _timed(
    context: Context,
    x: torch.Tensor,
    c: torch.Tensor,
    prices: torch.Tensor,
    precision: Any,
    tile: Any,
    plain: float,
) -> Row:
    from dualclust.backends import triton_products

    options = {"precision": precision, "tile": tile}
    call = partial(triton_products.best_products, x, c, prices, **options)
    labels, _ = call()
    wrong = close = 0
    error = triton_products.relative_error(x.shape[1], precision)
    for rows, own in zip(torch.split(x, 2**15), torch.split(labels, 2**15), strict=True):
        scores = rows.double() @ c.double().T + prices
        best, second = scores.topk(2, dim=1).values.T
        wrong += int((best - scores.gather(1, own[:, None])[:, 0] > SAME).sum())
        size = rows.double().norm(dim=1) * c.double().norm(dim=1).max() + prices.abs().max()
        close += int((best - second <= 2 * error * size).sum())
    found = measure(context.machine, [call], repeats=7, warm=1, most=2.0)
    return {
        **found.row(),
        "times without": found.median / plain,
        "close, %": 100 * close / len(x),
        "wrong labels": wrong,
        "verdict": "ok" if not wrong else "differs",
    }


STAGE = Stage(
    "triton",
    1.0,
    (
        PartOf("triton bits", compare, "Beside the text of `best_products` on the processor."),
        PartOf(
            "triton passes",
            time_passes,
            "`tile`: rows, clusters, features, warps, stages. `close`: rows that are computed "
            "again in float64, by the bound on the error.",
        ),
    ),
    "Kernels in Triton",
)
