"""Settings of MI + margin and of the objectives that its paper compares it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ....algos.core.errors import UsageError
from ..constraints import Cardinal, Count, Fraction, NonNegative, Positive, one_of
from ..schema import Checked, Rule
from ._registry import register_options

__all__ = ["OBJECTIVES", "MiMarginOptions"]

OBJECTIVES = ("mi_margin", "mi_d", "iic", "sela", "mi_adm", "seeds")

Weight = Annotated[float, Rule("between 0 and 1e30", lambda x: 0 <= x <= 1e30)]


@register_options("mi_margin")
@dataclass(frozen=True, slots=True)
class MiMarginOptions(Checked):
    r"""Settings of MI + margin besides those that all methods share.

    The head is the last layer of the network: ``network.layers = 1`` and ``network.out_dim`` equal
    to the one number in ``heads.clusters``.

    Attributes
    ----------
    objective : str. ``"mi_margin"``, or a baseline of the paper in the same loop: ``"mi_d"``,
        ``"iic"``, ``"sela"``, ``"mi_adm"`` (`methods.mi_margin._baselines`);
        ``"seeds"`` learns from the few given labels alone.
    margin_weight : float in [0, 1e30]. gamma, in front of ``||v||^2`` of the last layer, for any
        objective. The paper prints a weight decay of 0.01 and no gamma; 0.005 is the gamma whose
        gradient is that decay of v. ``optim.weight_decay`` is another term, of all layers.
    balance : float in [0, 1e30]. lambda of ``"mi_margin"``, per sample; 100 as printed.
    beta : float > 0. Weight of the reverse cross-entropy.
    fairness_weight : float in [0, 1e30]. Of ``"mi_d"`` and ``"mi_adm"``; 1.3 as printed.
    average : int, 0 or more. Views drawn by ``[augment]`` whose mean prediction is sigma; 0: the
        plain image.
    extra_weight : float >= 0. Of the reverse cross-entropy of one more view, drawn by ``[second]``
        (or ``[augment]``), to the same labels.
    newton_steps : int, 0 or more. Steps of the label solver, which rests at a gap of `tol`: the
        most that the host takes, where a captured step takes as many. 0: 60 and 25.
    tol : float > 0. Gap of the label problem, in nats, at which the solver rests.
    floor : float in [0, 1]. Part of the uniform distribution in the sigma that labels are solved
        for: labels are then unique and ``-ln y`` is bounded.
    sharpness : float > 0. lambda of ``"sela"``; 25 as published.
    smoothing : float > 0. tau of ``"mi_adm"``: below 1 labels are surer than predictions.
    rounds : int, 1 or more. Iterations of the labels of ``"mi_adm"``.
    entropy_weight : float in [0, 1e30]. Of the marginal entropies of ``"iic"``.
    restart : float in [0, 0.5]. A cluster whose mean prediction over an epoch is below this share
        of 1 / k starts again as half of the largest (`algos.clustering.restarts`); 0: never, as in
        the paper, whose loss has no gradient where a prediction is 0, so that a lost cluster stays
        lost.
    head_lr : float >= 0. Learning rate of the last layer; 0: that of the rest.
    supervised : float in [0, 1]. Share of the true labels of each class that training sees, drawn
        by the run's seed: weak supervision. 0, the default, hands no label to training.
    supervised_weight : float >= 0. Of the cross-entropy on them.

    Notes
    -----
    Table 2 (weak supervision on STL-10) is the recipe ``mi_margin_stl10_weak`` with, for each of
    its rows, ``mi_margin.objective`` one of seeds, mi_d, iic, sela, mi_adm, mi_margin; for each of
    its columns, ``mi_margin.supervised`` 0.1, 0.05, 0.01; and ``mi_margin.margin_weight=0`` for
    the rows whose papers have no such term (seeds, mi_d, iic, sela)::

        dualclust train mi_margin --data data/stl10_binary --recipe mi_margin_stl10_weak \
            --set mi_margin.objective=iic --set mi_margin.supervised=0.05 \
            --set mi_margin.margin_weight=0

    ``iic`` needs ``average=2``, its two views.
    """

    objective: Annotated[str, one_of(*OBJECTIVES)] = "mi_margin"
    margin_weight: Weight = 0.005
    balance: Weight = 100.0
    beta: Positive = 1.0
    fairness_weight: Weight = 1.3
    average: Cardinal = 2
    extra_weight: NonNegative = 0.0
    newton_steps: Cardinal = 12
    tol: Positive = 1e-6
    floor: Fraction = 1e-6
    sharpness: Positive = 25.0
    smoothing: Positive = 0.5
    rounds: Count = 50
    entropy_weight: Weight = 1.0
    restart: Annotated[float, Rule("between 0 and 0.5", lambda x: 0 <= x <= 0.5)] = 0.0
    head_lr: NonNegative = 0.0
    supervised: Fraction = 0.0
    supervised_weight: NonNegative = 1.0

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.objective == "iic" and self.average != 2:
            msg = f"objective='iic' compares two views: average must be 2, got {self.average}"
            raise UsageError(msg)
        if self.extra_weight > 0 and self.objective != "mi_margin":
            msg = (
                f"extra_weight is a term of objective='mi_margin', got {self.extra_weight} with "
                f"objective={self.objective!r}. To fix: set extra_weight=0"
            )
            raise UsageError(msg)
        if self.objective == "seeds" and not self.supervised * self.supervised_weight > 0:
            msg = (
                f"objective='seeds' learns from given labels alone: supervised and "
                f"supervised_weight must be above 0, got {self.supervised} and "
                f"{self.supervised_weight}"
            )
            raise UsageError(msg)
