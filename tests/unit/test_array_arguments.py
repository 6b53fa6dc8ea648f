"""Every array argument of `algos` is of the library of the others and of its shape, or refused.

A call that works is taken, and one argument after the other is handed over in another library, with
the same values; or with one axis of length 1, or one axis more. Without the checks, some would be
stretched, or computed on a mixture, whose result is of whichever library comes first.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.baselines import comparison, entropy, sign_rule, sinkhorn_transport
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import centers, choices, hardness_weighted, minibatch, start
from dualclust.algos.clustering._restrictions import restrictions_of
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.clustering.dissimilarities import (
    great_circle_distances,
    matrix_dissimilarities,
)
from dualclust.algos.clustering.medoids import constrained_medoids, start_medoids
from dualclust.algos.clustering.minibatch_pass import minibatch_pass
from dualclust.algos.clustering.seeded import fixed_means
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    DualclustError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.algos.losses.gatcluster import attention, grouping, released
from dualclust.algos.losses.propos import memory_queue, prototypes, scattering
from dualclust.algos.offline import assign_offline
from dualclust.algos.online import assignment, certificates, duals
from dualclust.algos.pseudo_labels import energy, solver
from dualclust.algos.scores import sources
from dualclust.algos.selection.agreement import adjusted_rand_index
from dualclust.algos.theory import label_features, von_mises_fisher
from dualclust.backends import engine

N, K, D = 12, 3, 2
RNG = np.random.default_rng(0)
SCORES, LABELS, ONES = RNG.normal(size=(N, K)), np.arange(N) % K, np.ones(N)
X, C = RNG.normal(size=(N, D)), RNG.normal(size=(K, D))
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
ZERO, SHARES, COUNTS = np.zeros(K), np.full(K, 1 / K), np.full(K, 4)
BOUNDS = SizeBounds.from_ratios(K, n_samples=N, lower=0.5, upper=2.0)
STREAM = SizeBounds.for_stream(K)
ENTROPY = entropy.EntropyRule(0.1, N)
SIGMA = np.full((4, 2), 0.5)
QUEUE = memory_queue.init_queue(9, D, xp=np)
with engine("reference"):
    START = assignment.init_state(BOUNDS)
    STATE = assignment.assign(SCORES, BOUNDS).state
    SUMS = centers.sum_batch(UNIT, LABELS, n_clusters=K)
    MINI = minibatch.init_minibatch(C, STREAM)
    PROTOTYPES = prototypes.normalize_sums(prototypes.prototype_sums(UNIT, LABELS, n_clusters=K))
SOURCE = sources.feature_source(X)
PAIRS = matrix_dissimilarities(abs(X[:, :1] - X[:, 0]))
SEEDED = {"n_clusters": K, "seed": 0}
RULE = duals.DualRule(SHARES, SHARES, step_size=0.1, chunk_size=4)

# What is called, its array arguments, of which each is replaced, and the others.
CALLS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (comparison.level_prices, {"prices": ZERO, "bounds": BOUNDS}, {}),
    (
        comparison.record,
        {"scores": SCORES, "labels": LABELS, "prices": ZERO, "bounds": BOUNDS},
        {"method": "greedy"},
    ),
    (comparison.compare_assignments, {"scores": SCORES, "bounds": BOUNDS}, {"names": ["greedy"]}),
    (
        entropy.entropy_step,
        {"scores": SCORES, "previous": LABELS, "counts": COUNTS},
        {"rule": ENTROPY},
    ),
    (entropy.assign_entropy, {"scores": SCORES, "previous": LABELS}, {"rule": ENTROPY}),
    (entropy.entropy_upper_bound, {"scores": SCORES, "prices": ZERO}, {"rule": ENTROPY}),
    (
        sign_rule.assign_sign_rule,
        {"scores": SCORES, "shares": SHARES, "upper_shares": SHARES, "bias": ZERO},
        {},
    ),
    (sinkhorn_transport.sinkhorn, {"scores": SCORES, "shares": SHARES, "prices": ZERO}, {}),
    (sinkhorn_transport.soft_plan, {"scores": SCORES, "prices": ZERO}, {"epsilon": 0.5}),
    (
        kmeans,
        {"features": X, "centers": C, "weights": ONES},
        {"metric": "euclidean", "max_iter": 1},
    ),
    (
        constrained_kmeans,
        {"features": X, "bounds": BOUNDS, "centers": C, "weights": ONES, "prices": ZERO},
        {"metric": "euclidean", "max_iter": 1},
    ),
    (
        constrained_medoids,
        {"bounds": BOUNDS, "medoids": LABELS[:K], "weights": ONES, "prices": ZERO}
        | {"fixed": LABELS},
        {"dissimilarities": PAIRS},
    ),
    (start_medoids, {"weights": ONES, "fixed": LABELS - 1}, {"dissimilarities": PAIRS} | SEEDED),
    (great_circle_distances, {"rows": X, "centers": C}, {}),
    (
        restrictions_of,
        {"fixed": LABELS, "forbidden": np.asarray([[0, 1]]), "bounds": BOUNDS},
        {},
    ),
    (centers.add_to_sums, {"state": SUMS, "features": UNIT, "labels": LABELS}, {}),
    (centers.sum_batch, {"features": UNIT, "labels": LABELS}, {"n_clusters": K}),
    (centers.merge_sums, {"first": SUMS, "second": SUMS}, {}),
    (centers.mean_centers, {"state": SUMS, "previous": C}, {}),
    (
        centers.renormalized_centers,
        {"centers": UNIT[:K], "counts": SUMS.counts, "batch": SUMS},
        {},
    ),
    (choices.row_choices, {"scores": SCORES, "labels": LABELS, "prices": ZERO}, {}),
    (choices.first_of_each, {"groups": LABELS, "keys": ONES}, {"most": 2}),
    (
        hardness_weighted.hardness_centers,
        {"features": UNIT, "labels": LABELS, "centers": UNIT[:K]},
        {"temperature": 0.5},
    ),
    (minibatch.init_minibatch, {"centers": C, "bounds": STREAM}, {}),
    (
        minibatch.minibatch_step,
        {"features": X, "state": MINI, "bounds": STREAM, "weights": ONES},
        {"metric": "euclidean"},
    ),
    (
        minibatch_pass,
        {"state": MINI, "bounds": STREAM, "weights": ONES},
        {"source": SOURCE, "metric": "euclidean"},
    ),
    (
        fixed_means,
        {"fixed": LABELS, "weights": ONES},
        {"source": SOURCE, "n_clusters": K, "metric": "euclidean"},
    ),
    (
        start.kmeans_plus_plus,
        {"features": X, "uniforms": SHARES, "weights": ONES, "given": C},
        {},
    ),
    (
        start.start_centers,
        {"weights": ONES, "given": C},
        {"source": SOURCE, "n_clusters": K, "seed": 0, "metric": "euclidean"},
    ),
    (
        attention.attended_features,
        {"features": np.ones((2, 3, 4, 5)), "attention": np.ones((2, 4, 5))},
        {},
    ),
    (
        released.released_gatcluster_loss,
        {"logits": SCORES, "attention_logits": SCORES, "labels": LABELS}
        | {"targets": np.abs(SCORES), "attention_targets": np.abs(SCORES)},
        {},
    ),
    (grouping.grouped_labels, {"features": UNIT, "uniforms": np.full((1, K, 2), 0.3)}, {}),
    (memory_queue.push, {"queue": QUEUE, "rows": UNIT, "ids": LABELS}, {}),
    (memory_queue.current_labels, {"ids": 0 * LABELS, "labels": LABELS}, {}),
    (prototypes.weighted_sums, {"features": UNIT, "weights": np.abs(SCORES)}, {}),
    (prototypes.prototype_sums, {"features": UNIT, "labels": LABELS}, {"n_clusters": K}),
    (prototypes.moving_average, {"average": C, "value": C}, {"momentum": 0.5}),
    (
        prototypes.update_prototypes,
        {"average": PROTOTYPES, "batch": PROTOTYPES},
        {"momentum": 0.5},
    ),
    (scattering.perturbed, {"features": UNIT, "noise": UNIT}, {"sigma": 0.1}),
    (scattering.positive_sampling_alignment, {"predicted": UNIT, "target": UNIT}, {}),
    (assign_offline, {"scores": SCORES, "bounds": BOUNDS, "prices": ZERO, "weights": ONES}, {}),
    (assignment.assign, {"scores": SCORES, "bounds": BOUNDS, "state": START}, {}),
    (certificates.size_certificate, {"state": STATE, "bounds": BOUNDS}, {}),
    (certificates.violation, {"counts": COUNTS, "bounds": BOUNDS}, {}),
    (certificates.objective, {"scores": SCORES, "labels": LABELS}, {}),
    (certificates.dual_value, {"scores": SCORES, "prices": ZERO, "bounds": BOUNDS}, {}),
    (certificates.margins, {"scores": SCORES, "prices": ZERO}, {}),
    (
        duals.update_duals,
        {"duals": STATE.duals, "sizes": COUNTS, "rule": RULE},
        {"n_samples": N},
    ),
    (duals.assign_batch, {"scores": SCORES, "duals": STATE.duals, "rule": RULE}, {}),
    (
        energy.label_gap,
        {"sigma": SIGMA, "labels": SIGMA, "prior": SIGMA[0]},
        {"fairness_weight": 1.0},
    ),
    (
        solver.pseudo_labels,
        {"sigma": SIGMA, "prior": SIGMA[0], "start": SIGMA},
        {"fairness_weight": 1.0},
    ),
    (sources.score_source, {"scores": SCORES, "weights": ONES}, {}),
    (
        sources.product_source,
        {"centers": C, "weights": ONES},
        {"features": SOURCE},
    ),
    (adjusted_rand_index, {"labels": LABELS, "other": LABELS}, {"n_clusters": K}),
    (
        label_features.label_feature_value,
        {"features": UNIT, "relations": np.eye(N)},
        {},
    ),
    (von_mises_fisher.log_density, {"x": UNIT, "mean": UNIT[0], "kappa": np.asarray(2.0)}, {}),
]
NAMES = [function.__name__ for function, *_ in CALLS]


def foreign(value: Any) -> Any:
    """The same in another library; of a record, each of its arrays."""
    if isinstance(value, np.ndarray):
        return array_api_strict.asarray(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(foreign, value))
    return value


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_each_argument_is_of_the_library_of_the_others(call: Any) -> None:
    function, arrays, others = call
    with engine("reference"):
        function(**arrays, **others)
        for name, value in arrays.items():
            with pytest.raises(DeviceMismatchError, match="of the same array library as"):
                function(**arrays | {name: foreign(value)}, **others)


# Where any length will do: of the only array that has the axis.
FREE = {
    "assign_sign_rule scores 0",
    "sinkhorn scores 0",
    "soft_plan scores 0",
    "kmeans centers 0",
    "great_circle_distances rows 0",
    "great_circle_distances centers 0",
    "sum_batch features 1",
    "sum_batch labels more",  # several labelings at once
    "init_minibatch centers 1",
    "kmeans_plus_plus uniforms 0",
    "kmeans_plus_plus uniforms more",  # several candidates for one center
    "kmeans_plus_plus given 0",
    "start_centers given 0",
    "attended_features features 1",
    "grouped_labels features 1",
    "grouped_labels uniforms 1",
    "grouped_labels uniforms 2",
    "current_labels ids 0",
    "current_labels labels 0",  # of any samples, of which a queue holds some
    "weighted_sums features 1",
    "weighted_sums features more",  # several views of a batch at once
    "weighted_sums weights 1",
    "prototype_sums features 1",
    "prototype_sums features more",
    "assign scores 0",
    "margins scores 0",
    "assign_batch scores 0",
    "score_source scores 1",
    "product_source centers 0",
    "label_feature_value features 1",
    "log_density x 0",
    "log_density x more",  # any leading axes
    "log_density mean more",
    "log_density kappa more",
}


def other_shapes(value: Any) -> Any:
    """Yield an axis and the array with only one entry along it; then "more", and one with more."""
    for axis in range(value.ndim):
        if value.shape[axis] > 1:
            yield axis, np.take(value, [0], axis=axis)
    yield "more", value[None, ...]


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_each_argument_has_its_shape(call: Any) -> None:
    function, arrays, others = call
    taken = set()
    for name, value in arrays.items():
        for axis, changed in other_shapes(value) if isinstance(value, np.ndarray) else ():
            with engine("reference"):
                try:
                    function(**arrays | {name: changed}, **others)
                except DualclustError:
                    continue
            taken.add(f"{function.__name__} {name} {axis}")
    assert taken == {entry for entry in FREE if entry.partition(" ")[0] == function.__name__}


# Not looked at, which would be a read, or go through as they are.
UNREAD = {
    "level_prices": "prices",
    "entropy_step": "scores",
    "entropy_upper_bound": "scores prices",
    "soft_plan": "scores prices",
    "sum_batch": "features",
    "mean_centers": "previous",
    "renormalized_centers": "centers",
    "row_choices": "scores prices",
    "first_of_each": "keys",
    "attended_features": "features attention",
    "released_gatcluster_loss": "logits attention_logits targets attention_targets",
    "grouped_labels": "uniforms",
    "push": "rows",
    "weighted_sums": "features weights",
    "prototype_sums": "features",
    "moving_average": "average value",
    "perturbed": "features noise",
    "positive_sampling_alignment": "predicted target",
    "objective": "scores",
    "dual_value": "scores prices",
    "margins": "scores prices",
    "assign_batch": "scores",
    "label_gap": "sigma labels prior",
    "pseudo_labels": "start",
    "score_source": "scores",
    "product_source": "centers",
    "log_density": "x mean kappa",
}
# Of any dtype: 1 and 1.0 mean the same there.
ANY_KIND = {
    "entropy_step previous",
    "entropy_step counts",
    "assign_entropy previous",
    "entropy_upper_bound prices",
    "assign_sign_rule shares",
    "assign_sign_rule upper_shares",
    "assign_sign_rule bias",
    "constrained_kmeans prices",
    "constrained_medoids prices",
    "sum_batch labels",
    "renormalized_centers counts",
    "row_choices labels",
    "first_of_each groups",
    "released_gatcluster_loss targets",
    "released_gatcluster_loss attention_targets",
    "current_labels labels",
    "moving_average value",
    "assign_offline prices",
    "label_feature_value relations",
}
# Called by the library alone, with arrays that it has made itself.
INSIDE = {"current_labels ids", "product_source centers"}


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_each_argument_is_of_its_dtype(call: Any) -> None:
    function, arrays, others = call
    for name, value in arrays.items():
        entry = f"{function.__name__} {name}"
        if not isinstance(value, np.ndarray) or entry in INSIDE:
            continue
        changed = value.astype(np.int64 if value.dtype == np.float64 else np.float64)
        fits = (
            nullcontext()
            if entry in ANY_KIND
            else pytest.raises(InvalidTypeError, match=r"dtype|number")
        )
        with engine("reference"), fits:
            function(**arrays | {name: changed}, **others)


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_numbers_that_are_not_finite_are_refused(call: Any) -> None:
    function, arrays, others = call
    for name, value in arrays.items():
        unread = name in UNREAD.get(function.__name__, "").split()
        if unread or not isinstance(value, np.ndarray) or value.dtype != np.float64:
            continue
        changed = value.copy()
        changed[(-1,) * changed.ndim] = np.nan
        with engine("reference"), pytest.raises(InvalidValueError):
            function(**arrays | {name: changed}, **others)
