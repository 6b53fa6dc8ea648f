"""Every public function that proves or measures something has a judge, which sees each result."""

from __future__ import annotations

import inspect
import re
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import dualclust as dc
from dualclust import algos
from dualclust.algos import baselines, batches, bounds, clustering, online, pseudo_labels, selection
from dualclust.algos.clustering import row_choices
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.offline.grouped import assign_grouped, assign_linked, assign_partial
from dualclust.algos.offline.weighted import assign_weighted
from dualclust.algos.scores.sources import Group, score_source
from dualclust.algos.selection.survey import Candidate
from tests import judged
from tests.judge_calls import JUDGES
from tests.thread_ranks import groups_on_threads

FIGURES = {
    "objective",
    "upper_bound",
    "gap",
    "violation",
    "at_least",
    "at_most",
    "residual",
    "price_proven",
    "lower_bound",
    "vector",
    "loss",
    "assignment",
    "judged",
}
"""Fields of records that prove or measure something."""

ARRAYS = {"label_gap", "margins", "pseudo_label_energy"}
"""Functions that return such figures as arrays."""

WITHOUT = {
    "block_rows": "how to compute",
    "is_over": "a clock",
    "check_label_features": "hypotheses of a theorem, which claims G1 and G2 check",
    "check_range": "how to compute",
    "cosine_silhouette": "compared with scikit-learn's in its tests",
    "greedy_candidates": "how to compute",
    "init_minibatch": "a state before the first sample",
    "label_feature_value": "the value of a theorem, which claims G1 and G2 check",
    "largest_accepted": "how to compute",
    "largest_score": "how to compute",
    "log_sphere_area": "a constant of mathematics, compared with mpmath's",
    "bounds_may_be_inactive": "how to compute",
    "median": "how to compute",
    "sample_rows": "how to compute",
    "score_range": "how to compute",
}
"""Functions that need no judge, and why."""


def proving():
    """Public functions that return numbers, or records with figures."""
    found = {}
    for group in Path(algos.__file__).parent.iterdir():
        if not (group / "__init__.py").is_file():
            continue
        module = import_module(f"dualclust.algos.{group.name}")
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.isfunction(value):
                continue
            returned = str(inspect.signature(value).return_annotation)
            home = inspect.getmodule(inspect.unwrap(value))
            records = (getattr(home, word, None) for word in re.findall(r"\w+", returned))
            fields = {field for record in records for field in getattr(record, "_fields", ())}
            if returned in ("float", "int", "bool") or fields & FIGURES or name in ARRAYS:
                found[name] = value
    return found


def test_every_function_that_proves_or_measures_has_a_judge():
    names = {place.partition(":")[2] for place in JUDGES}
    public = proving()
    assert public.keys() - names == WITHOUT.keys()
    assert not names & WITHOUT.keys()
    for name in names & public.keys():
        assert hasattr(public[name], "__wrapped__"), f"{name} is not observed"


