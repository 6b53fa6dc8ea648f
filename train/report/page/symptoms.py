"""What an alarm of a training run means: its cause, and what to do about it.

`loop.alarms` finds them, at the end of an epoch; the command, ``metrics.jsonl`` and the page name
them as here. An alarm says what is wrong before it says what may be wrong: where features are
constant, everything behind them is as well, and only the features are named.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SYMPTOMS", "Symptom"]


class Symptom(NamedTuple):
    """A way in which a run fails.

    Attributes
    ----------
    cause, remedy : str. Sentences.
    """

    cause: str
    remedy: str


SYMPTOMS = {
    "not finite": Symptom(
        "Some steps were too large for the numbers, or a loss divided by almost 0.",
        "Lower optim.lr (and optim.center_lr) to a tenth; with execution.precision='bfloat16', try "
        "'float32'; raise the temperatures.",
    ),
    "exploding weights": Symptom(
        "The learning rate is many times too large: in one epoch the weights outgrew what they "
        "were.",
        "Lower optim.lr to a tenth or less, or lengthen optim.warmup_epochs, and begin again: what "
        "was learned before is lost.",
    ),
    "constant features": Symptom(
        "The encoder gives every sample almost the same features: it has collapsed, or its input "
        "is constant.",
        "Look at the images on this run's page first. If they differ: name another encoder where "
        "it stays as it is (--encoder); where it learns, lower optim.lr, weaken augment, and for "
        "ProPos raise propos.psl_weight or optim.warmup_epochs.",
    ),
    "dead head": Symptom(
        "The encoder tells samples apart, and the head behind it does not: its scores are the same "
        "for all of them.",
        "Start the head again (heads.init='kmeans'), lower optim.center_lr or mi_margin.head_lr, "
        "and raise loss.temperature.",
    ),
    "shuffled ids": Symptom(
        "Samples come with ids of other samples: an id of this epoch has another sample than in "
        "the epoch before, so that stored labels belong to nothing.",
        "Return samples in the order of their ids (no shuffling inside a reader of your own), and "
        "keep the data unchanged while the run goes on.",
    ),
    "one cluster": Symptom(
        "Almost all samples have one label: nothing holds the clusters apart.",
        "SeCu and CoKe: raise assignment.lower and assignment.kappa. GATCluster: raise "
        "gatcluster.entropy. MI + margin: raise mi_margin.balance. ProPos: set assignment.lower.",
    ),
    "empty clusters": Symptom(
        "Clusters without a single sample learn nothing any more.",
        "Ask for fewer clusters, or protect them: assignment.lower above 0 (SeCu, CoKe, ProPos), "
        "mi_margin.restart=0.1, a larger gatcluster.entropy, or several beginnings ([starts]).",
    ),
    "saturated prices": Symptom(
        "Prices differ by more than the scores of any two clusters: labels follow the prices, "
        "whatever is in the pictures.",
        "Lower assignment.kappa and assignment.kappa_floor, or use assignment.steps='measured'; "
        "if bounds contradict the data, widen assignment.lower and assignment.upper.",
    ),
    "uniform predictions": Symptom(
        "The head gives every cluster the same probability, and the loss stays at ln k.",
        "Lower loss.temperature (or the method's own), raise optim.lr, or train longer before "
        "judging: some heads leave this plateau late.",
    ),
}
"""All alarms by their names, the deeper causes first."""
