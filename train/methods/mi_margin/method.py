r"""MI + margin: entropy self-labeling of a softmax classifier, and its baselines in the same loop.

One step on a batch of b images (supplement, Algorithm 1):

1. predictions ``sigma_i``, the mean of ``softmax(v f(t(x_i)))`` over the drawn views t (section
   E.3);
2. soft labels y of the batch: minimize ``-(beta / b) sum_ik sigma_ik ln y_ik`` ``- lambda sum_k u_k
   ln( mean_i y_ik )``, in float64 whatever the network, from the solver's closed-form start, which
   serves as well as the ``y = sigma`` of Algorithm 1 and needs no state;
3. with y fixed, the network's loss is ``beta mean_i H(sigma_i, y_i) + gamma ||v||^2``: by the
   envelope theorem its first term has the gradient of the *solved* energy, so that alternating is
   plain descent on it.

Supplement: no criterion and no number of iterations for 2. Here each solution comes with a proven
gap, collected on the device and reported for every epoch (``label_gap_mean``, ``label_gap_max``).

With a pretrained backbone (ResNet-18): sigma of the plain image (``average = 0``) and
``extra_weight mean_i H(sigma_i', y_i)`` for an augmented view of it.

======================  ========================  =========  =====================================
paper                   here                      shape      meaning
======================  ========================  =========  =====================================
:math:`\sigma_i^k`      exp of ``Outputs.scores``  (b, k)    mean posterior over views
:math:`y_i^k`           of `pseudo_labels`        (b, k)     soft labels, of the batch only
:math:`v`               ``head.weight``           (k, d)     last linear layer, without its bias
:math:`u`               uniform                   (k,)
:math:`\lambda`         ``balance``               ()         per sample; 100
:math:`\gamma`          ``margin_weight``         ()         not printed
======================  ========================  =========  =====================================

`_baselines` holds the objectives of other papers, `_seeds` the weak supervision, and
`MiMarginOptions` every setting.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ....algos.clustering.restarts import split_largest
from ....algos.core.errors import UsageError
from ....algos.core.precision import finite_log
from ....algos.losses.cross_entropy import log_softmax
from ....algos.losses.information.mutual import margin_term
from ....algos.losses.information.pseudo_label import reverse_cross_entropy
from ....algos.pseudo_labels.solver import floor_outputs, pseudo_labels
from ....common.ranks import ALONE, Ranks
from ...config.methods.mi_margin import MiMarginOptions
from ...config.run import RunConfig
from ...networks.network import Network, run_views
from ...state.seeding import generator
from ..base import ApplyToAll, Method, ParameterGroup, evaluating, register_method
from ._baselines import BASELINES, Outputs, transport_labels
from ._restarts import split_clusters
from ._seeds import draw_seeds, seed_loss

__all__ = ["MiMargin"]

MOST_STEPS, FIXED_STEPS = 60, 25
"""Steps of the label solver where `newton_steps` is 0: at most, and where no value may be read,
enough for sharp predictions; the gap that they leave is in the metrics, as always."""

CERTIFICATES = {"mi_margin": "label_gap", "mi_adm": "label_error", "sela": "label_error"}
"""What the error of the labels is called in the metrics of an epoch, by objective."""


@register_method("mi_margin")
class MiMargin(Method):
    """State of a run of MI + margin or of a baseline, and its step. Parameters as of `Method`.

    Attributes
    ----------
    options : MiMarginOptions
    head : nn.Linear. The last layer of the network: the classifier.
    seeds : (n,) int64 tensor or None. Classes given for weak supervision, -1 elsewhere.

    Raises
    ------
    UsageError
        If there are several heads, or the network does not end in one linear layer with an output
        for each cluster.
    """

    capturable = True
    readout = "log-probabilities"

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse several heads, and a network that does not end in a linear classifier."""
        clusters, options = config.heads.clusters, config.network
        if len(clusters) != 1:
            msg = (
                f"method='mi_margin' learns one head, got heads.clusters={list(clusters)}. "
                f"To fix: keep the target alone, heads.clusters=[{config.heads.target}]"
            )
            raise UsageError(msg)
        if options.layers != 1 or options.last_norm or options.predictor:
            msg = (
                f"method='mi_margin' needs a linear classifier behind the encoder, got "
                f"network.layers={options.layers}, last_norm={str(options.last_norm).lower()}, "
                f"predictor={options.predictor}. To fix: set layers=1, last_norm=false, predictor=0"
            )
            raise UsageError(msg)
        if options.out_dim != config.heads.target:
            msg = (
                f"method='mi_margin' needs an output for each cluster: network.out_dim must be "
                f"heads.target={config.heads.target}, got {options.out_dim}"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = options = config.options(MiMarginOptions)
        self.head = _head(network)
        self.n_clusters = config.heads.target
        drawn = ("first",) * options.average or ("plain",)
        self.views = drawn + ("second",) * (options.extra_weight > 0)
        self.averaged = len(drawn)
        self.wants_labels = options.supervised > 0
        self.seeds: Tensor | None = None
        if self.wants_labels:
            self.seeds = torch.full((n_samples,), -1, device=self.device)
        # What each cluster was given in an epoch: the sum of sigma over its batches.
        self.mass = torch.zeros(self.n_clusters, dtype=torch.float64, device=self.device)
        self.restarted = 0
        # Sum, largest and number of the errors of an epoch's labels.
        self.errors = torch.zeros(3, dtype=torch.float64, device=self.device)

    def parameter_groups(self) -> list[ParameterGroup]:
        """The last layer with its own rate where it has one, and all before it."""
        options = self.options
        if options.head_lr == 0:
            return [ParameterGroup(list(self.network.parameters()))]
        own = {id(p) for p in self.head.parameters()}
        before = [p for p in self.network.parameters() if id(p) not in own]
        scale = options.head_lr / self.config.optim.lr
        return [ParameterGroup(before), ParameterGroup(list(self.head.parameters()), scale=scale)]

    def take_labels(self, labels: Tensor) -> None:
        """Draw the seeds of weak supervision, and forget all other labels."""
        if self.seeds is None:
            msg = "true labels were handed over, and mi_margin.supervised is 0"
            raise UsageError(msg)
        draws = generator(self.config.seed, "seeds")
        share = self.options.supervised
        self.seeds.copy_(draw_seeds(labels, share, n_clusters=self.n_clusters, generator=draws))

    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Forget the errors of the epoch before; for SeLa, label all images."""
        super().begin_epoch(epoch, apply_to_all)
        self.errors.zero_()
        if self.options.restart > 0:
            splits = split_largest(self.mass, least=self.options.restart)
            split_clusters(self.head, splits, generator(self.config.seed, "restarts", epoch))
            self.restarted = len(splits)
            self.mass.zero_()
        if self.options.objective == "sela" and apply_to_all is not None:
            with evaluating(self.network):
                rows = apply_to_all(self.features)
            labels, error = transport_labels(rows, sharpness=self.options.sharpness)
            self.labels[self.target].copy_(labels)
            self._record(error)

    def epoch_state(self) -> dict[str, Any]:
        """Return the statistics of the views, the errors so far and the restarts."""
        figures = {"errors": self.errors, "restarted": self.restarted}
        return {**super().epoch_state(), **figures}

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch."""
        super().resume_epoch(epoch, state)
        self.errors.copy_(state["errors"])
        self.restarted = int(state["restarted"])

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Compute the loss of one batch; the labels move on.

        Equations are those of the supplement.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : tensors (b, c, h, w), as `views` names them.

        Returns
        -------
        loss : () tensor to call ``backward`` on.
        """
        options = self.options
        rows = run_views(self.network, self._log_posterior, views)
        rows = self.ranks.gather(rows, len(ids), dim=1)  # (v, b, k)
        drawn, extra = rows[: self.averaged], rows[self.averaged :]
        # sigma_i, the mean of softmax(v f(t(x_i))) over the drawn views (section E.3).
        scores = torch.logsumexp(drawn, dim=0) - math.log(self.averaged)
        sigma = scores.detach().double().exp()
        self.mass.add_(sigma.sum(0))

        if options.objective == "mi_margin":
            # Algorithm 1, y: minimize -(beta / b) sum_ik sigma_ik ln y_ik
            #                          - lambda sum_k u_k ln( mean_i y_ik )       (Lemma B.1).
            y, error = self._solve(sigma)
            clusters = y.argmax(1)
            # The network, for these y: beta mean_i H(sigma_i, y_i), and the extra view's.
            loss = reverse_cross_entropy(scores, y).mean()
            for view in extra:
                loss = loss + options.extra_weight * reverse_cross_entropy(view, y).mean()
            loss = options.beta * loss
        else:
            outputs = Outputs(scores, drawn, self.labels[self.target, ids])
            loss, clusters, error = BASELINES[options.objective](options, outputs)
        self.labels[self.target, ids] = clusters
        if options.objective in ("mi_margin", "mi_adm"):
            self._record(error)

        loss = loss + self._margin()  # gamma ||v||^2
        if self.seeds is not None:  # weak supervision (section E.4)
            loss = loss + options.supervised_weight * seed_loss(scores, self.seeds[ids])
        total: Tensor = loss
        return total

    def _solve(self, sigma: Tensor) -> tuple[Tensor, Tensor | float]:
        """Labels of a batch and their gap: on the host, which stops at `tol`, if it may read.

        A Newton step is some 400 operations on few numbers, which a host does in less time than it
        takes to launch them. Predictions of a network that has diverged stay NaN, and so does the
        loss, which ends the run.
        """
        options = self.options
        solve = partial(
            pseudo_labels,
            fairness_weight=options.balance,
            beta=options.beta,
            tol=options.tol,
        )
        if not self.may_read:
            given = floor_outputs(sigma, epsilon=options.floor)
            solved = solve(given, n_iter=options.newton_steps or FIXED_STEPS)
            return solved.labels, solved.gap
        rows = sigma.cpu().numpy()
        if not np.isfinite(rows).all():
            return torch.full_like(sigma, math.nan), math.nan
        given = floor_outputs(rows, epsilon=options.floor)
        solved = solve(given, max_iter=options.newton_steps or MOST_STEPS)
        return torch.from_numpy(solved.labels).to(self.device), float(solved.gap)

    def features(self, images: Tensor) -> Tensor:
        """Predictions of one batch of one view, (b, k), at least float32."""
        return self._log_posterior(images).exp()

    def normalize_rows(self, rows: Tensor) -> Tensor:
        """Logarithm of the mean prediction over views."""
        log_p: Tensor = finite_log(rows)
        return log_p

    def target_centers(self, features: Tensor) -> Tensor:
        """Weights of the last layer, (k, d), with d the length of the encoder's features."""
        return self.head.weight.detach()

    def scores(self, features: Tensor, centers: Tensor) -> Tensor:
        """The log-probabilities themselves: labels are the likeliest inside the bounds."""
        return features

    def probe_logits(self, features: Tensor) -> Tensor:
        """Log-probabilities of some predictions."""
        return self.normalize_rows(features)

    def report(self) -> dict[str, float]:
        """Mean and largest error of the labels of the epoch, in nats or as shares; restarts."""
        found = {"restarted": float(self.restarted)} if self.options.restart else {}
        name = CERTIFICATES.get(self.options.objective)
        total, largest, count = self.errors.tolist()
        if name is None or count == 0:
            return found
        return {**found, f"{name}_mean": total / count, f"{name}_max": largest}

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        state = {
            "network": dict(self.network.state_dict()),
            "labels": self.labels,
            "mass": self.mass,
        }
        return state if self.seeds is None else {**state, "seeds": self.seeds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        self.labels.copy_(state["labels"])
        self.mass.copy_(state["mass"])
        if self.seeds is not None:
            self.seeds.copy_(state["seeds"])

    def _log_posterior(self, images: Tensor) -> Tensor:
        log_p: Tensor = log_softmax(self.network(images))
        return log_p

    def _margin(self) -> Tensor:
        term = margin_term(self.head.weight, margin_weight=self.options.margin_weight)
        # The same on every rank, and gradients of the network are summed over ranks.
        share = term / self.ranks.world_size
        value: Tensor = share + (term - share).detach()
        return value

    def _record(self, error: Tensor | float) -> None:
        total, largest, count = self.errors.unbind()
        total.add_(error)
        largest.clamp_(min=error)
        count.add_(1.0)


def _head(network: Network) -> nn.Linear:
    """The classifier of a network, if it ends in one."""
    (head,) = network.projector.children()
    if not isinstance(head, nn.Linear):
        msg = f"the network must end in a linear layer, got {type(head).__name__}"
        raise UsageError(msg)
    return head
