"""Bounds on the sizes of a head's clusters, as the settings ask for them."""

from __future__ import annotations

import torch

from ...algos.bounds.sizes import SizeBounds
from ...algos.core.errors import InfeasibleBoundsError
from ..config.run import RunConfig

__all__ = ["head_bounds"]


def head_bounds(config: RunConfig, k: int, n_samples: int, device: torch.device) -> SizeBounds:
    """Return the bounds of a head; an error names the settings that they come from."""
    options = config.assignment
    try:
        return SizeBounds.from_ratios(
            k,
            n_samples=n_samples,
            lower=options.lower,
            upper=options.upper,
            rounding=options.rounding,
            xp=torch,
            device=device,
        )
    except InfeasibleBoundsError as error:
        msg = (
            f"the head of {k} clusters (heads.clusters) has no sizes for {n_samples} samples with "
            f"assignment.lower={options.lower}, upper={options.upper}, "
            f"rounding={options.rounding!r}: {error}. Or set assignment.rounding='outward'"
        )
        raise InfeasibleBoundsError(
            msg, clusters=error.clusters, excess=error.excess, vector=error.vector
        ) from error
