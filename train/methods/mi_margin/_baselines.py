r"""The objectives that MI + margin is compared with, on the predictions of one batch.

All see the same: the logarithm of sigma, the mean prediction over the drawn views (section E.3).
MI + margin itself is in the step of the method.

=============  ====================================================================================
objective      loss of the network
=============  ====================================================================================
``mi_d``       ``mean_i H(sigma_i) + w KL(mean sigma || u)``: Eq. (1) and (a) without margin, w 1.3.
               IMSAT's self-augmentation is here the mean over views, as for all others
``iic``        minus the information of the joint distribution of the two views' clusters
``sela``       ``mean_i H(y_i, sigma_i)`` for hard labels of an optimal transport with equal sizes
               over *all* images, by their plain predictions, once before each epoch
``mi_adm``     ``mean_i H(y_i, sigma_i)`` for soft labels of the batch, see `split_labels`
``seeds``      0: the cross-entropy on given labels is all that is learned (`_seeds`)
=============  ====================================================================================

The method adds the margin ``gamma ||v||^2`` to each.

*SeLa.* The supplement does not say how often its labels were made. The schedule here is that of its
own paper (Asano et al. 2020): transport over the whole data set at lambda = 25, labels by rounding
the plan, then ordinary training until the next time.

*MI-ADM.* The text at hand names the method (Jabi et al. 2021) but prints no update. Here it is
derived: Eq. (a) in a copy y of sigma, held near it by a penalty mu,

``mean_i H(y_i) + mu mean_i KL(y_i || sigma_i) + lambda KL(mean y || u)``,   alternating.

Divided by mu, with ``tau = 1 - 1 / mu`` and ``w = lambda / mu``, that is

``mean_i H(y_i, sigma_i) - tau mean_i H(y_i) + w KL(mean y || u)``

convex in y for tau > 0: the *forward* cross-entropy, in which y weighs the logarithm of the
prediction. The network's step is ``mean_i H(y_i, sigma_i) + gamma ||v||^2``. With tau = 1 nothing
asks for sure predictions; tau = 0 gives hard labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ....algos.baselines.sinkhorn_transport import SinkhornOptions, sinkhorn, soft_plan
from ....algos.losses.cross_entropy import soft_cross_entropy
from ....algos.losses.information.joint import joint_information_loss
from ....algos.losses.information.mutual import mean_entropy, prior_divergence
from ....algos.losses.information.self_labeling import self_labeling_loss
from ...config.methods.mi_margin import MiMarginOptions

__all__ = ["BASELINES", "Outputs", "Terms", "split_labels", "transport_labels"]


class Outputs(NamedTuple):
    """Predictions of a batch.

    Attributes
    ----------
    scores : (b, k) tensor. log sigma.
    views : (v, b, k) tensor. Log-probabilities of each view that sigma is the mean of.
    stored : (b,) int64 tensor. Labels kept for these images.
    """

    scores: Tensor
    views: Tensor
    stored: Tensor


class Terms(NamedTuple):
    """What an objective makes of a batch.

    Attributes
    ----------
    loss : () tensor.
    labels : (b,) int64 tensor. Clusters of the batch.
    error : () float64 tensor. How far soft labels are from solved: for ``mi_adm`` the largest error
        of a share; 0 where nothing was solved.
    """

    loss: Tensor
    labels: Tensor
    error: Tensor


class SplitLabels(NamedTuple):
    """Result of `split_labels`.

    Attributes
    ----------
    labels : (b, k) float64 tensor. Rows on the simplex.
    error : () float64 tensor. Largest difference of a cluster's share from what its price asks for.
    """

    labels: Tensor
    error: Tensor


def split_labels(scores: Tensor, *, balance: float, smoothing: float, rounds: int) -> SplitLabels:
    """Soft labels of MI-ADM for fixed predictions.

    Minimize ``mean_i H(y_i, sigma_i) - tau mean_i H(y_i) + w KL(mean y || u)``. The solution is
    ``y_ik ~ exp((log sigma_ik + pi_k) / tau)`` with prices ``pi_k = -w log(k mean_i y_ik)``: a step
    of Sinkhorn's iteration damped by ``w / (w + tau)``, which is its rate.

    Parameters
    ----------
    scores : (b, k) tensor. log sigma; detached here.
    balance : float >= 0. w.
    smoothing : float > 0. tau.
    rounds : int. Steps; no value is read back.
    """
    log_p = scores.detach().double()
    k = log_p.shape[1]
    prices = log_p.new_zeros(k)
    once = SinkhornOptions(epsilon=smoothing, max_iter=1, tol=0.0)
    for _ in range(rounds):
        prices = (
            balance / (balance + smoothing) * sinkhorn(log_p, options=once, prices=prices).prices
        )
    y = soft_plan(log_p, prices, epsilon=smoothing)
    wanted = torch.exp(-prices / balance) / k if balance > 0 else y.mean(0)
    return SplitLabels(y, (y.mean(0) - wanted).abs().amax())


def transport_labels(probabilities: Tensor, *, sharpness: float) -> tuple[Tensor, Tensor]:
    """Labels of SeLa for all images, and how far the soft sizes are from equal, as shares.

    Parameters
    ----------
    probabilities : (n, k) tensor. Predictions of all images.
    sharpness : float > 0. lambda.

    Notes
    -----
    Reads values back: for the start of an epoch, not for a step.
    """
    scores = probabilities.double().clamp(min=torch.finfo(torch.float64).tiny).log()
    found = sinkhorn(scores, options=SinkhornOptions(epsilon=1.0 / sharpness))
    return found.labels, found.residual


def _mi_d(options: MiMarginOptions, out: Outputs) -> Terms:
    loss = mean_entropy(out.scores) + options.fairness_weight * prior_divergence(out.scores)
    return _unsolved(loss, out)


def _iic(options: MiMarginOptions, out: Outputs) -> Terms:
    loss = joint_information_loss(*out.views, entropy_weight=options.entropy_weight)
    return _unsolved(loss, out)


def _sela(options: MiMarginOptions, out: Outputs) -> Terms:
    # Not F.one_hot, which looks at the values.
    clusters = torch.arange(out.scores.shape[1], device=out.scores.device)
    targets = (out.stored[:, None] == clusters).to(out.scores.dtype)
    loss = self_labeling_loss(out.scores, targets)
    return Terms(loss, out.stored, _nothing(out))


def _mi_adm(options: MiMarginOptions, out: Outputs) -> Terms:
    found = split_labels(
        out.scores,
        balance=options.fairness_weight,
        smoothing=options.smoothing,
        rounds=options.rounds,
    )
    loss = soft_cross_entropy(out.scores, found.labels, temperature=1.0).mean()
    return Terms(loss, found.labels.argmax(1), found.error)


def _seeds(options: MiMarginOptions, out: Outputs) -> Terms:
    return _unsolved(0.0 * out.scores.sum(), out)


def _unsolved(loss: Tensor, out: Outputs) -> Terms:
    return Terms(loss, out.scores.detach().argmax(1), _nothing(out))


def _nothing(out: Outputs) -> Tensor:
    return out.scores.new_zeros((), dtype=torch.float64)


BASELINES: dict[str, Callable[[MiMarginOptions, Outputs], Terms]] = {
    "mi_d": _mi_d,
    "iic": _iic,
    "sela": _sela,
    "mi_adm": _mi_adm,
    "seeds": _seeds,
}
