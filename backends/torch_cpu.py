"""PyTorch tensors on the CPU, run by the numba engine on the same memory (nothing is copied)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import numba_engine

__all__ = ["assign_stream"]


def assign_stream(
    scores: Tensor, rho: Tensor, rho_up: Tensor, counts: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.assignment.assign_stream`."""
    arrays = (x.detach().numpy() for x in (scores, rho, rho_up, counts))
    values: dict[str, Any] = {
        k: v.detach().numpy() if isinstance(v, Tensor) else v for k, v in options.items()
    }
    *results, bad_row = numba_engine.assign_stream(*arrays, **values)
    labels, rho, rho_up, counts = (torch.from_numpy(x) for x in results)
    return labels, rho, rho_up, counts, bad_row
