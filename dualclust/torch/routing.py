r"""Experts by priced scores: balanced routing without an auxiliary loss.

Wang et al. (2024) add a bias to the gate values where experts are chosen, and nowhere else, and
move it by the sign of what an expert has too much or too little:

``E_i = top-k_j of s_ij + b_j``,   ``g_ij = s_ij`` for j in E_i        Algorithm 1

Here the bias is a price, ``b = rho - rho'``, which moves by the amount (`SizePrices`), and stands
still while an expert's load is inside its bounds. A token counts once for each expert it goes to,
so that the loads of n tokens add up to ``n top_k``, and bounds are in units of ``n top_k / k``.

======================  ================  ============  ===========================================
paper                   here              shape         meaning
======================  ================  ============  ===========================================
:math:`s_{i,j}`         ``scores``        (..., k)      gate values >= 0: a sigmoid or a softmax
:math:`b_j`             ``prices``        (k,)          in units of score, of either sign
K                       ``top_k``         ()            experts of a token
:math:`g_{i,j}`         ``gates``         (..., top_k)  weights of the experts' outputs
======================  ================  ============  ===========================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..algos.core.checks import check_count, check_interval
from ..algos.core.errors import InfeasibleBoundsError, InvalidValueError
from ..algos.online.step_sizes import StepRule
from .operations import capped_indices
from .prices import SizePrices

__all__ = ["PricedRouter", "Routing"]

ROUNDS = 16  # of acceptance
NEAR = 1e-9  # so near to a whole number, a capacity is that number


class Routing(NamedTuple):
    """Where tokens go.

    Attributes
    ----------
    indices : (..., top_k) int64 tensor
        Experts of each token, the best priced score first; each at most once. With a capacity, -1
        for what a token was not given.
    gates : (..., top_k) tensor
        Their weights, with the gradient of the scores; 0 for padding, and where no expert is.
        Float32 or wider.
    counts : (n_experts,) int64 tensor
        Tokens of this rank's batch that go to each expert, without padding: what a dispatch sends.
    """

    indices: Tensor
    gates: Tensor
    counts: Tensor


class PricedRouter(SizePrices):
    """Send tokens to experts whose loads stay near their bounds, without an auxiliary loss.

    Prices decide who is chosen and do not enter the gates: no gradient passes through them, and
    the balance costs the loss nothing. In eval mode prices are frozen.

    Parameters
    ----------
    n_experts : int
        k.
    top_k : int
        Experts of a token, from 1 to k.
    lower, upper : float or sequence of k floats
        Smallest and largest load, in units of the mean load ``n top_k / k``.
    capacity : float > 0, optional
        Most tokens of an expert *in this rank's batch*, in units of the mean load, rounded up. A
        token that an expert rejects asks its next choice, and is dropped only where the experts
        that it may still ask are full (`capped_choices`).
    normalize : bool, optional
        Divide the gates of a token by their sum. By default where ``top_k`` is above 1: a single
        gate would always be 1, and the router would learn nothing.
    scale, steps, automatic, process_group, device
        As in `SizePrices`. With activation checkpointing or accumulated gradients pass
        ``automatic=False`` and call `SizePrices.move_prices` after ``optimizer.step()``: a pass
        that is computed again must route as it did.

    Raises
    ------
    InfeasibleBoundsError
        Also where an expert is owed more than all tokens, or all experts' largest loads together
        cannot take ``n top_k``, since a token goes to an expert once.

    Notes
    -----
    ``forward(scores, weights=None)`` takes gate values (..., k) and returns a `Routing`. `weights`
    (...,), boolean or integer, is 0 for padding, which gets indices, gates of 0 and no count.
    Minus infinity keeps a token from an expert, if `top_k` others are left. A row with NaN moves no
    price; its gates are NaN.

    Guarantee: R1 of `SizePrices` for loads over the stream, where prices count what tokens ask for
    first. Without `capacity` no token is dropped, and one batch may go beyond any load;
    `Routing.counts` tells by how much. With it no expert has more in any batch, and routes are the
    stable ones of deferred acceptance if its sixteen rounds suffice, as they nearly always do.
    Cost: O(n k top_k), ties to the lowest index on every device; a sort of each row with a
    capacity; no read of a value.
    Source: Wang et al. (2024), Algorithm 1; bounds and the step by the amount are ours.

    Examples
    --------
    >>> router = PricedRouter(4, top_k=2, lower=0.5, upper=1.5)
    >>> scores = torch.tensor([[0.5, 0.25, 0.125, 0.125]] * 3)
    >>> routing = router(scores, weights=torch.tensor([1, 1, 0]))  # the last token is padding
    >>> routing.counts, routing.gates[0].sum(), routing.gates[2].sum()
    (tensor([2, 2, 0, 0]), tensor(1.), tensor(0.))

    With a hard capacity, a second choice comes before a drop.

    >>> PricedRouter(4, top_k=1, lower=0.0, capacity=1.0)(scores).indices.T
    tensor([[0, 1, 2]])
    """

    def __init__(
        self,
        n_experts: int,
        *,
        top_k: int = 2,
        lower: Any = 0.9,
        upper: Any = math.inf,
        capacity: float | None = None,
        normalize: bool | None = None,
        scale: float = 1.0,
        steps: StepRule | None = None,
        automatic: bool = True,
        process_group: Any = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            n_experts,
            lower=lower,
            upper=upper,
            scale=scale,
            steps=steps,
            automatic=automatic,
            process_group=process_group,
            device=device,
        )
        self.top_k = check_count("top_k", top_k, 1)
        if top_k > n_experts:
            msg = f"top_k must be at most n_experts={n_experts}, got {top_k}"
            raise InvalidValueError(msg)
        if capacity is not None:
            check_interval("capacity", capacity, 0.0, math.inf, open_low=True)
        self.capacity = capacity
        self.normalize = top_k > 1 if normalize is None else normalize
        self._check_loads()

    def forward(self, scores: Tensor, weights: Tensor | None = None) -> Routing:
        """Route a batch, then move the prices; the class says what goes in and comes out."""
        counted = self._checked(scores, weights)
        with torch.no_grad():
            priced = self.prices + scores  # float64
            times = counted.to(torch.int64)
            if self.capacity is None:
                indices = _largest(priced, self.top_k)
                times = times[..., None].expand(indices.shape)
                counts = self._loads(indices, times)
                self.count(indices, times)
            else:
                indices, asked = self._capped(priced, times)
                counts = self._loads(indices.clamp(min=0), (indices >= 0).to(torch.int64))
                self.count(torch.arange(self.n_clusters, device=asked.device), asked)
        chosen = scores.gather(-1, indices.clamp(min=0))
        gates = chosen.to(torch.promote_types(scores.dtype, torch.float32))
        gates = gates.masked_fill(indices < 0, 0.0)
        if self.normalize:
            least = torch.finfo(gates.dtype).tiny
            gates = gates / gates.sum(dim=-1, keepdim=True).clamp(min=least)
        if weights is not None:
            gates = gates.masked_fill((weights == 0)[..., None], 0.0)
        return Routing(indices, gates, counts)

    def extra_repr(self) -> str:
        """Options of `print(model)`."""
        return f"{super().extra_repr()}, top_k={self.top_k}, normalize={self.normalize}"

    def _loads(self, indices: Tensor, times: Tensor) -> Tensor:
        counts = torch.zeros_like(self.counts)
        return counts.index_add(0, indices.reshape(-1), times.reshape(-1))

    def _capped(self, priced: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        """Choose experts inside the capacity; also return how many tokens ask each one first."""
        assert self.capacity is not None
        n = (times > 0).sum().to(torch.float64)
        most = torch.ceil(n * (self.capacity * self.top_k / self.n_clusters) - NEAR)
        rows = priced.reshape(-1, self.n_clusters)
        indices, asked = capped_indices(
            rows, most.to(torch.int64), times.reshape(-1) > 0, self.top_k, ROUNDS
        )
        return indices.reshape(*times.shape, self.top_k), asked

    def _check_loads(self) -> None:
        """Raise unless loads inside the bounds exist: no expert has more than every token."""
        lower, upper = self.lower_share.tolist(), self.upper_share.tolist()
        most = 1.0 / self.top_k
        greedy = tuple(i for i, share in enumerate(lower) if share > most * (1 + 1e-12))
        room = math.fsum(min(share, most) for share in upper)
        if greedy or room < 1.0 - 1e-12:
            msg = (
                f"lower and upper must leave loads that {self.top_k} experts of each token can "
                f"have: an expert takes at most n_experts / top_k = "
                f"{self.n_clusters / self.top_k:g} times the mean load. "
                f"To fix this, {'lower the lower' if greedy else 'raise the upper'} bounds"
            )
            clusters = greedy or tuple(range(self.n_clusters))
            raise InfeasibleBoundsError(msg, clusters=clusters, excess=1)


def _largest(priced: Tensor, top_k: int) -> Tensor:
    """Return the experts of the largest priced scores, NaN first; `priced` is used up.

    Equal ones come in their order, on every device, which `topk` does not promise. For the few
    experts of a token, passes of `argmax` take a quarter to a half of a sort.
    """
    columns = torch.arange(priced.shape[-1], device=priced.device)
    least = torch.finfo(priced.dtype).min
    priced.nan_to_num_(nan=math.nan, posinf=math.inf, neginf=least)  # above what is taken
    taken = [priced.argmax(dim=-1, keepdim=True)]
    while len(taken) < top_k:
        priced.masked_fill_(columns == taken[-1], -math.inf)
        taken.append(priced.argmax(dim=-1, keepdim=True))
    return torch.cat(taken, dim=-1)
