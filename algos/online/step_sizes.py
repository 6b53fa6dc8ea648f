r"""Step sizes of the duals in the online assignment: measured rules, and the published settings.

With a step ``h`` per sample, the dual of a cluster that receives no sample rises by

``kappa = h * gamma``    (gamma = its smallest size, in samples)

in one pass. Three rules follow from measurement (cone and mixture scores, k = 10, 100, 1000,
n = 10^4 to 10^5) and make up `measured_steps`:

1. *kappa decides, so scale per head.* In a first pass from zero duals, the violation is
   ``max rho* / kappa`` of the bound, and ``max rho*`` is 0.3 to 0.5 on cosine scores: kappa must be
   about 3.4. The published step is one number for all heads, so kappa falls with k (0.035 at
   k = 1000 on CIFAR-100); here each head has its own step.
2. *A batch must not move a dual past the margin.* Samples labeled with the same prices move a dual
   by ``kappa b / (gamma' n)``; above 0.02, whole batches jump from cluster to cluster. Larger
   batches are therefore split into sequential chunks.
3. *Warm duals need small steps.* kappa halves with each pass, down to a floor.

==========================  =================  ==================================================
paper                       here               meaning
==========================  =================  ==================================================
:math:`\eta_\rho` / b       ``step_size``      h, price change per sample, in units of score
b                           ``chunk_size``     samples that are labeled with the same prices
:math:`\tau` (CoKe Thm. 1)  ``l1_radius``      bound on the sum of the duals; infinite in practice
==========================  =================  ==================================================
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import check_choice, check_count, check_interval
from ..core.errors import InvalidValueError
from ..core.reads import entries

__all__ = ["PUBLISHED", "StepRule", "measured_steps", "published_steps", "theorem_steps"]

MAX_STEP = 0.02  # keeps regret per sample below 0.005 on cosine scores, for any gamma
MAX_MOVE = 0.02  # price change of one chunk, in units of score


@dataclass(frozen=True, slots=True)
class StepRule:
    """The dual steps of one pass.

    Parameters
    ----------
    step_size : float
        h > 0, in units of score per sample.
    chunk_size : int
        Samples labeled with the same prices, >= 1; 1 is the per-instance algorithm.
    free_sign : bool
        Do not clip the lower dual at 0: one signed dual, for bounds without slack (ratio 1). The
        upper dual then does not move.
    mean_over_chunk : bool
        Divide the step by the length of each chunk, as the released code does: a short last batch
        then weighs as much as a full one. False gives every sample the same weight.
    l1_radius : float
        CoKe's projection onto {rho >= 0, sum rho <= l1_radius} after each step; inf for none.
        It destroys the size certificate.
    """

    step_size: float
    chunk_size: int = 1
    free_sign: bool = False
    mean_over_chunk: bool = False
    l1_radius: float = math.inf

    def __post_init__(self) -> None:
        check_interval("step_size", self.step_size, 0.0, math.inf, open_low=True)
        check_count("chunk_size", self.chunk_size, 1)
        if self.l1_radius != math.inf:
            check_interval("l1_radius", self.l1_radius, 0.0, math.inf, open_low=True)
        if self.free_sign and not math.isinf(self.l1_radius):
            msg = (
                "l1_radius must be inf when free_sign is set, since the projection keeps duals "
                f"nonnegative; got {self.l1_radius}"
                ". To fix this, leave one of them out"
            )
            raise InvalidValueError(msg)


class PublishedSetting(NamedTuple):
    """A step as printed: eta per batch, the batch size, and the ratio of the bounds."""

    eta: float
    batch_size: int
    ratio: float
    source: str


PUBLISHED = MappingProxyType(
    {
        "coke-cifar": PublishedSetting(0.1, 128, 0.9, "CoKe, appendix B.4"),
        "coke-imagenet": PublishedSetting(20.0, 1024, 0.4, "CoKe, Eq. (18)"),
        "secu-cifar": PublishedSetting(0.1, 128, 0.9, "SeCu, released script for CIFAR-10"),
        "secu-imagenet": PublishedSetting(20.0, 1024, 0.4, "SeCu supplement, section 3.1"),
    }
)
"""Steps of published runs, for `published_steps`."""


def measured_steps(
    bounds: SizeBounds,
    *,
    n_samples: int | None = None,
    kappa: float = 3.4,
    epoch: int = 0,
    kappa_floor: float | None = None,
    scale: float = 1.0,
) -> StepRule:
    """Return how prices move in one pass, by three rules that follow from measurement.

    ``h = min(kappa / gamma, 0.02)`` and ``chunk = 0.02 k / h``, where gamma is the mean smallest
    size (n / k without a lower bound) and kappa is halved per pass.

    Parameters
    ----------
    bounds : SizeBounds
    n_samples : int, optional
        Length of the pass; required if the bounds are for a stream of unknown length.
    kappa : float
        Rise of a starved cluster's dual in the first pass, in units of `scale`.
    epoch : int
        Number of passes so far with these duals.
    kappa_floor : float, optional
        Where the halving stops; the smaller of 0.3 and kappa by default.
    scale : float > 0
        Typical difference of one sample's scores between clusters: 1 for cosines. Prices and steps
        are proportional to it.

    Returns
    -------
    StepRule
        With both a lower and an upper bound the step is halved, since both duals react to the same
        count. Without slack (lower shares that add up to 1) the dual has a free sign.

    Examples
    --------
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> measured_steps(SizeBounds.from_ratios(100, n_samples=100_000, lower=0.9))
    StepRule(step_size=0.0037777777777777783, chunk_size=529, free_sign=False, \
mean_over_chunk=False, l1_radius=inf)
    """
    check_bounds(bounds)
    n = bounds.n_samples if n_samples is None else check_count("n_samples", n_samples, 1)
    if n is None:
        msg = (
            "n_samples must be given: the bounds are of a stream of unknown length"
            ". To fix this, pass n_samples"
        )
        raise InvalidValueError(msg)
    check_interval("kappa", kappa, 0.0, math.inf, open_low=True)
    floor = min(0.3, kappa) if kappa_floor is None else kappa_floor
    check_interval("kappa_floor", floor, 0.0, kappa)
    check_interval("scale", scale, 0.0, math.inf, open_low=True)
    check_count("epoch", epoch, 0)
    k = bounds.n_clusters
    xp = compat.array_namespace(bounds.lower_share)
    shares = entries("shares", xp.concat([bounds.lower_share, bounds.upper_share]))
    total = math.fsum(shares[:k])
    gamma = n * (total if total > 0.0 else 1.0) / k
    free_sign = total >= 1.0 - 1e-12
    step = min(max(kappa * 0.5**epoch, floor) / gamma, MAX_STEP)
    if not free_sign and total > 0.0 and min(shares[k:]) < 1.0:
        step /= 2.0
    if step * scale < sys.float_info.min:
        msg = (
            f"kappa must give a step above 0 after {epoch} passes, got kappa={kappa} and "
            f"kappa_floor={floor}. To fix this, raise kappa_floor"
        )
        raise InvalidValueError(msg)
    return StepRule(step * scale, max(1, int(min(MAX_MOVE * k / step, n))), free_sign)


def published_steps(name: str) -> StepRule:
    """Return the dual step of a published run, as its code runs it.

    The step is divided by the length of each batch, a short last one included. The dual is clipped
    at 0 unless the ratio is 1 (here it never is). None of the released codes contains the
    projection of CoKe's theorem, so it is absent here; see `theorem_steps`.

    Parameters
    ----------
    name : {"coke-cifar", "coke-imagenet", "secu-cifar", "secu-imagenet"}
        Keys of `PUBLISHED`, which also holds the ratio and the source.

    Notes
    -----
    Claims: docs/claims.md#S13, #C18.

    Examples
    --------
    >>> published_steps("secu-cifar").step_size, published_steps("secu-cifar").chunk_size
    (0.1, 128)
    """
    check_choice("name", name, tuple(PUBLISHED))
    setting = PUBLISHED[name]
    return StepRule(setting.eta, setting.batch_size, mean_over_chunk=True)


def theorem_steps(n_samples: int, tau: float) -> StepRule:
    """Return the step of CoKe's Theorem 1, ``eta = tau / sqrt(2 n)`` per sample, l1 projection.

    The projection destroys the size certificate, and for tau below ``sum rho*`` the violation grows
    with n (both measured). Use this rule to study the theorem, not to cluster.

    Notes
    -----
    Claims: docs/claims.md#C10, #C14, #C15, #T1, #T6.

    Examples
    --------
    >>> theorem_steps(5000, tau=2.0).step_size
    0.02
    """
    check_count("n_samples", n_samples, 1)
    check_interval("tau", tau, 0.0, math.inf, open_low=True)
    return StepRule(tau / math.sqrt(2 * n_samples), 1, l1_radius=tau)
