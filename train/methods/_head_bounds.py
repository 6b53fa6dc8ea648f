"""The sizes that a head may have: its settings as bounds for a number of samples.

Settings are refused as soon as the number of samples is known, before any is decoded; the bounds
of a run are made again on its device.
"""

from __future__ import annotations

import torch

from ...algos.bounds.sizes import SizeBounds
from ...algos.core.errors import InfeasibleBoundsError
from ..config.run import RunConfig

__all__ = ["head_bounds"]


def head_bounds(config: RunConfig, k: int, n_samples: int, device: torch.device) -> SizeBounds:
    """Return the bounds of a head of k clusters, in units of n_samples / k as `assignment` says.

    Raises
    ------
    InfeasibleBoundsError
        If no labels are inside; it names the settings that the bounds come from.
    """
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
