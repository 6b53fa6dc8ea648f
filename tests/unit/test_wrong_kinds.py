"""Every public function, every argument, every wrong kind of value: an error of ours, or no error.

A call that works is taken, and one argument after the other is replaced: by None, a number, a text,
an object, complex, boolean and text arrays, and tensors that are sparse or have no values. Whatever
comes out is a `DualclustError` whose message begins with the argument's name, unless the value is a
right one there, which `FITS` states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dualclust as dc
from dualclust.algos import clustering, online
from dualclust.algos.baselines import sinkhorn_transport
from dualclust.algos.bounds.groups import GroupBounds
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import minibatch
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign, relaxed
from dualclust.algos.online.certificates import objective
from dualclust.algos.scores.sources import feature_source
from tests.refusals import message_of

N, K, D = 12, 3, 2
RNG = np.random.default_rng(0)
SCORES, LABELS = RNG.normal(size=(N, K)), np.arange(N) % K
X, C = RNG.normal(size=(N, D)), RNG.normal(size=(K, D))
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
BOUNDS = SizeBounds.from_ratios(K, n_samples=N, lower=0.5, upper=2.0)
with dc.engine("reference"):  # no kernel is compiled while tests are collected
    STATE = assign(SCORES, BOUNDS).state
DUALS, SUMS = dc.init_duals((K,), xp=np), clustering.init_sums(K, D, xp=np)
SHARE, STEPS = np.full(K, 1 / K), dc.measured_steps(BOUNDS)
STREAM = SizeBounds.for_stream(K)
PAIRS = clustering.matrix_dissimilarities(abs(X[:, :1] - X[:, 0]))
TEAMS = GroupBounds.from_shares(LABELS, K, lower=0.5, upper=2.0)
MINI = minibatch.init_minibatch(C, STREAM)

RULE = online.DualRule(SHARE, SHARE, step_size=0.1, chunk_size=4)
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "assign": (
        assign,
        {"scores": SCORES, "bounds": BOUNDS, "state": dc.init_state(BOUNDS), "steps": STEPS},
    ),
    "init_state": (dc.init_state, {"bounds": BOUNDS}),
    "assign_grouped_stream": (
        online.assign_grouped_stream,
        {"scores": SCORES, "bounds": BOUNDS, "groups": TEAMS, "of_rows": LABELS, "steps": STEPS}
        | {"state": online.init_grouped_state(BOUNDS, TEAMS)},
    ),
    "init_grouped_state": (
        online.init_grouped_state,
        {"bounds": BOUNDS, "groups": TEAMS, "prices": (0.0 * SHARE, np.zeros((3, K)))},
    ),
    "next_pass": (dc.next_pass, {"state": STATE}),
    "assign_batch": (
        dc.assign_batch,
        {"scores": SCORES, "duals": DUALS, "rule": RULE},
    ),
    "update_duals": (
        dc.update_duals,
        {"duals": DUALS, "sizes": np.full(K, 4), "n_samples": N, "rule": RULE},
    ),
    "add_to_sums": (clustering.add_to_sums, {"state": SUMS, "features": UNIT, "labels": LABELS}),
    "merge_sums": (clustering.merge_sums, {"first": SUMS, "second": SUMS}),
    "mean_centers": (clustering.mean_centers, {"state": SUMS, "previous": C}),
    "init_sums": (clustering.init_sums, {"n_clusters": K, "n_features": D, "xp": np}),
    "size_certificate": (dc.size_certificate, {"state": STATE, "bounds": BOUNDS}),
    "violation": (online.violation, {"counts": np.full(K, 4), "bounds": BOUNDS}),
    "objective": (objective, {"scores": SCORES, "labels": LABELS}),
    "dual_value": (online.dual_value, {"scores": SCORES, "prices": SHARE, "bounds": BOUNDS}),
    "margins": (online.margins, {"scores": SCORES, "prices": SHARE}),
    "compare_assignments": (
        dc.compare_assignments,
        {"scores": SCORES, "bounds": BOUNDS, "names": ["greedy", "online"], "others": {}},
    ),
    "sinkhorn": (
        sinkhorn_transport.sinkhorn,
        {
            "scores": SCORES,
            "shares": SHARE,
            "options": sinkhorn_transport.SinkhornOptions(),
            "prices": 0.0 * SHARE,
        },
    ),
    "hardness_centers": (
        dc.hardness_centers,
        {"features": UNIT, "labels": LABELS, "centers": UNIT[:K], "temperature": 0.5},
    ),
    "pseudo_labels": (dc.pseudo_labels, {"sigma": np.full((4, 2), 0.5), "fairness_weight": 1.0}),
    "kmeans": (
        dc.kmeans,
        {"features": X, "centers": C, "weights": np.ones(N), "progress": lambda s, c: None}
        | {"metric": "euclidean", "max_iter": 2, "tol": 0.0, "empty": "keep", "state": None},
    ),
    "constrained_kmeans": (
        dc.constrained_kmeans,
        {"features": X, "bounds": BOUNDS, "centers": C, "weights": np.ones(N), "gap": 0.0}
        | {"metric": "euclidean", "max_iter": 2, "tol": 0.0, "empty": "keep", "state": None},
    ),
    "constrained_medoids": (
        clustering.constrained_medoids,
        {"dissimilarities": PAIRS, "bounds": BOUNDS, "medoids": LABELS[:K], "weights": np.ones(N)}
        | {"gap": 0.0, "max_iter": 2, "prices": 0.0 * SHARE},
    ),
    "start_medoids": (
        clustering.start_medoids,
        {"dissimilarities": PAIRS, "n_clusters": K, "seed": 0, "weights": np.ones(N)},
    ),
    "matrix_dissimilarities": (clustering.matrix_dissimilarities, {"matrix": 1.0 - np.eye(4)}),
    "pairwise_dissimilarities": (
        clustering.pairwise_dissimilarities,
        {"rows": X[:, :2], "metric": clustering.great_circle_distances},
    ),
    "great_circle_distances": (
        clustering.great_circle_distances,
        {"rows": X[:, :2], "centers": C[:, :2], "radius": 1.0},
    ),
    "kmeans_plus_plus": (
        dc.kmeans_plus_plus,
        {"features": X, "uniforms": np.asarray([0.1, 0.5, 0.7]), "weights": np.ones(N)},
    ),
    "start_centers": (
        start_centers,
        {"source": feature_source(X), "n_clusters": K, "seed": 0, "metric": "euclidean"}
        | {"weights": np.ones(N), "candidates": 2},
    ),
    "init_minibatch": (
        minibatch.init_minibatch,
        {"centers": C, "bounds": STREAM, "steps": STEPS},
    ),
    "minibatch_step": (
        minibatch.minibatch_step,
        {"features": X, "state": MINI, "bounds": STREAM, "weights": np.ones(N)}
        | {"metric": "euclidean", "empty": "keep"},
    ),
    "from_ratios": (
        dc.SizeBounds.from_ratios,
        {"n_clusters": K, "n_samples": N, "lower": 0.5, "upper": 2.0, "rounding": "outward"}
        | {"xp": np},
    ),
    "from_counts": (
        dc.SizeBounds.from_counts,
        {"lower": [1, 1, 1], "upper": [9, 9, 9], "n_samples": N, "xp": np},
    ),
    "for_stream": (
        dc.SizeBounds.for_stream,
        {"n_clusters": K, "lower": 0.5, "upper": 2.0, "xp": np},
    ),
    "relaxed": (relaxed, {"bounds": BOUNDS}),
    "measured_steps": (dc.measured_steps, {"bounds": BOUNDS, "n_samples": N, "scale": 1.0}),
    "theorem_steps": (online.theorem_steps, {"n_samples": N, "tau": 1.0}),
    "published_steps": (online.published_steps, {"name": "coke-cifar"}),
    "init_duals": (dc.init_duals, {"shape": (K,), "xp": np}),
}

WRONG: dict[str, Any] = {
    "None": None,
    "a number": 3,
    "a text": "wrong",
    "an object": object(),
    "a list": [object()],
    "complex": np.ones((N, K), dtype=np.complex128),
    "bool": np.ones((N, K), dtype=np.bool_),
    "texts": np.full((N, K), "x"),
    "objects": np.full((N, K), None, dtype=object),
    "sparse": torch.eye(K).to_sparse(),
    "meta": torch.ones((N, K), device="meta", dtype=torch.float64),
    "a tensor": torch.ones((N, K), dtype=torch.float64),
}

# Arguments that None is right for, those that 3 is, and a few of their own.
OPTIONAL = {"state", "steps", "shares", "options", "prices", "names", "others", "weights"}
OPTIONAL |= {"n_samples", "progress", "candidates", "upper", "xp", "scale", "of_rows"}
NUMBERS = {"n_samples", "lower", "upper", "step_size", "chunk_size", "temperature", "k"}
NUMBERS |= {"n_clusters", "n_features", "seed", "candidates", "max_iter", "scale", "tau"}
NUMBERS |= {"fairness_weight", "radius"}
NEEDED = {
    (call, "state")
    for call in ("add_to_sums", "mean_centers", "minibatch_step", "next_pass", "size_certificate")
}
NEEDED |= {("update_duals", "n_samples"), ("theorem_steps", "n_samples"), ("init_sums", "xp")}
NEEDED |= {("dual_value", "prices"), ("margins", "prices"), ("init_duals", "xp")}
NEEDED |= {("from_ratios", "n_samples"), ("from_counts", "n_samples"), ("from_ratios", "upper")}
NEEDED |= {("for_stream", "upper")}


def fits(call: str, argument: str, kind: str) -> bool:
    """Whether the value is a right one there."""
    if kind == "None":
        return argument in OPTIONAL and (call, argument) not in NEEDED
    if kind == "a tensor":  # of right values: alone, it is of one library and place
        return argument == "sigma"
    return kind == "a number" and argument in NUMBERS


CASES = [
    pytest.param(call, argument, kind, id=f"{call}-{argument}-{kind}")
    for call, (_, arguments) in CALLS.items()
    for argument in arguments
    for kind in WRONG
    if not fits(call, argument, kind)
]


@pytest.mark.parametrize("call", CALLS)
def test_the_calls_that_are_changed_work(call: str) -> None:
    function, arguments = CALLS[call]
    function(**arguments)


@pytest.mark.parametrize(("call", "argument", "kind"), CASES)
def test_a_wrong_kind_is_an_error_of_ours(call: str, argument: str, kind: str) -> None:
    function, arguments = CALLS[call]
    message_of(
        (InvalidTypeError, InvalidValueError), function, **arguments | {argument: WRONG[kind]}
    )
