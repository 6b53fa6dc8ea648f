"""The sizes that a head may have: its settings as bounds for a number of samples.

Settings are refused as soon as the number of samples is known, before any is decoded; the bounds
of a run are made again on its device.
"""

from __future__ import annotations

import torch

from ...algos.bounds.sizes import SizeBounds
from ...algos.core.errors import InfeasibleBoundsError, InvalidValueError
from ..config.run import RunConfig

__all__ = ["check_candidates", "head_bounds"]


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


def check_candidates(config: RunConfig, n_samples: int) -> None:
    """Refuse heads that could not be judged, before the first step.

    Raises
    ------
    InvalidValueError
        If the largest candidate has fewer than two samples a cluster.
    """
    most = max(config.heads.candidates, default=0)
    if 2 * most > n_samples:
        msg = (
            f"heads.candidates must end at half the number of samples, or before, got {most} for "
            f"{n_samples} samples. To fix this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
