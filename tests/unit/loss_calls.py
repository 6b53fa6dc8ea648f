"""A call of every loss that works, and what is known of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dualclust.algos.losses import coke, cross_entropy, secu, sparse_labels, temi
from dualclust.algos.losses.gatcluster import attention, grouping, relations, released, tasks
from dualclust.algos.losses.information import joint, mutual, pseudo_label, self_labeling
from dualclust.algos.losses.propos import memory_queue, prototypes, scattering

__all__ = ["CASES", "Case"]

RNG = np.random.default_rng(0)
N, K, D = 5, 3, 2
S, T = RNG.normal(size=(2, N, K))
Q, Y = RNG.dirichlet(np.ones(K), size=N), np.arange(N) % K
U, V = np.full(K, 1 / K), RNG.normal(size=(D, K))
X, Z = RNG.normal(size=(2, N, D))
VIEWS, OFTEN = RNG.normal(size=(2, 2, N, K))
WINDOW = attention.Gaussian(
    *(RNG.uniform(0.2, 0.8, size=shape) for shape in ((4, 2), (4, 2), (4,)))
)
FEW = sparse_labels.SparseLabels(np.asarray([[0, 1]] * N), np.full((N, 2), 0.5))
MU, NU = (prototypes.Prototypes(RNG.normal(size=(K, D)), np.ones(K, bool)) for _ in range(2))
SUMS = prototypes.PrototypeSums(RNG.normal(size=(K, D)), np.ones(K))
QUEUE = memory_queue.MemoryQueue(np.zeros((4, D)), np.arange(4), np.asarray(4))

SHARE, POSITIVE = ((0.0, 0.5, 1.0), (-1e-9, 1.0 + 1e-9)), ((0.5,), (0.0, -0.5, math.inf))
WEIGHT = ((0.0, 1e30), (-1e-9, 1.1e30))
SOME, COUNT = ((1, 2), (0,)), ((0, 1), (-1,))
PAIRS = np.log(RNG.dirichlet(np.ones(K), size=(2, 2, 2, N)))
SHARES = np.full((2, K), 1 / K)
HEAT = {"temperature": POSITIVE}


class Case(NamedTuple):
    """A call that works, and what is known of its arguments.

    `numbers` are those in their range and those outside; `placed` the arrays (or several together)
    that must be where the others are; `free` the axes whose length nothing else has; `any_kind` the
    arrays that are converted.
    """

    call: Callable[..., Any]
    arguments: dict[str, Any]
    numbers: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}  # noqa: RUF012  not changed
    placed: str = ""
    free: str = ""
    any_kind: str = ""


def dense(
    call: Any, numbers: dict[str, Any] | None = None, *, free: str = "", **arguments: Any
) -> Case:
    """A loss of scores at a temperature."""
    values = {name: inside[0] for name, (inside, _) in (numbers or {}).items()}
    return Case(call, arguments | values | {"temperature": 0.5}, (numbers or {}) | HEAT, "", free)


def scattered(call: Any) -> Case:
    places = "online.vectors target.vectors online.valid target.valid online.valid+target.valid"
    return Case(call, {"online": MU, "target": NU, "temperature": 0.5}, HEAT, places)


CASES = {
    "log_softmax": dense(cross_entropy.log_softmax, free="scores.0", scores=S[0]),
    "soft_cross_entropy": dense(cross_entropy.soft_cross_entropy, scores=S, targets=Q),
    "mixed_targets": dense(
        secu.mixed_targets,
        {"tau": SHARE},
        free="labels.0 reference_scores.0 reference_scores.1",
        labels=Y,
        reference_scores=S,
    ),
    "center_loss": dense(secu.center_loss, free="labels.0", scores=S, frozen_scores=T, labels=Y),
    "self_distillation_loss": Case(
        temi.self_distillation_loss,
        {"students": PAIRS[0], "teachers": PAIRS[1], "marginals": SHARES, "beta": 0.6},
        {"beta": ((1e-9, 1.0), (0.0, 1.1))},
    ),
    "label_loss": dense(coke.label_loss, free="scores.1", scores=S, labels=Y),
    "two_view_targets": dense(
        coke.two_view_targets,
        {"alpha": SHARE},
        free="reference_scores.2",
        labels=Y,
        reference_scores=VIEWS,
    ),
    "two_view_loss": dense(
        coke.two_view_loss, {"alpha": SHARE}, scores=VIEWS, frozen_scores=OFTEN, labels=Y
    ),
    "smoothed_labels": dense(coke.smoothed_labels, free="weights.0 weights.1", weights=Q),
    "average_label": Case(
        sparse_labels.average_label,
        {"average": FEW, "labels": Y, "count": 3},
        {"count": SOME},
        any_kind="average.clusters labels",
    ),
    "sparse_label_loss": Case(
        sparse_labels.sparse_label_loss,
        {"scores": S, "target": FEW, "temperature": 0.5, "smoothing": 0.5},
        HEAT | {"smoothing": POSITIVE},
        free="scores.1",
        any_kind="target.clusters",
    ),
    "isotropic_gaussian": Case(
        attention.isotropic_gaussian,
        {"raw": S, "min_variance": 0.5},
        {"min_variance": ((1e-6, 0.999), (0.9e-6, 1.0, 1.5))},
        free="raw.0",
    ),
    "released_gaussian": Case(
        attention.released_gaussian,
        {"raw": S, "min_variance": 0.5},
        {"min_variance": ((1e-6, 0.999), (0.9e-6, 1.0, 1.5))},
        free="raw.0",
    ),
    "full_gaussian": Case(
        attention.full_gaussian,
        {"raw": S.T, "min_variance": 0.5, "max_correlation": 0.5},
        {
            "min_variance": ((1e-6, 0.999), (0.9e-6, 1.0, 1.5)),
            "max_correlation": ((0.0, 1.0 - 1e-6), (-1e-9, 1.0 - 0.9e-6, 1.0)),
        },
        free="raw.0",
    ),
    "attention_map": Case(
        attention.attention_map,
        {"gaussian": WINDOW, "size": (1, 2), "alpha": 0.1},
        {"alpha": ((1e-6, 1e6), (0.9e-6, 1.1e6))},
        "gaussian.mean gaussian.variances gaussian.correlation",
    ),
    "attended_features": Case(
        attention.attended_features,
        {"features": VIEWS[:, None], "attention": VIEWS},
        {},
        "features attention",
        "features.1",
    ),
    "grouped_labels": Case(
        grouping.grouped_labels,
        {"features": X, "uniforms": np.full((2, 2, 2), 0.5), "max_iter": 1},
        {"max_iter": COUNT},
        "features uniforms",
        "features.0 features.1 uniforms.0 uniforms.1 uniforms.2",
    ),
    "relation_matrix": Case(relations.relation_matrix, {"labels": Y}, free="labels.0"),
    "usable_labels": Case(
        relations.usable_labels,
        {"labels": Y, "n_clusters": K, "min_share": 0.1},
        {"n_clusters": SOME, "min_share": SHARE},
        free="labels.0",
    ),
    "relation_loss": Case(
        relations.relation_loss,
        {"logits": S, "labels": Y, "floor": 0.1},
        {"floor": ((1e-12, 0.499), (0.9e-12, 0.5, 0.6))},
        "logits labels",
        "logits.1",
    ),
    "relation_gradient": Case(
        relations.relation_gradient,
        {"logits": S, "labels": Y, "rows": 2},
        {"rows": SOME},
        "logits labels",
        "logits.1",
    ),
    "relation_error": Case(
        relations.relation_error,
        {"logits": S, "labels": Y, "n_clusters": K},
        {"n_clusters": SOME},
        "logits labels",
        "logits.1",
    ),
    "balanced_targets": Case(
        tasks.balanced_targets,
        {"logits": S, "sharpness": 1.0, "empty": 0.5, "eps": 0.0},
        {"sharpness": POSITIVE, "empty": ((1e-9, 1.0), (0.0, 1.0 + 1e-9)), "eps": SHARE},
        free="logits.0 logits.1",
    ),
    "transformation_loss": Case(
        tasks.transformation_loss, {"logits": S, "targets": Q}, any_kind="targets"
    ),
    "attention_loss": Case(tasks.attention_loss, {"logits": S, "targets": Q}, any_kind="targets"),
    "entropy_loss": Case(tasks.entropy_loss, {"logits": S}, free="logits.0 logits.1"),
    "gatcluster_loss": Case(
        tasks.gatcluster_loss,
        {"logits": S, "attention_logits": T, "labels": Y, "targets": Q, "attention_targets": Q},
        placed="labels",
        any_kind="attention_logits targets attention_targets",
    ),
    "released_gatcluster_loss": Case(
        released.released_gatcluster_loss,
        {"logits": S, "attention_logits": T, "labels": Y, "targets": Q, "attention_targets": Q},
        placed="logits attention_logits labels targets attention_targets",
        any_kind="targets attention_targets",
    ),
    "LossWeights": Case(
        tasks.LossWeights,
        dict.fromkeys(("transformation", "attention", "entropy", "relation"), 1.0),
        dict.fromkeys(
            ("transformation", "attention", "entropy", "relation"), ((0.0, 9e9), (-1e-9, math.inf))
        ),
    ),
    "joint_distribution": dense(joint.joint_distribution, scores=S, other_scores=T),
    "joint_information_loss": dense(
        joint.joint_information_loss, {"entropy_weight": WEIGHT}, scores=S, other_scores=T
    ),
    "information_of_joint": Case(
        joint.information_of_joint,
        {"joint": Q / N, "entropy_weight": 1.0},
        {"entropy_weight": WEIGHT},
        free="joint.0 joint.1",
    ),
    "mean_entropy": dense(mutual.mean_entropy, free="scores.0 scores.1", scores=S),
    "mutual_information": dense(mutual.mutual_information, free="scores.0 scores.1", scores=S),
    "prior_divergence": dense(mutual.prior_divergence, free="scores.0", scores=S, prior=U),
    "margin_term": Case(
        mutual.margin_term,
        {"weights": V, "margin_weight": 0.5},
        {"margin_weight": WEIGHT},
        free="weights.0 weights.1",
    ),
    "information_margin_loss": dense(
        mutual.information_margin_loss,
        {"margin_weight": WEIGHT, "fairness_weight": WEIGHT},
        free="scores.0 weights.0 weights.1",
        scores=S,
        weights=V,
        prior=U,
    ),
    "reverse_cross_entropy": dense(pseudo_label.reverse_cross_entropy, scores=S, pseudo_labels=Q),
    "pseudo_label_divergence": Case(
        pseudo_label.pseudo_label_divergence,
        {"pseudo_labels": Q, "prior": U},
        free="pseudo_labels.0",
    ),
    "pseudo_label_loss": dense(
        pseudo_label.pseudo_label_loss,
        {"margin_weight": WEIGHT},
        free="weights.0 weights.1",
        scores=S,
        pseudo_labels=Q,
        weights=V,
    ),
    "self_labeling_loss": dense(self_labeling.self_labeling_loss, scores=S, targets=Q),
    "transport_objective": dense(
        self_labeling.transport_objective,
        {"sharpness": ((1e-30, 1e30, math.inf), (0.9e-30, 1.1e30))},
        scores=S,
        plan=Q / N,
        shares=U,
    ),
    "weighted_sums": Case(
        prototypes.weighted_sums,
        {"features": X, "weights": Q},
        {},
        "features weights",
        "features.1 weights.1",
    ),
    "prototype_sums": Case(
        prototypes.prototype_sums,
        {"features": X, "labels": Y, "n_clusters": K},
        {"n_clusters": SOME},
        "features labels",
        "features.1",
    ),
    "normalize_sums": Case(
        prototypes.normalize_sums,
        {"sums": SUMS},
        {},
        "sums.sums sums.mass",
        "sums.sums.1",
        "sums.mass",
    ),
    "moving_average": Case(
        prototypes.moving_average,
        {"average": X, "value": Z, "momentum": 0.5},
        {"momentum": SHARE},
        "average value",
        any_kind="value",
    ),
    "update_prototypes": Case(
        prototypes.update_prototypes,
        {"average": MU, "batch": NU, "momentum": 0.5},
        {"momentum": SHARE},
        "average.vectors average.valid batch.vectors batch.valid",
        any_kind="batch.vectors",
    ),
    **{
        form.__name__: scattered(form)
        for form in (
            scattering.psl_same_view,
            scattering.psl_cross_view,
            scattering.psl_mixed_view,
            scattering.psl_released,
            scattering.prototypical_alignment,
        )
    },
    "prototypical_uniformity": Case(
        scattering.prototypical_uniformity,
        {"online": MU, "temperature": 0.5},
        HEAT,
        "online.vectors online.valid",
        "online.vectors.1",
    ),
    "perturbed": Case(
        scattering.perturbed,
        {"features": X, "noise": Z, "sigma": 0.5},
        {"sigma": ((0.0, 9e9), (-1e-9, math.inf))},
        "features noise",
    ),
    "positive_sampling_alignment": Case(
        scattering.positive_sampling_alignment,
        {"predicted": X, "target": Z},
        {},
        "predicted target",
    ),
    "push": Case(
        memory_queue.push,
        {"queue": QUEUE, "rows": X, "ids": Y},
        {},
        "queue.rows rows ids",
        "queue.rows.0 queue.ids.0",
        "queue.rows queue.ids",
    ),
    "current_labels": Case(
        memory_queue.current_labels,
        {"ids": np.asarray([-1, 0]), "labels": Y},
        {},
        "ids labels",
        "ids.0 labels.0",
        "ids labels",
    ),
}
