r"""Best clusters of products of rows and centers in Triton, without an n x k array in memory.

Three kernels, of which none has an atomic operation:

1. `_best_two`: product by `tl.dot` in float32, tf32 or three products of tf32, offsets, the best
   and the second best of each row, in tiles of rows and clusters. A row is *close* unless the best
   one leads by more than twice a bound on the error of a score (`relative_error`).
2. `_best_in_float64`: the close rows again, by sums in float64 in the order of the features.
3. `_values`: the score of each row's label by the same sums.

A product of two float32 numbers is exact in float64, so that the bits of 2. and 3. are those of the
reference text, on any machine. A row that is not close has the label that 2. would give it: labels
and values depend neither on the precision of 1. nor on tiles or blocks of rows.

===================  =====================================================================
symbol               meaning
===================  =====================================================================
:math:`\theta`       relative error of a product of two operands
:math:`m`            additions of a score
:math:`\delta`       ``relative_error``: :math:`|\hat s_{ik} - s_{ik}| \le
                     \delta (\|x_i\| \max_k \|c_k\| + \max_k |o_k|)` and an underflow
===================  =====================================================================
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["PRECISION", "TILES", "Tile", "best_products", "relative_error"]

Precision = Literal["ieee", "tf32x3", "tf32"]

PRECISION: Precision = "tf32x3"
"""How products are computed first. It decides how long that takes and how many rows are computed
again, and no label."""

OPERANDS = {"ieee": 0.0, "tf32x3": 2.0**-18, "tf32": 2.0**-9 + 2.0**-20}
TERMS = {"ieee": 1, "tf32x3": 3, "tf32": 1}
"""Relative error of a product of operands, and products for each. An operand of tf32 keeps 10 bits
behind the point, at worst truncated: 2^-10 of it is lost, of a product of two 2^-9 + 2^-20. The
three products leave out that of both rests, 2^-20, and what truncates each rest, 2^-20 again."""

ADDITION = 2.0**-22
"""Relative error of an addition: twice that of a truncated float32. A tensor core aligns the terms
of one step to the largest and truncates them (Fasi, Higham, Mikaitis and Pranesh, 2021, "Numerical
behavior of NVIDIA tensor cores"): each loses 2^-23 of the largest, whatever the order is."""

MOST_FEATURES = 2**16  # beyond, every row is close: the bound has few bits left, too
SMALLEST = 2.0**-120  # a product or a rest below 2^-126 may be taken for 0


class Tile(NamedTuple):
    """Shape of the tiles of `_best_two`, and the warps and stages that run one."""

    rows: int
    clusters: int
    features: int
    warps: int
    stages: int


TILES: dict[Precision, Tile] = {
    "ieee": Tile(64, 64, 16, 4, 2),
    "tf32x3": Tile(128, 64, 32, 8, 3),
    "tf32": Tile(128, 128, 32, 8, 3),
}
"""Compiled for compute capability 9.0 they need less than 100 KiB of shared memory and spill no
register; a product of 128 features at once in "ieee" spills 6,752 bytes a thread."""

EXACT_TILE = {"ROWS": 32, "CLUSTERS": 64}
VALUE_ROWS = 128


@triton.jit
def _best_two(
    rows,
    centers,
    offsets,
    bound,
    labels,
    close,
    n,
    k,
    d,
    row_step,
    center_step,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    FEATURES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The best cluster of each row, and whether it leads by no more than the errors."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    feature, is_row = tl.arange(0, FEATURES), row < n
    starts = rows + row[:, None] * row_step
    squares = tl.zeros((ROWS,), dtype=tl.float32)
    for done in range(0, d, FEATURES):
        j = done + feature
        there = is_row[:, None] & (j < d)[None, :]
        x = tl.load(starts + j[None, :], mask=there, other=0.0)
        squares += tl.sum(x * x, axis=1)
    first = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    second = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    label = tl.zeros((ROWS,), dtype=tl.int32)
    for start in range(0, k, CLUSTERS):
        cluster = start + tl.arange(0, CLUSTERS)
        is_cluster = cluster < k
        columns = centers + cluster.to(tl.int64)[None, :] * center_step
        scores = tl.zeros((ROWS, CLUSTERS), dtype=tl.float32)
        for done in range(0, d, FEATURES):
            j = done + feature
            there = is_row[:, None] & (j < d)[None, :]
            x = tl.load(starts + j[None, :], mask=there, other=0.0)
            known = is_cluster[None, :] & (j < d)[:, None]
            c = tl.load(columns + j[:, None], mask=known, other=0.0)
            scores = tl.dot(x, c, scores, input_precision=PRECISION)
        offset = tl.load(offsets + cluster, mask=is_cluster, other=float("-inf"))
        scores += offset[None, :]
        most = tl.max(scores, axis=1)
        best = tl.where(scores == most[:, None], cluster[None, :], 2147483647)
        own = tl.min(best, axis=1)
        next_most = tl.max(
            tl.where(cluster[None, :] == own[:, None], float("-inf"), scores), axis=1
        )
        second = tl.maximum(tl.minimum(first, most), tl.maximum(second, next_most))
        label = tl.where(most > first, own, label)
        first = tl.maximum(first, most)
    factor, added, least = tl.load(bound), tl.load(bound + 1), tl.load(bound + 2)
    radius = factor * tl.sqrt(squares + least) + added
    is_close = (first - second > radius) == 0  # also where one of them is not a number
    tl.store(labels + row, label.to(tl.int64), mask=is_row)
    tl.store(close + row, is_close.to(tl.int8), mask=is_row)


@triton.jit
def _best_in_float64(
    rows,
    centers,
    offsets,
    ids,
    labels,
    n,
    k,
    d,
    row_step,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """The best cluster of some rows; centers are (d, k)."""
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = place < n
    row = tl.load(ids + place, mask=is_row, other=0)
    first = tl.full((ROWS,), float("-inf"), dtype=tl.float64)
    label = tl.zeros((ROWS,), dtype=tl.int64)
    for start in range(0, k, CLUSTERS):
        cluster = start + tl.arange(0, CLUSTERS)
        is_cluster = cluster < k
        scores = tl.zeros((ROWS, CLUSTERS), dtype=tl.float64)
        for j in range(0, d):
            x = tl.load(rows + row * row_step + j, mask=is_row, other=0.0).to(tl.float64)
            at = centers + tl.cast(j, tl.int64) * k + cluster
            c = tl.load(at, mask=is_cluster, other=0.0).to(tl.float64)
            scores += x[:, None] * c[None, :]
        offset = tl.load(offsets + cluster, mask=is_cluster, other=float("-inf"))
        scores += offset[None, :]
        most = tl.max(scores, axis=1)
        best = tl.where(scores == most[:, None], cluster[None, :], 2147483647)
        label = tl.where(most > first, tl.min(best, axis=1).to(tl.int64), label)
        first = tl.maximum(first, most)
    tl.store(labels + row, label, mask=is_row)


@triton.jit
def _values(
    rows, centers, offsets, labels, values, n, d, row_step, center_step, ROWS: tl.constexpr
):
    """The score of each row's label."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n
    own = tl.load(labels + row, mask=is_row, other=0)
    score = tl.zeros((ROWS,), dtype=tl.float64)
    for j in range(0, d):
        x = tl.load(rows + row * row_step + j, mask=is_row, other=0.0).to(tl.float64)
        c = tl.load(centers + own * center_step + j, mask=is_row, other=0.0).to(tl.float64)
        score += x * c
    score += tl.load(offsets + own, mask=is_row, other=0.0)
    tl.store(values + row, score, mask=is_row)


def relative_error(n_features: int, precision: Precision) -> float:
    """Return the bound on a score's error, relative to the lengths and the largest offset.

    Of the first product, of offsets rounded to float32, and of the sums in float64; a sixteenth
    more, for products of errors and the rounding of the bound itself.
    """
    if n_features > MOST_FEATURES:
        return math.inf
    n_additions = TERMS[precision] * n_features + 4
    added = math.expm1(n_additions * math.log1p(ADDITION))
    return 1.0625 * (OPERANDS[precision] + added)


def _bound(centers: Tensor, offsets: Tensor, precision: Precision) -> Tensor:
    """Factor of a row's length, what is added, and what its square may have lost: float32, (3,)."""
    d = centers.shape[1]
    twice, lost = 2.0 * relative_error(d, precision), SMALLEST * d
    length = torch.linalg.vector_norm(centers, dim=1, dtype=torch.float64).amax()
    most = offsets.abs().masked_fill(offsets == -math.inf, 0.0).amax()  # leaves a cluster out
    factor, added = twice * length + lost, twice * most + lost * (1.0 + length)
    return torch.stack([factor, added, torch.full_like(most, lost)]).to(torch.float32)


def best_products(
    rows: Tensor,
    centers: Tensor,
    offsets: Tensor,
    *,
    precision: Precision | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """See `dualclust.algos.scores.nearest.best_products`. Reads how many rows are close.

    Parameters
    ----------
    rows : (n, d) float32 tensor
    centers : (k, d) float32 tensor
    offsets : (k,) float64 tensor
        Contiguous.
    precision : {"ieee", "tf32x3", "tf32"}, optional
        `PRECISION` by default.
    tile : Tile, optional
        That of `TILES` by default.
    """
    precision = precision or PRECISION
    rows, centers = (a if a.stride(1) == 1 else a.contiguous() for a in (rows, centers))
    # Kernels run on the current card.
    with torch.accelerator.device_index(rows.device.index):
        labels, close = _labels(
            rows, centers, offsets, precision, TILES[precision] if tile is None else tile
        )
        _label_again(rows, centers, offsets, labels, close)
        return labels, _valued(rows, centers, offsets, labels)


def _labels(
    rows: Tensor, centers: Tensor, offsets: Tensor, precision: Precision, tile: Tile
) -> tuple[Tensor, Tensor]:
    """Labels by the first product, and which rows are close."""
    n, d = rows.shape
    labels = torch.empty(n, dtype=torch.int64, device=rows.device)
    close = torch.empty(n, dtype=torch.int8, device=rows.device)
    if n:
        _best_two[(triton.cdiv(n, tile.rows),)](
            rows,
            centers,
            offsets.to(torch.float32),
            _bound(centers, offsets, precision),
            labels,
            close,
            n,
            centers.shape[0],
            d,
            rows.stride(0),
            centers.stride(0),
            ROWS=tile.rows,
            CLUSTERS=tile.clusters,
            FEATURES=tile.features,
            PRECISION=precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return labels, close


def _label_again(
    rows: Tensor, centers: Tensor, offsets: Tensor, labels: Tensor, close: Tensor
) -> None:
    """Replace the labels of close rows; the host reads how many there are."""
    (ids,) = torch.nonzero(close, as_tuple=True)
    if m := len(ids):
        _best_in_float64[(triton.cdiv(m, EXACT_TILE["ROWS"]),)](
            rows,
            centers.T.contiguous(),
            offsets,
            ids,
            labels,
            m,
            centers.shape[0],
            rows.shape[1],
            rows.stride(0),
            **EXACT_TILE,
        )


def _valued(rows: Tensor, centers: Tensor, offsets: Tensor, labels: Tensor) -> Tensor:
    """The scores of the labels."""
    n, d = rows.shape
    values = torch.empty(n, dtype=torch.float64, device=rows.device)
    if n:
        _values[(triton.cdiv(n, VALUE_ROWS),)](
            rows,
            centers,
            offsets,
            labels,
            values,
            n,
            d,
            rows.stride(0),
            centers.stride(0),
            ROWS=VALUE_ROWS,
        )
    return values