def small_calls():
    """A call for each judge but those of commands, by the name of the function."""
    rng = np.random.default_rng(0)
    scores, x = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    sizes = dc.SizeBounds.from_ratios(3, n_samples=30, lower=0.9, upper=1.1)
    labels, state = dc.assign(scores, sizes)
    found = dc.assign_exact(scores, sizes)
    sigma = np.full((4, 3), 1 / 3)
    rule, allowed = baselines.EntropyRule(1.0, 30), np.eye(3, dtype=bool)
    vector = bounds.feasibility(allowed, [2, 0, 0], [3, 3, 3]).vector
    two = tuple(Candidate(unit[:k]) for k in (2, 3))
    weights = {"fairness_weight": 1.0}
    pairs = {"must_link": np.asarray([[0, 1]]), "cannot_link": np.asarray([[1, 2], [3, 4]])}
    loads = bounds.LoadBounds.from_ratios(rng.uniform(1.0, 3.0, 30), 3)
    teams = bounds.GroupBounds.from_shares(np.arange(30) % 2, 3)
    return {
        "adjusted_rand_index": lambda: selection.adjusted_rand_index(labels, found.labels, 3),
        "assign": lambda: dc.assign(scores, sizes),
        "assign_entropy": lambda: baselines.assign_entropy(scores, rule),
        "assign_exact": lambda: dc.assign_exact(scores, sizes),
        "assign_grouped": lambda: assign_grouped(scores, sizes, teams),
        "assign_grouped_stream": lambda: online.assign_grouped_stream(scores, sizes, teams),
        "assign_linked": lambda: assign_linked(scores, sizes, **pairs),
        "assign_offline": lambda: dc.assign_offline(scores, sizes),
        "assign_weighted": lambda: assign_weighted(scores, loads),
        "assign_partial": lambda: assign_partial(scores, max_out=4, out_score=1.0, min_count=5),
        "assign_source": lambda: dc.assign_source(score_source(scores), sizes),
        "balance_soft": lambda: batches.balance_soft(
            scores, sizes.lower_share, sizes.upper_share, tol=1e-6
        ),
        "certify_batch": lambda: batches.certify_batch(
            scores, np.eye(3)[labels], found.prices, sizes.lower, sizes.upper
        ),
        "check_counts_exist": lambda: refused_counts(sizes),
        "check_feasible": lambda: bounds.check_feasible(allowed, [1, 1, 1], [1, 1, 1]),
        "check_sums": lambda: bounds.check_sums([1], [2], 2, ""),
        "choose_clustering": lambda: selection.choose_clustering(unit, two, [[1.0], [0.5]]),
        "choose_k": lambda: selection.choose_k(x, [2, 3], metric="euclidean"),
        "churn": lambda: clustering.churn(labels, found.labels),
        "compare_assignments": lambda: baselines.compare_assignments(scores, sizes),
        "constrained_kmeans": lambda: dc.constrained_kmeans(unit, sizes, unit[:3]),
        "constrained_medoids": lambda: clustering.constrained_medoids(
            clustering.matrix_dissimilarities(abs(x[:, :1] - x[:, 0])), sizes, np.arange(3)
        ),
        "dual_value": lambda: online.dual_value(scores, found.prices, sizes),
        "effective_clusters": lambda: clustering.effective_clusters(found.counts),
        "entropy_objective": lambda: baselines.entropy_objective(
            scores, found.labels, found.counts, rule
        ),
        "entropy_upper_bound": lambda: baselines.entropy_upper_bound(scores, found.prices, rule),
        "feasibility": lambda: bounds.feasibility(allowed, [1, 1, 1], [1, 1, 1]),
        "grouped_kmeans": lambda: clustering.grouped_kmeans(unit, sizes, teams, unit[:3]),
        "hardness_centers": lambda: dc.hardness_centers(unit, labels, unit[:3], temperature=0.5),
        "imbalance_ratio": lambda: clustering.imbalance_ratio(found.counts),
        "kmeans": lambda: dc.kmeans(unit, unit[:3]),
        "label_gap": lambda: pseudo_labels.label_gap(sigma, sigma, **weights),
        "linked_kmeans": lambda: clustering.linked_kmeans(unit, sizes, unit[:3], **pairs),
        "margins": lambda: online.margins(scores, found.prices),
        "objective": lambda: online.objective(scores, labels),
        "price_of_bounds": lambda: bounds.price_of_bounds(found.prices, sizes),
        "pseudo_label_energy": lambda: pseudo_labels.pseudo_label_energy(sigma, sigma, **weights),
        "pseudo_labels": lambda: dc.pseudo_labels(sigma, **weights),
        "regret": lambda: clustering.regret(scores, labels, found.objective),
        "row_choices": lambda: row_choices(scores, labels, found.prices),
        "sinkhorn": lambda: baselines.sinkhorn(scores),
        "size_certificate": lambda: dc.size_certificate(state, sizes),
        "survey": lambda: selection.survey(dc.feature_source(unit), two, metric="cosine"),
        "trimmed_kmeans": lambda: clustering.trimmed_kmeans(unit, unit[:3], max_out=2),
        "uniformity": lambda: clustering.uniformity(x),
        "weighted_kmeans": lambda: clustering.weighted_kmeans(unit, loads, unit[:3]),
        "verify_infeasibility": lambda: bounds.verify_infeasibility(
            [2, 0, 0], [3, 3, 3], allowed, vector
        ),
        "violation": lambda: online.violation(found.counts, sizes),
    }


