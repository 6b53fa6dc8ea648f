"""PyTorch tensors run by the numba engines: on the CPU in the same memory, from a GPU by a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import (
    numba_augmenting_paths,
    numba_candidates,
    numba_engine,
    numba_free_rows,
    numba_smoothed_dual,
)

__all__ = [
    "assign_stream",
    "augmenting_paths",
    "curvature",
    "curvature_product",
    "regrets",
    "select_candidates",
    "soft_counts",
    "split_rows",
]


def assign_stream(
    scores: Tensor, rho: Tensor, rho_up: Tensor, counts: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.online.assignment.assign_stream`."""
    return _run(numba_engine.assign_stream, scores, rho, rho_up, counts, **options)  # type: ignore[no-any-return]


def select_candidates(
    scores: Tensor, low: Tensor, high: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._candidates.select_candidates`."""
    return _run(numba_candidates.select_candidates, scores, low, high, **options)  # type: ignore[no-any-return]


def split_rows(
    clusters: Tensor, values: Tensor, n_candidates: Tensor, truncation: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.offline._free_rows.split_rows`."""
    lists = clusters, values, n_candidates, truncation
    return _run(numba_free_rows.split_rows, *lists, **options)  # type: ignore[no-any-return]


def regrets(values: Tensor, clusters: Tensor, prices: Tensor, slots: Tensor) -> Tensor:
    """See `dualclust.algos.offline._proof.regrets`."""
    return _run(numba_candidates.regrets, values, clusters, prices, slots)  # type: ignore[no-any-return]


def soft_counts(
    values: Tensor, clusters: Tensor, prices: Tensor, **options: Any
) -> tuple[float, Tensor, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`."""
    return _run(numba_smoothed_dual.soft_counts, values, clusters, prices, **options)  # type: ignore[no-any-return]


def curvature(probabilities: Tensor, clusters: Tensor, **options: Any) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature`."""
    return _run(numba_smoothed_dual.curvature, probabilities, clusters, **options)  # type: ignore[no-any-return]


def curvature_product(probabilities: Tensor, clusters: Tensor, direction: Tensor) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`."""
    return _run(numba_smoothed_dual.curvature_product, probabilities, clusters, direction)  # type: ignore[no-any-return]


def augmenting_paths(
    values: Tensor,
    clusters: Tensor,
    prices: Tensor,
    *,
    lower: Tensor,
    upper: Tensor,
    window: float,
    parents: Tensor | None = None,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Tensor, Tensor, int, int, bool]:
    """See `dualclust.algos.offline._augmenting_paths.augmenting_paths`; on the host for a GPU.

    From a GPU, three copies come down: scores and clusters of the candidates, 8 to 12 bytes for
    each, and 24 bytes a cluster; and two go back, 8 bytes a row and a cluster.
    """
    bits = prices.detach().to(torch.float64).contiguous().view(torch.int64)
    bits, lower, upper = torch.stack([bits, lower, upper]).cpu()  # one copy instead of three
    slots, moved, *paths = numba_augmenting_paths.augmenting_paths(
        _shared(values),
        _shared(clusters),
        bits.view(torch.float64).numpy(),
        lower=lower.numpy(),
        upper=upper.numpy(),
        window=window,
        parents=_shared(parents),
        is_over=is_over,
    )
    return _back(slots, values.device), _back(moved, values.device), *paths


def _run(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    """Call a NumPy engine on tensors of the CPU."""
    host = torch.device("cpu")
    results = function(
        *(_shared(t) for t in tensors), **{k: _shared(v) for k, v in options.items()}
    )
    if not isinstance(results, tuple):
        return _back(results, host)
    return tuple(_back(result, host) for result in results)


def _shared(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _back(value: Any, device: torch.device) -> Any:
    return torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
