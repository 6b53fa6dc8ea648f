"""CoKe's claims: each check passes, and all but those of tables notice planted errors."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos import bounds, centers, coke_losses, offline, steps
from dualclust.proofs import coke_assignment, coke_clustering, coke_tables, coke_theorem
from dualclust.proofs.registry import REGISTRY, Status
from tests.proofs import errors
from tests.proofs.errors import ASSIGN_BATCH, PROJECT, UPDATE_DUALS
from tests.proofs.planted import assert_noticed

IDS = [f"C{i}" for i in range(1, 38)]
EXACT, ADD, MEAN = offline.assign_exact, centers.add_to_sums, centers.mean_centers
TARGETS, SMOOTHED, LOSS = (
    getattr(coke_losses, name) for name in ("two_view_targets", "smoothed_labels", "label_loss")
)
RELAXED, PROXY = coke_assignment._relaxed_value, coke_clustering._proxy_objective
EXACT_CENTERS, MEAN_VIEW = coke_clustering._exact_centers, coke_clustering._mean_view
COLD, LOWER, LEAST = (
    getattr(coke_theorem, name) for name in ("_cold_bound", "_lower_bound", "_least_tau")
)
SHORT, BOUND, STEPS = coke_tables._shortfall, coke_tables._bound, steps.theorem_steps
CLUSTERING, ASSIGNMENT, BY_STEP, TABLES = (
    f"dualclust.proofs.coke_{name}." for name in ("clustering", "assignment", "theorem", "tables")
)
SOLVER = "dualclust.algos.offline.assign_exact"


def a_little_worse(scores, limits):
    found = EXACT(scores, limits)
    return found._replace(objective=found.objective - 1 / 16)


def first_cluster(scores, limits):
    return EXACT(scores, limits)._replace(labels=np.zeros(len(scores), dtype=np.int64))


def forgets_a_sample(state, features, labels):
    return ADD(state, features[1:], labels[1:])


def skewed_centers(state, previous):
    return MEAN(state, previous) @ np.diag([1.0] * (previous.shape[1] - 1) + [0.5])


def forgets_the_count(average, value, count):
    return value if count == 1 else (average + value) / 2


def any_label(prices, j, reach):
    """No label says anything about the prices."""
    return reach >= 0


PLANTED = [
    ("C1", CLUSTERING + "_proxy_objective", lambda x, c, y: PROXY(x, c, y) + 1.0),
    ("C2", CLUSTERING + "_exact_centers", lambda x, y, k: -EXACT_CENTERS(x, y, k)),
    ("C3", ASSIGNMENT + "_relaxed_value", lambda s, low: (RELAXED(s, low)[0] - 1 / 16, s)),
    ("C4", ASSIGNMENT + "_relaxed_value", lambda s, low: RELAXED(s, 0 * low)),
    ("C4", SOLVER, a_little_worse),
    ("C5", ASSIGN_BATCH, errors.least_wanted),
    ("C5", ASSIGN_BATCH, errors.greedy),
    ("C6", PROJECT, errors.only_clipped),
    ("C6", PROJECT, errors.rescaled),
    ("C7", ASSIGN_BATCH, errors.greedy),
    ("C8", UPDATE_DUALS, errors.wrong_sign),
    ("C8", UPDATE_DUALS, errors.half_step),
    ("C8", PROJECT, errors.shrunk_and_moved),
    ("C9", BY_STEP + "_cold_bound", lambda tau, eta, n: 0.5 * COLD(tau, eta, n)),
    ("C9", UPDATE_DUALS, errors.half_step),
    ("C10", "dualclust.algos.steps.theorem_steps", lambda n, tau: STEPS(2 * n, tau)),
    ("C11", ASSIGN_BATCH, errors.frozen),
    ("C11", "dualclust.proofs.theorem.permutation_term", lambda n: 0.0),
    ("C12", ASSIGN_BATCH, errors.least_wanted),
    ("C13", BY_STEP + "_lower_bound", lambda v, best, k, least: LOWER(v, best, 1, least)),
    ("C13", BY_STEP + "_lower_bound", lambda v, best, k, least: -LOWER(v, best, k, least)),
    ("C14", BY_STEP + "_least_tau", lambda k, s, ratio: LEAST(k, s, ratio) / k),
    ("C15", PROJECT, errors.only_clipped),
    ("C16", UPDATE_DUALS, errors.standing),
    ("C16", "dualclust.algos.bounds.from_ratios", lambda *a, **k: bounds.stream_bounds(4)),
    ("C17", ASSIGN_BATCH, errors.greedy),
    ("C17", UPDATE_DUALS, errors.wrong_sign),
    ("C18", UPDATE_DUALS, errors.rising),
    ("C18", ASSIGN_BATCH, errors.greedy),
    ("C18", "dualclust.proofs.price_steps._wins", any_label),
    ("C19", "dualclust.algos.centers.mean_centers", skewed_centers),
    ("C19", "dualclust.algos.centers.add_to_sums", forgets_a_sample),
    ("C20", "dualclust.algos.centers.add_to_sums", forgets_a_sample),
    ("C20", CLUSTERING + "_renormalized_center", lambda x, batch: x.sum(axis=0)),
    ("C21", "dualclust.algos.centers.mean_centers", skewed_centers),
    ("C21", CLUSTERING + "_proxy_objective", lambda x, c, y: -PROXY(x, c, y)),
    (
        "C22",
        "dualclust.algos.centers.running_average",
        lambda a, v, n: v if n == 1 else (a + v) / 2,
    ),
    ("C23", CLUSTERING + "_mean_view", lambda views: 2.0 * MEAN_VIEW(views)),
    (
        "C24",
        "dualclust.algos.coke_losses.two_view_targets",
        lambda y, s, **rule: TARGETS(y, s[::-1], **rule),
    ),
    (
        "C24",
        "dualclust.algos.coke_losses.smoothed_labels",
        lambda w, temperature: SMOOTHED(w + 1e-9, temperature=temperature),
    ),
    ("C24", "dualclust.algos.coke_losses.label_loss", lambda s, y, **rule: -LOSS(s, y, **rule)),
    (
        "C25",
        CLUSTERING + "ALGORITHM_2",
        {"labels": (10, 10), "centers": (13, 11), "duals": (11, 14)},
    ),
    ("C26", TABLES + "_shortfall", lambda bound, least: SHORT(least, bound)),
    ("C27", TABLES + "_bound", lambda k, ratio: BOUND(k, ratio) + (ratio == 0.4)),
    ("C30", SOLVER, first_cluster),
]


@pytest.mark.parametrize("claim_id", IDS)
def test_the_claim_stands(claim_id):
    claim = REGISTRY[claim_id]
    assert claim.paper == "CoKe"
    assert claim.check() <= claim.tolerance


@pytest.mark.parametrize("claim_id", ["C2", "C6", "C8", "C9", "C12", "C14", "C24"])
def test_the_check_is_deterministic(claim_id):
    assert REGISTRY[claim_id].check() == REGISTRY[claim_id].check()


@pytest.mark.parametrize(("claim_id", "target", "replacement"), PLANTED)
def test_a_planted_error_is_noticed(claim_id, target, replacement, monkeypatch):
    assert_noticed(claim_id, monkeypatch, target, replacement)


def test_every_listed_mutation_is_planted_and_only_tables_have_none():
    listed = {(i, target) for i in IDS for target in REGISTRY[i].mutations}
    assert listed == {(i, target) for i, target, _ in PLANTED}
    without = {i for i in IDS if not REGISTRY[i].mutations}
    assert without == {i for i in IDS if REGISTRY[i].status is Status.EMPIRICAL}


def test_refuted_claims_store_their_counterexample():
    refuted = [i for i in IDS if REGISTRY[i].status is Status.REFUTED]
    assert refuted == ["C11", "C13", "C15", "C21"]
    assert all(REGISTRY[i].counterexample for i in refuted)