def refused_counts(sizes):
    """Bounds on groups that no counts are inside: what is judged is the error."""
    with pytest.raises(InfeasibleBoundsError):
        bounds.check_counts_exist(sizes, bounds.GroupBounds.at_most_one(np.zeros(30, int), 3))


COMMANDS = {"run_cluster", "run_assign", "run_choice", "train", "resume"}
"""Judged by their files: tests/cli/test_cli_judged.py and tests/train/loop/test_judged_runs.py."""

NAMES = sorted({place.partition(":")[2] for place in JUDGES} - COMMANDS)


def seen(name):
    """How often a result of a function was judged in this process."""
    return sum(
        times for (of, way), times in judged.TALLY.items() if of == name and "not" not in way
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_result_of_each_function_is_judged(name):
    call = small_calls()[name]
    before = seen(name)
    call()
    assert seen(name) == before + 1


def wrong(value):
    """Return a result with each number a bit off."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._replace(**{field: wrong(getattr(value, field)) for field in value._fields})
    if isinstance(value, tuple):
        return tuple(map(wrong, value))
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)) or (hasattr(value, "dtype") and value.dtype.kind in "iuf"):
        return value + 1
    return value


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("check_")])
def test_a_wrong_result_of_each_function_is_refused(name, monkeypatch):
    calls = small_calls()
    place = next(place for place in JUDGES if place.endswith(f":{name}"))
    module, _, _ = place.partition(":")
    function = getattr(import_module(f"dualclust.{module}"), name)
    inner, arguments = function.__wrapped__, []

    def given(*args, **kwargs):
        bound = inspect.signature(inner).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments.append((bound.arguments, inner(*args, **kwargs)))
        return arguments[-1][1]

    through = function.__code__
    consts = tuple(given if callable(const) else const for const in through.co_consts)
    monkeypatch.setattr(function, "__code__", through.replace(co_consts=consts))
    calls[name]()
    named, found = arguments[-1]
    read = {key: judged.on_host(value) for key, value in named.items()}
    JUDGES[place](read, judged.on_host(found))
    with pytest.raises((AssertionError, IndexError, ValueError)):
        JUDGES[place](read, wrong(judged.on_host(found)))


def test_an_error_that_carries_a_proof_is_judged():
    scores = np.asarray([[0.0, -np.inf], [0.0, -np.inf]])
    sizes = dc.SizeBounds.from_counts([0, 1], n_samples=2)
    before = seen("assign_exact"), seen("check_sums")
    with pytest.raises(InfeasibleBoundsError):
        dc.assign_exact(scores, sizes)
    with pytest.raises(InfeasibleBoundsError):
        dc.SizeBounds.from_counts([2, 2], n_samples=3)
    assert (seen("assign_exact"), seen("check_sums")) == (before[0] + 1, before[1] + 1)


def test_rows_of_ranks_are_judged_together(rng):
    scores = rng.normal(size=(60, 3))
    sizes = dc.SizeBounds.from_ratios(3, n_samples=60)
    source = score_source(scores)

    def work(group: Group):
        def block(start, stop):
            return scores[group.first_row + start : group.first_row + stop]

        return dc.assign_source(source._replace(block=block, group=group), sizes)

    before = judged.TALLY["assign_source", "exact"], judged.TALLY["assign_source", "part"]
    groups_on_threads([0, 20, 40, 60], work)
    after = judged.TALLY["assign_source", "exact"], judged.TALLY["assign_source", "part"]
    assert after == (before[0] + 1, before[1] + 2)


def test_what_is_not_judged_is_counted():
    before = judged.TALLY["assign_exact", "not judged: a reason"]
    with judged.unjudged("a reason"):
        small_calls()["assign_exact"]()
    assert judged.TALLY["assign_exact", "not judged: a reason"] == before + 2
    thread = threading.Thread(target=small_calls()["assign_exact"])
    count = seen("assign_exact")
    thread.start()
    thread.join()
    assert seen("assign_exact") == count + 1


def test_an_observed_function_keeps_its_signature_and_documentation():
    assert "price_radius" in inspect.signature(dc.assign_offline).parameters
    assert dc.assign_offline.__doc__ is not None
    assert dc.assign_offline.__module__ == "dualclust.algos.offline.assignment"
    assert "source = score_source" in inspect.getsource(dc.assign_offline)
