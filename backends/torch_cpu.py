"""PyTorch tensors run by the numba engines: on the CPU in the same memory, from a GPU by a copy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import numba_engine, numba_transport

__all__ = ["assign_stream", "shortest_moves"]


def assign_stream(
    scores: Tensor, rho: Tensor, rho_up: Tensor, counts: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.assignment.assign_stream`."""
    arrays = (_shared(x) for x in (scores, rho, rho_up, counts))
    *results, bad_row = numba_engine.assign_stream(*arrays, **_all_shared(options))
    labels, rho, rho_up, counts = (torch.from_numpy(x) for x in results)
    return labels, rho, rho_up, counts, bad_row


def shortest_moves(
    scores: Tensor, labels: Tensor, prices: Tensor, **options: Any
) -> tuple[Tensor, Tensor, int]:
    """See `dualclust.algos.transport.shortest_moves`; for a GPU the chains run on the host."""
    arrays = (_shared(x) for x in (scores, labels, prices))
    new_labels, new_prices, moves = numba_transport.shortest_moves(*arrays, **_all_shared(options))
    back = torch.from_numpy(new_labels), torch.from_numpy(new_prices)
    return back[0].to(labels.device), back[1].to(prices.device), moves


def _shared(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def _all_shared(options: dict[str, Any]) -> dict[str, Any]:
    return {k: _shared(v) if isinstance(v, Tensor) else v for k, v in options.items()}
