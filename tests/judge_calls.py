"""Which judge sees which public function, and how its arguments and result are handed over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.scores.blocks import block_rows, row_blocks
from tests.judge import judge_assignment, require
from tests.judge_bounds import (
    judge_comparison,
    judge_dual_value,
    judge_entropy,
    judge_infeasible,
    judge_sizes,
    judge_stream,
    judge_value,
)
from tests.judge_centers import (
    judge_centers,
    judge_clustering,
    judge_kmeans,
    judge_medoids,
    judge_pseudo_labels,
    judge_survey,
)
from tests.judge_commands import LARGEST, barred_pairs, chosen, command, how, on_host
from tests.judge_figures import FIGURES
from tests.judge_group_calls import (
    counts_exist,
    eps_of,
    grouped,
    grouped_means,
    grouped_stream,
    linked,
    linked_means,
    loaded,
    loaded_means,
    partial,
    rows_of,
    trimmed_means,
)
from tests.judge_run_pages import judge_run_page
from tests.judge_runs import judge_run

PIECES: dict[Any, list[tuple[int, Any, Any]]] = {}
_lock = threading.Lock()


def assignment(given: dict[str, Any], found: Any) -> str:
    scores, weights, bounds = given["scores"], given["weights"], given["bounds"]
    if isinstance(found, InfeasibleBoundsError):
        judge_infeasible(bounds.lower, bounds.upper, scores > -np.inf, found)
        return "exact"
    if scores.size > LARGEST:
        return "not judged: too large"
    judge_assignment(scores, weights, bounds.lower, bounds.upper, found)
    return how(scores.size)


def source(given: dict[str, Any], found: Any) -> str:
    scores, bounds = given["source"], given["bounds"]
    group, k = scores.group, scores.n_clusters
    if isinstance(found, InfeasibleBoundsError) or scores.in_turn or group.n_total * k > LARGEST:
        return "not judged: pairs of a source, rows that ranks read together, or too many"
    edges = row_blocks(group.n_local, block_rows(k, like=bounds.lower))
    parts = [on_host(scores.block(a, b)) for a, b in edges]
    own = np.concatenate([np.zeros((0, k), parts[0].dtype if parts else float), *parts])
    eps = eps_of(own)
    own = np.ldexp(own.astype(np.float64), scores.exponent)
    if not group.is_alone:
        key = found.objective, found.upper_bound, found.prices.tobytes(), found.counts.tobytes()
        with _lock:
            pieces = PIECES.setdefault(key, [])
            pieces.append((group.first_row, own, found.labels))
            if sum(len(piece[1]) for piece in pieces) < group.n_total:
                return "part"
            del PIECES[key]
        pieces.sort(key=lambda piece: piece[0])
        own, labels = (np.concatenate([piece[i] for piece in pieces]) for i in (1, 2))
        found = found._replace(labels=labels)
    largest = np.abs(np.where(np.isfinite(own), own, 0.0)).max(axis=1, initial=0.0)
    doubt = 32 * eps * float(largest.sum())  # a product of other rows may round otherwise
    judge_assignment(own, None, bounds.lower, bounds.upper, found, doubt=doubt)
    return how(own.size)


def stream(given: dict[str, Any], found: Any) -> str:
    bounds = given["bounds"]
    sides = bounds.lower, bounds.upper, bounds.n_samples
    judge_stream(found.labels, given["state"], found.state, *sides)
    return "exact"


def sizes(given: dict[str, Any], found: Any) -> str:
    bounds = given["bounds"]
    judge_sizes(given["state"], bounds.lower_share, bounds.upper_share, found)
    return "exact"


def dual(given: dict[str, Any], found: Any) -> str:
    bounds = given["bounds"]
    judge_dual_value(given["scores"], given["prices"], bounds.lower, bounds.upper, found)
    return "interval"


def value(given: dict[str, Any], found: Any) -> str:
    judge_value(given["scores"], given["labels"], found)
    return "interval"


def outside(given: dict[str, Any], found: Any) -> str:
    low, high = given["bounds"].lower, given["bounds"].upper
    true = max([0, *(low - given["counts"]), *(given["counts"] - high)])
    require(found == true, "violation", found, true)
    return "exact"


def feasible(given: dict[str, Any], found: Any) -> str:
    allowed, lower, upper = (np.asarray(given[name]) for name in ("allowed", "lower", "upper"))
    allowed, weights = allowed > (-np.inf if allowed.dtype.kind == "f" else 0), given["weights"]
    n = len(allowed) if weights is None else int(np.asarray(weights).sum())
    upper = np.minimum(upper, n) if (lower <= n).all() else upper
    vector = getattr(found, "vector", None)
    if vector is not None:
        clusters = getattr(found, "clusters", vector.clusters)
        error = SimpleNamespace(vector=vector, clusters=clusters, excess=vector.excess)
        judge_infeasible(lower, upper, allowed, error, weights)
    elif found is not None:
        counts = np.asarray(found.counts)
        require(((lower <= counts) & (counts <= upper)).all(), "feasible counts", counts)
        if found.labels is not None:
            own = np.bincount(found.labels, minlength=len(counts))
            require(np.array_equal(own, counts), "counts of feasible labels", own, counts)
            require(allowed[np.arange(n), found.labels].all(), "feasible labels are allowed")
    return "exact"


def sums(given: dict[str, Any], found: Any) -> str:
    if found is not None:
        judge_infeasible(given["lower"], given["upper"], int(given["n"]), found)
    return "exact"


def constrained(given: dict[str, Any], found: Any) -> str:
    bounds = given["bounds"]
    barred = barred_pairs(given, bounds.n_samples, bounds.n_clusters)
    if isinstance(found, InfeasibleBoundsError):
        judge_infeasible(bounds.lower, bounds.upper, ~barred, found)
        return "exact"
    x = rows_of(given["features"])
    if x is None or len(x) * bounds.n_clusters > LARGEST:
        return "not judged: rows of several ranks, or too many"
    judge_clustering(
        x,
        found.centers,
        given["weights"],
        given["metric"],
        bounds.lower,
        bounds.upper,
        found.assignment,
        eps=eps_of(x),
        barred=barred,
    )
    return how(len(x) * bounds.n_clusters)


def medoids(given: dict[str, Any], found: Any) -> str:
    bounds, ids = given["bounds"], np.arange(given["bounds"].n_samples)
    barred = barred_pairs(given, bounds.n_samples, bounds.n_clusters)
    if isinstance(found, InfeasibleBoundsError):
        judge_infeasible(bounds.lower, bounds.upper, ~barred, found)
        return "exact"
    try:
        pairs = on_host(given["dissimilarities"].between(ids, ids))
    except (IndexError, RuntimeError, TypeError):
        return "not judged: dissimilarities of another library"
    judge_medoids(pairs, given["weights"], barred, bounds.lower, bounds.upper, found)
    return how(len(ids) * bounds.n_clusters)


def kmeans(given: dict[str, Any], found: Any) -> str:
    x = rows_of(given["features"])
    if x is None:
        return "not judged: rows of several ranks"
    means = found.converged and given["tol"] == 0.0 and given["state"] is None
    judge_kmeans(x, given["weights"], given["metric"], found, eps=eps_of(x), means=means)
    return "interval"


def hardness(given: dict[str, Any], found: Any) -> str:
    arrays = given["features"], given["labels"], given["centers"], found
    eps = max(eps_of(given["features"]), eps_of(given["centers"]))
    judge_centers(*arrays, temperature=given["temperature"], tol=given["tol"], eps=eps)
    return "interval"


def soft(given: dict[str, Any], found: Any) -> str:
    judge_pseudo_labels(
        given["sigma"],
        found,
        fairness_weight=given["fairness_weight"],
        beta=given["beta"],
        prior=given["prior"],
    )
    return "interval"


def comparison(given: dict[str, Any], found: Any) -> str:
    for one in found:
        judge_comparison(given["scores"], given["bounds"].lower, given["bounds"].upper, one)
    return "interval"


def entropy(given: dict[str, Any], found: Any) -> str:
    judge_entropy(given["scores"], given["rule"], found)
    return "interval"


def surveyed(given: dict[str, Any], found: Any) -> str:
    x = rows_of(given["source"])
    if x is None:
        return "not judged: rows of several ranks"
    for candidate, one in zip(given["candidates"], found, strict=True):
        judge_survey(x, on_host(candidate), given["metric"], one, eps=eps_of(x))
    return "interval"


def trained(given: dict[str, Any], found: Any) -> str:
    """Judge the folder of a run that has ended, and its page."""
    if not (found.folder / "assignments.csv").is_file():
        return "not judged: another rank's"
    one = found.prediction
    scores = np.asarray(one.features)  # of mi_margin, log-probabilities
    if found.config.method != "mi_margin":
        scores = scores @ np.asarray(one.centers).T
    chosen = found.metrics[-1].get("heads", {}).get("best", found.config.heads.target)
    evaluated = chosen == len(one.assignment.counts)
    judge_run(found.folder, one, scores, evaluated=evaluated)
    judge_run_page(found.folder, one, scores, (found.lower, found.upper))
    return "interval"


def figure(
    judge: Callable[[dict[str, Any], Any], str | None],
) -> Callable[[dict[str, Any], Any], str]:
    return lambda given, found: judge(given, found) or "interval"


OF_PROOFS = {
    assignment,
    source,
    feasible,
    sums,
    constrained,
    grouped,
    counts_exist,
    partial,
    grouped_means,
    trimmed_means,
    medoids,
}
"""Those that judge an `InfeasibleBoundsError` as well."""

JUDGES: dict[str, Callable[[dict[str, Any], Any], str]] = {
    "algos.offline.assignment:assign_exact": assignment,
    "algos.offline.assignment:assign_offline": assignment,
    "algos.offline.assignment:assign_source": source,
    "algos.online.assignment:assign": stream,
    "algos.online.grouped:assign_grouped_stream": grouped_stream,
    "algos.online.certificates:size_certificate": sizes,
    "algos.online.certificates:dual_value": dual,
    "algos.online.certificates:objective": value,
    "algos.online.certificates:violation": outside,
    "algos.bounds.forbidden_pairs:feasibility": feasible,
    "algos.bounds.forbidden_pairs:check_feasible": feasible,
    "algos.bounds.infeasibility:check_sums": sums,
    "algos.clustering.constrained:constrained_kmeans": constrained,
    "algos.clustering.lloyd:kmeans": kmeans,
    "algos.clustering.grouped:grouped_kmeans": grouped_means,
    "algos.clustering.grouped:linked_kmeans": linked_means,
    "algos.clustering.grouped:trimmed_kmeans": trimmed_means,
    "algos.offline.grouped.assignment:assign_grouped": grouped,
    "algos.bounds.groups:check_counts_exist": counts_exist,
    "algos.offline.grouped.left_out:assign_partial": partial,
    "algos.offline.grouped.linked:assign_linked": linked,
    "algos.offline.weighted.assignment:assign_weighted": loaded,
    "algos.clustering.weighted:weighted_kmeans": loaded_means,
    "algos.clustering.medoids:constrained_medoids": medoids,
    "algos.clustering.hardness_weighted:hardness_centers": hardness,
    "algos.pseudo_labels.solver:pseudo_labels": soft,
    "algos.baselines.comparison:compare_assignments": comparison,
    "algos.baselines.entropy:assign_entropy": entropy,
    "algos.selection.survey:survey": surveyed,
    "cluster.command:run_cluster": command,
    "cluster.assign:run_assign": command,
    "cluster.choice:run_choice": chosen,
    "train.loop.train_and_resume:train": trained,
    "train.loop.train_and_resume:resume": trained,
    **{place: figure(judge) for place, judge in FIGURES.items()},
}
