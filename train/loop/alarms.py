"""Alarms of a run: ways to fail that a loss alone does not tell, found at the end of an epoch.

In the steps, a few sums are kept on the device and nothing is read: the first loss that is no
number, and, in every step or every few (`stride`), how the coarse look of each view goes with the
look that its id had when it was seen before.
At the end of an epoch the network as it is sees a few hundred samples, and all numbers come to the
host in one read. What an alarm means is said in `report.page.SYMPTOMS`.

====================  ==============================================================================
alarm                 raised where
====================  ==============================================================================
not finite            a loss or a weight is infinite or NaN; the run ends
exploding weights     the weights' norm grew by more than `GROWTH` in an epoch, or `EARLY` in the
                      first ones
constant features     the encoder's rows differ by less than `CONSTANT` of their square
dead head             features differ, and scores do not, up to what is common to all samples
shuffled ids          views of an id do not go with those of the epoch before
one cluster           one label has more than `SHARE` of the samples
empty clusters        a cluster has no sample, for the second epoch
saturated prices      prices differ by more than a sample's scores do
uniform predictions   the mean entropy is within `PLATEAU` of ln k
====================  ==============================================================================

The last four are not judged in the first epochs (`settled`), where healthy runs pass through them.
A deeper cause silences what follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..config.run import RunConfig
from ..data.samples import Samples
from ..methods.base import Method, evaluating
from .execution import Execution

__all__ = ["Watch", "settled", "stride"]

PROBE = 256
"""Samples that the network sees at the end of an epoch."""

GROWTH, EARLY = 2.5, 10.0
CONSTANT = 1e-5
DEAD = 1e-3
SHARE = 0.95
PLATEAU = 0.002
RELATED = 4.0
"""Standard deviations of chance, by which views of one id must go together."""

LEAST = 64
"""Ids below which this says nothing."""

MOST_APART, PAIRS = 8, 512
"""Steps from one look at the ids to the next, at most; pairs of looks that a second epoch has."""

LOOK = 16
"""Figures of a view: means of 4 by 4 fields of an image, or of 16 parts of a row."""

FOLLOWS = {
    "exploding weights": ("one cluster", "empty clusters", "uniform predictions"),
    "constant features": (
        "dead head",
        "one cluster",
        "empty clusters",
        "saturated prices",
        "uniform predictions",
    ),
    "dead head": ("one cluster", "empty clusters", "saturated prices", "uniform predictions"),
    "one cluster": ("empty clusters",),
}
"""What a deeper cause brings with it."""


def settled(config: RunConfig) -> int:
    """Return the last epoch in which a run may still look as if it had failed."""
    optim = config.optim
    return max(2, optim.frozen_epochs + optim.warmup_epochs + 1, config.epochs // 4)


def stride(n_samples: int) -> int:
    """Return how many steps lie from one look at the ids to the next: more, the more samples.

    A look is a dozen small operations outside the captured step. Of n samples that are drawn at
    random, ``n / stride^2`` have been looked at in both of two epochs.

    Examples
    --------
    >>> [stride(n) for n in (100, 1_797, 10_000, 60_000, 10**6)]
    [1, 1, 4, 8, 8]
    """
    return max(1, min(MOST_APART, math.isqrt(n_samples // PAIRS)))


class Watch:
    """Looks at a run, and says at the end of an epoch what is wrong.

    Parameters
    ----------
    config : RunConfig
    method : Method
    data : Samples
    execution : Execution
    """

    def __init__(
        self, config: RunConfig, method: Method, data: Samples, execution: Execution
    ) -> None:
        self.config, self.method, self.execution = config, method, execution
        self.data, self.device = data, execution.device
        n = len(data.ids)
        some = min(n, PROBE)
        self.probe_ids = torch.arange(some, device=self.device) * n // some
        self.probe: Tensor | None = None
        # What each id looked like when it was seen last, and sums over pairs of then and now: how
        # many, x, y, the trace of xy', and xx', yy'.
        self.looks = torch.full((n, LOOK), math.nan, device=self.device)
        self.pairs = torch.zeros(2 + 2 * LOOK, dtype=torch.float64, device=self.device)
        self.squares = torch.zeros(2, LOOK, LOOK, dtype=torch.float64, device=self.device)
        self.stride = stride(n)
        self.first_bad = torch.full((), math.inf, dtype=torch.float64, device=self.device)
        self.norm = torch.zeros((), dtype=torch.float64, device=self.device)

    def begin(self) -> None:
        """Begin an epoch: nothing is read."""
        self.pairs.zero_()
        self.squares.zero_()
        self.first_bad.fill_(math.inf)
        self.norm = self._norm()

    def step(self, number: int, ids: Tensor, view: Tensor, loss: Tensor) -> None:
        """Take a step: the ids of this rank's samples, one view of them, the loss. Reads nothing.

        Parameters
        ----------
        number : int, 0 or more. Of the step in its epoch.
        ids : (b,) int64 tensor
        view : (b, ...) tensor
        loss : () tensor
        """
        at = torch.where(torch.isfinite(loss), math.inf, float(number))
        self.first_bad = torch.minimum(self.first_bad, at)
        if number % self.stride:
            return
        y, x = _look(view.detach()), self.looks[ids]
        known = (torch.isfinite(x) & torch.isfinite(y)).all(1, keepdim=True)
        pair = torch.stack([torch.where(known, x, 0.0), torch.where(known, y, 0.0)]).double()
        self.looks[ids] = y
        self.squares += pair.mT @ pair
        counted = torch.stack([known.double().sum(), (pair[0] * pair[1]).sum()])
        self.pairs += torch.cat([counted, pair.sum(1).flatten()])

    def end(self, epoch: int, sizes: Tensor, before: Mapping[str, Any]) -> dict[str, str]:
        """Return the alarms of an epoch that is over: what was seen, by name; deeper ones first.

        Parameters
        ----------
        epoch : int, 1 or more.
        sizes : (k,) int64 tensor. Of the target head, by the labels of training.
        before : mapping. The record of the epoch before, or nothing.
        """
        k = len(sizes)
        seen = [
            *self._probe_figures(k),
            self._norm() / self.norm,
            *self._relation(),
            sizes.max().double(),
            (sizes == 0).sum().double(),
        ]
        spread, dead, entropy, prices, reach, growth, *rest = torch.stack(seen).tolist()
        largest, empty = rest[2:]
        found: dict[str, str] = {}
        if growth > (GROWTH if epoch > settled(self.config) else EARLY):
            found["exploding weights"] = f"The norm of the weights grew {growth:.3g} times"
        found |= _constant(spread)
        if dead < DEAD:
            found["dead head"] = (
                f"Scores differ between samples by {dead:.1e} of all their differences"
            )
        found |= _unrelated(*rest[:2])
        if epoch > settled(self.config):
            # A cluster that is empty once may come back.
            empty = empty if before.get("size_min") == 0 else 0.0
            found |= self._judged(k, largest, empty, entropy, prices, reach)
        for cause in FOLLOWS:
            if cause in found:
                found = {name: what for name, what in found.items() if name not in FOLLOWS[cause]}
        return found

    def end_of_fit(self) -> dict[str, str]:
        """Return what can be said of features that stay, where no step was taken."""
        with evaluating(self.method.network):
            rows = torch.cat([x for x, _ in self._probed()])
        return _constant(float(_spread(rows)))

    def where_bad(self) -> str:
        """Say where the first loss of the epoch was that is no number, if there was one."""
        step = float(self.first_bad)
        return "" if math.isinf(step) else f" at step {int(step) + 1}"

    def _judged(
        self, k: int, largest: float, empty: float, entropy: float, prices: float, reach: float
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        n = len(self.data.ids)
        share = SHARE if k > 2 else 0.5 * (1.0 + SHARE)
        if largest > share * n:
            found["one cluster"] = f"One label has {largest:,.0f} of {n:,} samples"
        if empty > 0 and n >= k:
            found["empty clusters"] = f"{empty:,.0f} of {k:,} clusters have no sample"
        if prices > reach:
            found["saturated prices"] = (
                f"Prices differ by up to {prices:.3g}, scores of a sample by {reach:.3g}"
            )
        if entropy > 1.0 - PLATEAU:
            found["uniform predictions"] = (
                f"The mean entropy of the predictions is {entropy:.2%} of ln k"
            )
        return found

    def _probe_figures(self, k: int) -> Sequence[Tensor]:
        """Spread of the rows and of the scores, entropy over ln k, prices and their reach."""
        method = self.method
        with evaluating(method.network):
            rows, features = [], []
            for x, images in self._probed():
                rows.append(x)
                features.append(method.features(images))
            unit = torch.cat(features)
            logits = method.probe_logits(unit)
        spread = _spread(torch.cat(rows))
        one = torch.ones((), dtype=torch.float64, device=self.device)
        if logits is None:  # clusters are made of the features themselves
            dead = (unit - unit.mean(0)).double().square().mean().sqrt()
            return spread, dead, 0.0 * one, 0.0 * one, one
        logits = logits.double()
        centered = logits - logits.mean(0) - logits.mean(1, keepdim=True) + logits.mean()
        log_p = torch.log_softmax(logits, dim=1)
        entropy = -(log_p.exp() * log_p).sum(1).mean() / math.log(k)
        prices = method.training_prices()
        pull = 0.0 * one if prices is None else (prices.max() - prices.min()) / method.temperature
        reach = (logits.amax(1) - logits.amin(1)).max()
        whole = (logits - logits.mean()).square().sum().clamp(min=1e-300)
        dead = (centered.square().sum() / whole).sqrt()  # whatever the temperature
        return spread, dead, entropy, pull, reach

    def _probed(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the encoder and the images of some samples, a batch at a time."""
        if self.probe is None:
            self.probe = self.data.fetch(self.probe_ids).to(self.device)
        for part in torch.split(self.probe, self.config.batch_size):
            images = self.execution.convert(self.data.finish(part))
            yield self.method.network.encoder(images).flatten(1).double(), images

    def _relation(self) -> tuple[Tensor, Tensor]:
        """How many ids were seen before, and by how many deviations then goes with now.

        Were the ids of one epoch in any order, the trace of the covariance of then and now would
        have mean 0 and variance tr(XX' YY') / n.
        """
        count, trace = self.pairs[:2]
        some = count.clamp(min=1.0)
        sums = self.pairs[2:].view(2, LOOK)
        x, y = self.squares - sums[:, :, None] * sums[:, None, :] / some
        chance = ((x * y).sum() / some).clamp(min=1e-300).sqrt()
        return count, (trace - (sums[0] * sums[1]).sum() / some) / chance

    def _norm(self) -> Tensor:
        params = [p for group in self.method.parameter_groups() for p in group.params]
        norms = torch._foreach_norm([p.detach() for p in params])
        total: Tensor = torch.stack([norm.double() for norm in norms]).norm()
        return total.clamp(min=1e-300)


def _spread(rows: Tensor) -> Tensor:
    """Squares of rows around their mean, as a share of all their squares."""
    return (rows - rows.mean(0)).square().sum() / rows.square().sum().clamp(min=1e-300)


def _constant(spread: float) -> dict[str, str]:
    seen = f"The encoder's rows differ by {spread:.1e} of their mean square"
    return {"constant features": seen} if spread < CONSTANT else {}


def _look(view: Tensor) -> Tensor:
    """A few figures of each sample, (b, LOOK): what a mild augmentation leaves alone."""
    if view.ndim == 4:
        return functional.adaptive_avg_pool2d(view.mean(1, keepdim=True), 4).flatten(1).float()
    return functional.adaptive_avg_pool1d(view[:, None], LOOK)[:, 0].float()


def _unrelated(count: float, related: float) -> dict[str, str]:
    """Whether views of an id go with those of the epoch before no more than by chance."""
    if count < LEAST or not related < RELATED:
        return {}
    seen = (
        f"Views of one id in two epochs go together {related:.1f} standard deviations beyond chance"
    )
    return {"shuffled ids": f"{seen}, {count:,.0f} ids"}
