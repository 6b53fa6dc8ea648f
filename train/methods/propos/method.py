r"""ProPos: prototype scattering and positive sampling on an online and a target network.

Two steps in turn (section 3.3). *E-step*, before the first epoch and every r epochs: spherical
k-means of the target network's features of all images gives the labels. *M-step*, one batch after
the other, with two views a, b of every image:

1. features ``q = f(x)`` of the online network, ``k = f'(x)`` of the target network, no gradient;
2. *alignment* (Eq. 9, 10): ``|| g(q_a + sigma eps) - k_b ||^2`` of unit vectors;
3. *scattering* (Eq. 4, 6, 7): a contrastive loss among the prototypes of the batch, the mean
   directions of the features of each label, as q_a and as k_b have them;
4. both again with the views exchanged; the loss is the mean, with ``psl_weight`` on scattering;
5. the optimizer moves f and g; *then* ``f' <- m f' + (1 - m) f`` (Eq. 11), parameters alone: the
   target network has its own running statistics.

So the target network of a step holds the parameters that the online network has in that step, as
BYOL does and the second version of the released code; the first version is one step behind
(``ema_after = "loss"``).

As long as the learning rate warms up there is neither scattering nor noise. With ``psl_weight = 0``
and ``sigma = 0`` throughout, this is BYOL.

==========================  ====================  =============  ==================================
paper                       here                  shape          meaning
==========================  ====================  =============  ==================================
:math:`f`                   ``online_network``                   encoder and projector
:math:`f'`                  ``target_network``                   their moving average; predicts
:math:`g`                   ``.predictor``                       of the online network
:math:`f(x), f'(x)`         ``q, k``              (2, b, d)      by view; not normalized
:math:`p(k \mid x)`         ``labels``            (1, n)         one-hot: labels of the E-step
:math:`\mathcal{Q}`         ``queue``             (m, d)         section 6.2
:math:`\tau, \sigma, r`     ``temperature``, ``sigma``, ``reassign``
==========================  ====================  =============  ==================================

What differs from the released code: empty clusters are masked, not given the logit -10 (but with
``psl = "released"``), and are judged by the batch of all ranks; the gradient of gathered features
is whole (`ProposOptions`, ``psl_weight``); labels stay with their images on any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....algos.clustering.metrics import churn
from ....algos.core.directions import Directions, unit_directions
from ....algos.core.errors import UsageError
from ....algos.core.random import normal_noise
from ....algos.losses.propos.memory_queue import MemoryQueue, current_labels, init_queue, push
from ....algos.losses.propos.prototypes import (
    Prototypes,
    PrototypeSums,
    normalize_sums,
    prototype_sums,
)
from ....algos.losses.propos.scattering import (
    perturbed,
    positive_sampling_alignment,
    prototypical_uniformity,
    psl_cross_view,
    psl_mixed_view,
    psl_released,
    psl_same_view,
)
from ....common.ranks import ALONE, Ranks
from ...config.methods.propos import ProposOptions
from ...config.run import RunConfig
from ...networks.network import Network
from ...networks.normalization import (
    full_precision,
    group_statistics,
    load_group_statistics,
    merge_groups,
    synchronize,
)
from ...state.seeding import generator, permutation
from ..base import ApplyToAll, Method, ParameterGroup, evaluating, register_method
from ._labels import balanced_order, cluster, stream_key
from ._networks import init_predictor, target_of
from ._passes import Passes, SubBatches, WholeBatch

__all__ = ["ProPos"]


def _uniformity(online: Prototypes, target: Prototypes, *, temperature: float) -> Tensor:
    loss: Tensor = prototypical_uniformity(online, temperature=temperature)
    return loss


SCATTERING: dict[str, Callable[..., Tensor]] = {
    "mixed-view": psl_mixed_view,
    "released": psl_released,
    "same-view": psl_same_view,
    "cross-view": psl_cross_view,
    "uniformity": _uniformity,
}


@register_method("propos")
class ProPos(Method):
    """State of a run of ProPos or BYOL, and its step. The parameters are those of `Method`.

    Attributes
    ----------
    online_network, target_network : Network. `network` is the target network: it predicts, and its
        weights are what a run leaves.
    queue : MemoryQueue or None.
    steps : () int64 tensor. Optimizer steps taken so far.
    gate : () tensor. 1 when scattering and noise act, 0 before.

    Raises
    ------
    UsageError
        If there is not exactly one head, if the network has no predictor, or if sub-batches do not
        fit (`_passes.SubBatches`).
    """

    capturable = True

    def set_config(self, config: RunConfig) -> None:
        """Go on with other settings; the momentum ends at 1 with the last step of their epochs."""
        super().set_config(config)
        batches = _batches_per_epoch(config, self.n_samples, self.options)
        self.total_steps.fill_(config.epochs * batches)  # in place: captured steps read it again

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse several heads, and a network without a predictor."""
        if len(config.heads.clusters) != 1:
            k, got = config.heads.target, list(config.heads.clusters)
            msg = f"ProPos has one head, got heads.clusters={got}. To fix: heads.clusters=[{k}]"
            raise UsageError(msg)
        if not config.network.predictor:
            msg = (
                "ProPos needs a predictor, and network.predictor is 0. To fix this, set it to the "
                "units of its hidden layer, such as network.hidden"
            )
            raise UsageError(msg)
        shuffled = config.options(ProposOptions).batch_norm == "shuffled"
        if shuffled and n_samples is not None and n_samples < config.batch_size:
            msg = (
                f"propos.batch_norm='shuffled' takes whole batches alone, and {n_samples} "
                f"images make none of {config.batch_size}. To fix this, lower batch_size"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = options = config.options(ProposOptions)
        predictor = network.predictor
        assert predictor is not None
        init_predictor(predictor, config.seed)
        self.online_network = network
        self.target_network = self.network = target_of(network)
        # The predictor sees the whole batch on every rank.
        synchronize(predictor, ALONE)
        joint = options.view_norm == "joint"
        self.passes: Passes = WholeBatch(ranks, joint=joint)
        if options.batch_norm == "shuffled":
            self.passes = SubBatches(
                ranks,
                [self.online_network, self.target_network],
                count=options.sub_batches,
                batch_size=config.batch_size,
                key=stream_key(config.seed, "shuffle"),
                joint=joint,
            )
        averaged = dict(self.target_network.named_parameters())
        followed = dict(network.named_parameters())
        self._averaged: list[Tensor] = list(averaged.values())
        self._followed: list[Tensor] = [followed[name] for name in averaged]
        self.n_clusters = self.bounds[self.target].n_clusters
        self.total_steps = torch.zeros((), dtype=torch.float64, device=self.device)
        self.set_config(config)
        self.steps = torch.zeros((), dtype=torch.int64, device=self.device)
        self.gate = torch.zeros((), dtype=self.dtype, device=self.device)
        self.churn = 0.0
        self.queue: MemoryQueue | None = None
        if options.queue:
            self.queue = init_queue(
                options.queue, network.out_dim, xp=torch, dtype=self.dtype, device=self.device
            )
        self._set_gate(0)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Encoder and projector of the online network, and the predictor with its own rate."""
        online, predictor = self.online_network, self.online_network.predictor
        assert predictor is not None
        return [
            ParameterGroup([*online.encoder.parameters(), *online.projector.parameters()]),
            ParameterGroup(
                list(predictor.parameters()), scale=self.options.predictor_scale, local=False
            ),
        ]

    # E-step -------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Open the gate of scattering and noise after the warm-up; label anew when it is due."""
        super().begin_epoch(epoch, apply_to_all)
        merge_groups(self.online_network)
        merge_groups(self.target_network)
        self._set_gate(epoch)
        self.churn = 0.0
        if apply_to_all is not None and epoch % self.options.reassign == 0:
            with evaluating(self.target_network):
                features = apply_to_all(self.features)
            labels, _ = self.cluster(features)
            self.churn = churn(labels, self.labels[self.target])
            self.labels[self.target].copy_(labels)

    def epoch_state(self) -> dict[str, Any]:
        """Return the statistics of the views in both networks, and the churn of the labels."""
        online = group_statistics(self.online_network)
        return {**super().epoch_state(), "online": online, "churn": self.churn}

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch."""
        super().resume_epoch(epoch, state)
        load_group_statistics(self.online_network, state["online"])
        self._set_gate(epoch)
        self.churn = float(state["churn"])

    def report(self) -> dict[str, float]:
        """Share of the labels that the clustering before this epoch changed."""
        return {"churn": self.churn}

    def cluster(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Labels (n,) and centers (k, d) of unit features of all images, see `_labels`."""
        return cluster(features, self.bounds[self.target], self.options, seed=self.config.seed)

    def order(self, epoch: int) -> Tensor | None:
        """Images of an epoch: balanced over the labels if asked, whole batches if they must be."""
        seed, n = self.config.seed, self.n_samples
        if self.options.resample:
            draws = generator(seed, "resample", epoch)
            order = balanced_order(self.labels[self.target], draws)
        elif self.options.batch_norm == "shuffled":
            order = permutation(n, seed, epoch, device=self.device)
        else:
            return None
        if self.options.batch_norm == "shuffled":
            order = order[: n - n % self.config.batch_size]
        return order

    # M-step -------------------------------------------------------------------------------------

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Compute the loss of one batch; the queue moves on.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : two (b, c, h, w) tensors.

        Returns
        -------
        loss : () tensor to call ``backward`` on.
        """
        total, options = len(ids), self.options
        q = self.passes.online(self.online_network, views, total)  # (2, b, d): f(x)
        with torch.no_grad():
            k = self.passes.target(self.target_network, views, total, self.steps)  # f'(x)

        q, k = full_precision(q), full_precision(k)

        # Directions of f(x) and, with the views exchanged, of f'(x): (2, 2, b, d). So the means
        # over the first axis of what follows are over both ways.
        unit = unit_directions(torch.stack([q, k.flip(0)]))
        q_unit, k_unit = (Directions(unit.vectors[i], unit.valid[i]) for i in (0, 1))

        # Alignment: || g(v_a) - f'(x_b) ||^2 with v = f(x) + sigma eps (Eq. 9, 10).
        samples = self._positive_samples(q, q_unit.vectors)
        g = self.passes.predict(self.online_network, samples)
        loss: Tensor = positive_sampling_alignment(g, k_unit).to(q.dtype)

        # Scattering of the prototypes mu (Eq. 6) and mu' (Eq. 7) by Eq. 4 or a variant.
        if options.psl_weight:
            mu, mu_target = self._prototypes(ids, unit)
            form, tau = SCATTERING[options.psl], options.temperature
            scattering = form(mu, mu_target, temperature=tau).mean().to(q.dtype)
            loss = loss + self.gate * options.psl_weight * scattering
        self._push(ids, k)

        if options.ema_after == "loss":  # Eq. 11, as the first version of the code has it
            self.steps.add_(1)
            self._follow()
        return loss

    def after_step(self) -> None:
        """Move the target network after the online one (Eq. 11), in place."""
        if self.options.ema_after == "optimizer":
            self.steps.add_(1)
            self._follow()
        self.passes.after_step([self.online_network, self.target_network])

    @torch.no_grad()
    def _follow(self) -> None:
        averaged = self._averaged
        m = self.ema_momentum()
        # `algos.losses.propos.prototypes.moving_average`, over all parameters in two kernels.
        torch._foreach_mul_(averaged, m.to(self.dtype))
        moved = torch._foreach_mul(self._followed, (1.0 - m).to(self.dtype))
        torch._foreach_add_(averaged, list(moved))

    def ema_momentum(self) -> Tensor:
        """Momentum m of Eq. 11 after the steps taken so far, () float64.

        The cosine is ``1 - (1 - ema) (1 + cos(pi t / T)) / 2``, t of T steps.
        """
        start = self.options.ema
        if self.options.ema_schedule == "constant":
            return torch.full_like(self.steps, start, dtype=torch.float64)
        done = self.steps.double() / self.total_steps
        return 1.0 - (1.0 - start) * 0.5 * (1.0 + torch.cos(math.pi * done))

    def _positive_samples(self, q: Tensor, unit: Tensor) -> Tensor:
        """Eq. 9: features, or their directions, with noise drawn alike on every rank."""
        rows = unit if self.options.noise == "sphere" else q
        if self.options.sigma:
            key = stream_key(self.config.seed, "noise")
            shape, device = tuple(q.shape), q.device
            noise = normal_noise(shape, key=key, stream=self.steps, xp=torch, device=device)
            sigma = self.options.sigma
            rows = perturbed(rows, self.gate * noise, sigma=sigma, on_sphere=False)
        return rows.to(q.dtype)

    def _prototypes(self, ids: Tensor, unit: Directions) -> tuple[Prototypes, Prototypes]:
        """Prototypes of each view of f and of f', with the features of the queue."""
        every, k = self.labels[self.target], self.n_clusters
        sums = prototype_sums(unit, every[ids], n_clusters=k)
        if self.queue is not None:
            labels = current_labels(self.queue.ids, every)
            past = prototype_sums(self.queue.rows, labels, n_clusters=k)
            sums = PrototypeSums(*map(torch.add, sums, past))
        found = normalize_sums(sums)
        mu, mu_target = (Prototypes(found.vectors[i], found.valid[i]) for i in (0, 1))
        return mu, mu_target

    def _push(self, ids: Tensor, k: Tensor) -> None:
        """Let the queue take the features of f'."""
        if self.queue is not None and self.options.psl_weight:
            moved = push(self.queue, k.flatten(0, 1), ids.repeat(2))
            for old, new in zip(self.queue, moved, strict=True):
                old.copy_(new)

    def _set_gate(self, epoch: int) -> None:
        optim = self.config.optim
        self.gate.fill_(float(epoch >= optim.frozen_epochs + optim.warmup_epochs))

    # Prediction and state -----------------------------------------------------------------------

    def target_centers(self, features: Tensor) -> Tensor:
        """Unit centers (k, d) of k-means of the features of all images."""
        return self.cluster(features)[1]

    def probe_logits(self, features: Tensor) -> None:
        """Return nothing: clusters come from k-means of all samples."""
        return None

    @property
    def temperature(self) -> float:
        """That of the scattering, which compares directions with prototypes."""
        return self.options.temperature

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {
            "online": dict(self.online_network.state_dict()),
            "target": dict(self.target_network.state_dict()),
            "labels": self.labels,
            "steps": self.steps,
            "queue": None if self.queue is None else self.queue._asdict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.online_network.load_state_dict(state["online"])
        self.target_network.load_state_dict(state["target"])
        self.labels.copy_(state["labels"])
        self.steps.copy_(state["steps"])
        if self.queue is not None:
            for name, tensor in self.queue._asdict().items():
                tensor.copy_(state["queue"][name])


def _batches_per_epoch(config: RunConfig, n: int, options: ProposOptions) -> int:
    """Batches that the loop makes of an epoch."""
    if options.batch_norm == "shuffled":
        return n // config.batch_size
    return max(1, min(-(-n // config.batch_size), n // 2))
