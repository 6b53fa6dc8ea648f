"""Every number, name and label that an entry of `algos` takes lies in its range, or is refused.

A call that works is taken, and one argument after the other is replaced: by values at both ends of
its range, which work, and just outside, which an error names. Losses: losses/test_losses_arguments.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos import selection
from dualclust.algos.baselines import entropy, sign_rule, sinkhorn_transport
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import centers, choices, metrics, minibatch, restarts, seeded, start
from dualclust.algos.clustering._restrictions import restrictions_of
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.clustering.hardness_weighted import hardness_centers
from dualclust.algos.core import projections, random
from dualclust.algos.core.errors import DualclustError
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import assign_offline, assign_source
from dualclust.algos.online import assignment, certificates, duals, step_sizes
from dualclust.algos.pseudo_labels import em, energy, solver
from dualclust.algos.scores.sources import feature_source, score_source
from dualclust.algos.selection.agreement import adjusted_rand_index
from dualclust.algos.theory import equivalence, label_features, von_mises_fisher
from dualclust.backends import engine
from tests.refusals import message_of

N, K, D = 12, 3, 2
RNG = np.random.default_rng(0)
SCORES, LABELS, ONES = RNG.normal(size=(N, K)), np.arange(N) % K, np.ones(N)
X, C = RNG.normal(size=(N, D)), RNG.normal(size=(K, D))
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
SOURCE = feature_source(X)
BOUNDS = SizeBounds.from_ratios(K, n_samples=N, lower=0.5, upper=2.0)
STREAM = SizeBounds.for_stream(K)
SIGMA = np.full((4, 2), 0.5)
MINI = minibatch.init_minibatch(C, STREAM)
INF, NAN, HUGE = math.inf, math.nan, 10**400

AT_LEAST_1 = ((1, 2), (0, -1, 1.5, NAN))
AT_LEAST_0 = ((0, 1), (-1, 0.5, NAN))
SHARE = ((0.0, 1.0), (-1e-9, 1.0 + 1e-9, NAN))
NOT_NEGATIVE = ((0.0, 1.0), (-1e-9, NAN))
POSITIVE = ((0.5, 1e30), (0.0, -1.0, NAN))
METRIC = (("cosine", "euclidean"), ("manhattan", "", "Cosine"))
EMPTY = (("relocate", "keep"), ("drop", ""))


def labels(most: int, **options: Any) -> Any:
    """Labels inside and outside of 0 to `most`."""
    low, high = LABELS.copy(), LABELS.copy()
    low[-1], high[-1] = options.get("least", 0) - 1, most
    return (LABELS,), (low, high)


def rules(*, chunk: bool) -> Any:
    """Rules of steps inside and outside of their ranges."""
    wrong = [{"step_size": step} for step in (-0.1, NAN)]
    wrong += [{"chunk_size": size} for size in (0, -1)] * chunk
    return (RULE,), tuple(RULE._replace(**part) for part in wrong)


DUALS = assignment.init_state(BOUNDS).duals
RULE = duals.DualRule(ONES[:K] / K, ONES[:K] / K, step_size=0.1, chunk_size=4)

# What is called, what it works with, and each argument's values inside and outside its range.
CALLS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (
        SizeBounds.from_ratios,
        {"n_clusters": 2, "n_samples": N, "lower": 0.5, "upper": 2.0, "rounding": "outward"},
        {
            "n_clusters": ((1, 2), (0, -1, 1.5)),
            "n_samples": ((1, N), (0, -1, 1.5)),
            "lower": ((0.0, 1.0), (-1e-9, 1.1, NAN)),
            "upper": ((1.0, INF), (0.9, NAN)),
            "rounding": (("outward", "nearest"), ("up", "")),
        },
    ),
    (
        SizeBounds.for_stream,
        {"n_clusters": 2},
        {
            "n_clusters": ((1, 2), (0, -1, 1.5)),
            "lower": ((0.0, 1.0), (-1e-9, 1.1, NAN)),
            "upper": ((1.0, INF), (0.9, NAN)),
        },
    ),
    (
        SizeBounds.from_counts,
        {"lower": [1, 1], "upper": [9, 9], "n_samples": N},
        {"n_samples": ((2, N), (0, -1, 1.5, 1, 19)), "lower": (([0, 0],), ([-1, 0], [0.5, 1]))},
    ),
    (
        step_sizes.StepRule,
        {"step_size": 0.1, "chunk_size": 4},
        {"step_size": POSITIVE, "chunk_size": AT_LEAST_1, "l1_radius": ((0.5, INF), (0.0, NAN))},
    ),
    (
        step_sizes.measured_steps,
        {"bounds": BOUNDS, "n_samples": N, "kappa": 0.5},
        {
            "kappa": ((0.5, 1e30), (0.0, -1.0, NAN)),
            "kappa_floor": ((0.0, 0.5), (-1e-9, 0.6, NAN)),
            "scale": POSITIVE,
            "epoch": AT_LEAST_0,
        },
    ),
    (
        step_sizes.published_steps,
        {"name": "coke-cifar"},
        {"name": (tuple(step_sizes.PUBLISHED), ("coke", ""))},
    ),
    (
        step_sizes.theorem_steps,
        {"n_samples": N, "tau": 1.0},
        {"n_samples": AT_LEAST_1, "tau": POSITIVE},
    ),
    (
        duals.update_duals,
        {"sizes": np.full(K, 4), "n_samples": N, "duals": DUALS, "rule": RULE},
        {"n_samples": AT_LEAST_0, "rule": rules(chunk=False)},
    ),
    (
        duals.assign_batch,
        {"scores": SCORES, "duals": DUALS, "rule": RULE},
        {"rule": rules(chunk=True)},
    ),
    (
        duals.init_duals,
        {"shape": (K,), "xp": np},
        {"shape": (((0,), (K,)), ((-1,), (1.5,))), "xp": ((np,), (None, "numpy", math))},
    ),
    (certificates.objective, {"scores": SCORES, "labels": LABELS}, {"labels": labels(K)}),
    (
        certificates.violation,
        {"counts": np.full(K, 4), "bounds": BOUNDS},
        {"counts": ((np.asarray([0, 0, N]),), (np.asarray([-1, 0, N + 1]),))},
    ),
    (
        assign_offline,
        {"scores": SCORES, "bounds": BOUNDS},
        {
            "tol": SHARE,
            "prices": ((np.full(K, 1e3),), (np.asarray([0.0, INF, 0.0]),)),
            "weights": ((0.0 * ONES + (np.arange(N) > 0),), (-ONES, INF * ONES)),
        },
    ),
    (
        entropy.EntropyRule,
        {"weight": 0.1, "n_samples": N},
        {
            "weight": ((0.0, 1e300), (-1e-9, 1e301, NAN)),
            "n_samples": AT_LEAST_1,
            "batch_size": AT_LEAST_1,
            "first_pass": (entropy.FIRST_PASS, ("never", "")),
        },
    ),
    (
        entropy.assign_entropy,
        {"scores": SCORES, "previous": LABELS, "rule": entropy.EntropyRule(0.1, N)},
        {
            "n_passes": AT_LEAST_1,
            "previous": ((LABELS, np.full(N, -1)), labels(K, least=-1)[1]),
        },
    ),
    (sign_rule.SignRule, {}, {"step_size": POSITIVE, "batch_size": AT_LEAST_1}),
    (sign_rule.assign_sign_rule, {"scores": SCORES}, {"n_passes": AT_LEAST_1}),
    (
        sinkhorn_transport.SinkhornOptions,
        {},
        {
            "epsilon": ((0.05, 1.0), (0.0, INF, NAN)),
            "max_iter": AT_LEAST_1,
            "tol": NOT_NEGATIVE,
        },
    ),
    (
        sinkhorn_transport.soft_plan,
        {"scores": SCORES, "prices": np.zeros(K), "epsilon": 0.5},
        {"epsilon": ((0.05, 1.0), (0.0, INF, NAN))},
    ),
    (
        kmeans,
        {"features": UNIT, "centers": UNIT[:K], "max_iter": 2},
        {"metric": METRIC, "empty": EMPTY, "max_iter": AT_LEAST_0, "tol": SHARE},
    ),
    (
        constrained_kmeans,
        {"features": UNIT, "centers": UNIT[:K], "bounds": BOUNDS, "max_iter": 2},
        {
            "metric": METRIC,
            "empty": EMPTY,
            "max_iter": AT_LEAST_0,
            "tol": SHARE,
            "gap": SHARE,
            "prices": ((np.zeros(K),), (np.asarray([0.0, NAN, 0.0]), np.zeros(K + 1))),
        },
    ),
    (
        restrictions_of,
        {"fixed": LABELS, "forbidden": np.asarray([[0, 1]]), "bounds": BOUNDS},
        {
            "fixed": ((LABELS, np.full(N, -1)), labels(K, least=-1)[1]),
            "forbidden": (
                (np.asarray([[0, 1], [N - 1, 0]]),),
                tuple(np.asarray([pair]) for pair in ([N, 0], [-1, 0], [0, K], [0, -1])),
            ),
        },
    ),
    (
        centers.init_sums,
        {"n_clusters": K, "n_features": D, "xp": np},
        {"n_clusters": AT_LEAST_1, "n_features": AT_LEAST_1},
    ),
    (
        centers.sum_batch,
        {"features": UNIT, "labels": LABELS, "n_clusters": K},
        {"n_clusters": ((K, K + 1), (0, 1.5))},  # labels are not read
    ),
    (
        centers.add_to_sums,
        {"state": centers.init_sums(K, D, xp=np), "features": UNIT, "labels": LABELS},
        {"labels": labels(K)},
    ),
    (choices.first_of_each, {"groups": LABELS, "keys": ONES, "most": 2}, {"most": AT_LEAST_1}),
    (
        hardness_centers,
        {"features": UNIT, "labels": LABELS, "centers": UNIT[:K], "temperature": 0.5},
        {
            "temperature": ((0.5, 10.0), (0.0, -1.0, NAN)),
            "tol": ((1e-3, 1.0), (0.0, -1.0, NAN)),
            "max_iter": AT_LEAST_1,
            "labels": labels(K),
        },
    ),
    (
        minibatch.minibatch_step,
        {"features": X, "state": MINI, "bounds": STREAM, "metric": "euclidean"},
        {"metric": (("euclidean",), ("manhattan", "")), "empty": EMPTY},
    ),
    (
        seeded.fixed_means,
        {"source": SOURCE, "n_clusters": K, "fixed": LABELS, "metric": "euclidean"},
        {
            "metric": (("euclidean",), ("manhattan", "")),
            "fixed": ((LABELS, np.full(N, -1)), labels(K, least=-1)[1]),
        },
    ),
    (
        seeded.seeded_centers,
        {"source": SOURCE, "n_clusters": K, "fixed": None, "seed": 0, "metric": "euclidean"},
        {"n_clusters": ((1, K), (0, 1.5))},
    ),
    (
        start.start_centers,
        {"source": SOURCE, "n_clusters": K, "seed": 0, "metric": "euclidean"},
        {"n_clusters": ((1, K), (0, 1.5)), "metric": (("euclidean",), ("manhattan", ""))},
    ),
    (
        start.kmeans_plus_plus,
        {"features": X, "uniforms": np.asarray([0.1, 0.5])},
        {"uniforms": ((np.asarray([0.0, 0.9]),), (np.asarray([1.0]), np.asarray([-1e-9])))},
    ),
    (
        restarts.split_largest,
        {"mass": np.asarray([0.0, 5.0, 5.0]), "least": 0.1},
        {"least": ((0.0, 0.5), (-1e-9, 0.51, NAN))},
    ),
    (
        metrics.regret,
        {"scores": SCORES, "labels": LABELS, "best": 99.0},
        {"best": ((9.0,), (NAN,))},
    ),
    (projections.project_simplex, {"x": SCORES, "total": 1.0}, {"total": POSITIVE}),
    (projections.project_l1_ball, {"x": SCORES, "radius": 1.0}, {"radius": POSITIVE}),
    (
        projections.project_capped,
        {"x": SCORES, "cap": 0.5},
        {"cap": ((0.5, 1.0), (0.0, 1.1, NAN))},
    ),
    (random.uniforms, {"seed": 0, "n": 3, "xp": np}, {"n": AT_LEAST_0}),
    (
        solver.pseudo_labels,
        {"sigma": SIGMA, "fairness_weight": 1.0},
        {
            "fairness_weight": NOT_NEGATIVE,
            "beta": NOT_NEGATIVE,
            "tol": ((1e-3, 1.0), (0.0, -1.0, NAN)),
            "max_iter": AT_LEAST_1,
        },
    ),
    (
        em.em_labels,
        {"sigma": SIGMA, "fairness_weight": 1.0, "beta": 1.0, "n_iter": 2},
        {"n_iter": AT_LEAST_0, "fairness_weight": NOT_NEGATIVE},
    ),
    (
        em.em_step,
        {"sigma": SIGMA, "labels": SIGMA, "fairness_weight": 1.0, "beta": 1.0},
        {"beta": ((0.5, 1.0), (0.0, -1.0, NAN))},
    ),
    (
        energy.floor_outputs,
        {"sigma": SIGMA, "epsilon": 0.1},
        {"epsilon": SHARE},
    ),
    (
        adjusted_rand_index,
        {"labels": LABELS, "other": LABELS, "n_clusters": K},
        {"n_clusters": ((K, K + 1), (0, 1.5)), "labels": labels(K), "other": labels(K)},
    ),
    (
        selection.cosine_silhouette,
        {"features": UNIT, "labels": LABELS, "n_clusters": K},
        {"n_clusters": ((K, K + 1), (0, 1.5)), "labels": labels(K)},
    ),
    (
        equivalence.check_relations,
        {"relations": np.eye(3, dtype=np.int64), "n_clusters": 3},
        {"n_clusters": ((3, 4), (0, 1.5))},
    ),
    (
        label_features.check_label_features,
        {"features": np.eye(3), "relations": np.eye(3)},
        {"tol": ((0.0, 0.1), (-1e-9, 0.11, NAN))},
    ),
    (
        von_mises_fisher.log_bessel_i,
        {"order": 1.0, "x": np.asarray([2.0])},
        {"order": ((0.0, 2.5), (-1e-9, INF, NAN))},
    ),
]
CASES = [
    pytest.param(function, arguments, name, *values, id=f"{function.__name__}-{name}")
    for function, arguments, ranges in CALLS
    for name, values in ranges.items()
]


@pytest.mark.parametrize(("function", "arguments", "name", "inside", "outside"), CASES)
def test_an_argument_lies_in_its_range(function, arguments, name, inside, outside) -> None:
    with engine("reference"):
        for value in inside:
            function(**arguments | {name: value})
        for value in outside:
            told = message_of(DualclustError, function, **arguments | {name: value})
            assert re.search(rf"\b{name}\b", told), (value, told)


def test_threads_are_counted_from_1() -> None:
    for wrong in (0, -1, 1.5):
        with pytest.raises(DualclustError, match="n_threads must be"), workers(wrong):
            pass
    with workers(1):
        pass


# Bounds -----------------------------------------------------------------------------------------

STATE = assignment.init_state(BOUNDS)
BOUNDED = {
    "init_state": (assignment.init_state, {}),
    "relaxed": (assignment.relaxed, {}),
    "assign": (assignment.assign, {"scores": SCORES}),
    "size_certificate": (certificates.size_certificate, {"state": STATE}),
    "violation": (certificates.violation, {"counts": np.full(K, 4)}),
    "dual_value": (certificates.dual_value, {"scores": SCORES, "prices": np.zeros(K)}),
    "measured_steps": (step_sizes.measured_steps, {"n_samples": N}),
    "constrained_kmeans": (constrained_kmeans, {"features": UNIT, "centers": UNIT[:K]}),
    "assign_offline": (dc.assign_offline, {"scores": SCORES}),
    "assign_exact": (dc.assign_exact, {"scores": SCORES}),
    "assign_source": (assign_source, {"source": score_source(SCORES)}),
    "restricted_scores": (choices.restricted_scores, {"source": score_source(SCORES)}),
    "init_minibatch": (minibatch.init_minibatch, {"centers": C}),
    "minibatch_step": (minibatch.minibatch_step, {"features": UNIT, "state": MINI}),
    "compare_assignments": (dc.compare_assignments, {"scores": SCORES}),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_that_are_none_are_refused_everywhere(name) -> None:
    function, arguments = BOUNDED[name]
    for wrong in ((BOUNDS.lower, BOUNDS.upper), None, {"lower": 1}):
        with (
            engine("reference"),
            pytest.raises(DualclustError, match="bounds must be a SizeBounds"),
        ):
            function(**arguments, bounds=wrong)
