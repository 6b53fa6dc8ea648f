"""Judges of labels inside bounds on groups, of which rows stay out, or linked, from their calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.scores.sources import FeatureSource, ScoreSource
from tests.judge_bounds import judge_infeasible
from tests.judge_commands import LARGEST, barred_pairs, how, on_host
from tests.judge_groups import (
    judge_counts,
    judge_grouped,
    judge_grouped_stream,
    judge_linked,
    judge_no_counts,
    judge_partial,
)
from tests.judge_weighted import judge_weighted


def eps_of(array: Any) -> float:
    """Return the spacing of the type in which the library computes."""
    return float(np.finfo(np.promote_types(array.dtype, np.float32)).eps)


def rows_of(features: Any) -> Any:
    """Return the rows of a matrix or source; None where this rank has not all of them."""
    if not isinstance(features, FeatureSource):
        return features
    if not features.group.is_alone:
        return None
    return on_host(features.rows(0, features.group.n_local))


def scores_in(given: Any) -> Any:
    """Return the scores of a matrix or source of one rank; None if they are too many."""
    if not isinstance(given, ScoreSource):
        return None if given.size > LARGEST else given
    n, k = given.group.n_total, given.n_clusters
    if n * k > LARGEST or given.in_turn or not given.group.is_alone:
        return None
    return np.ldexp(on_host(given.block(0, n)).astype(np.float64), given.exponent)


def grouped(given: dict[str, Any], found: Any) -> str:
    scores, groups = scores_in(given["scores"]), given["groups"]
    if isinstance(found, InfeasibleBoundsError):
        if found.vector is not None and scores is not None:  # of the clusters alone
            lower, upper = given["bounds"].lower, given["bounds"].upper
            judge_infeasible(lower, upper, scores > -np.inf, found)
            return "exact"
        if "forbidden" in str(found):
            return "not judged: pairs that are forbidden, which tests compare with HiGHS"
        judge_no_counts(given["bounds"], groups)
        return "interval"
    if scores is None:
        return "not judged: too large"
    if given["weights"] is not None:
        scores = np.where(np.isfinite(scores), scores * given["weights"][:, None], scores)
    judge_grouped(scores, given["bounds"], groups, found)
    return "interval"


def counts_exist(given: dict[str, Any], found: Any) -> str:
    if isinstance(found, InfeasibleBoundsError):
        judge_no_counts(given["bounds"], given["groups"])
        return "interval"
    judge_counts(given["bounds"], given["groups"], found)
    return "exact"


def grouped_stream(given: dict[str, Any], found: Any) -> str:
    judge_grouped_stream(given["groups"], given["state"], given["of_rows"], found)
    if found.state.clusters.seen == given["bounds"].n_samples:
        judge_counts(given["bounds"], given["groups"], found.state.group_counts)
    return "exact"


def limits(given: dict[str, Any], n: int, k: int) -> tuple[Any, Any]:
    low, high = given["min_count"], given["max_count"]
    return tuple(np.broadcast_to(np.asarray(b), (k,)) for b in (low, n if high is None else high))


def partial(given: dict[str, Any], found: Any) -> str:
    scores = scores_in(given["scores"])
    if isinstance(found, InfeasibleBoundsError):
        return "not judged: an error of a call inside, which names what it proves"
    if scores is None:
        return "not judged: too large"
    low, high = limits(given, *scores.shape)
    outside = np.asarray(given["out_score"]).astype(scores.dtype)
    judge_partial(scores, outside, low, high, given["max_out"], found)
    return how(scores.size)


def of_centers(given: dict[str, Any], found: Any) -> Any:
    """Scores of rows at centers as float64 has them, and by how much the library's may differ."""
    x = rows_of(given["features"])
    if x is None or len(x) * len(found.centers) > LARGEST:
        return None
    x, centers = (np.asarray(a, np.float64) for a in (x, found.centers))
    eps = eps_of(np.asarray(rows_of(given["features"])))
    if given["metric"] == "cosine":
        scores, at_center = x @ centers.T, np.ones(len(x))
    else:  # around the mean, as the library computes it
        middle = x.mean(axis=0, keepdims=True) if len(x) else np.zeros((1, x.shape[1]))
        x, centers = x - middle, centers - middle
        scores = x @ centers.T - 0.5 * (centers**2).sum(axis=1)
        at_center = 0.5 * (x**2).sum(axis=1)
    largest = abs(scores).max(axis=1, initial=0.0) + at_center
    return scores, at_center, 64 * eps * float(largest.sum())


def grouped_means(given: dict[str, Any], found: Any) -> str:
    if isinstance(found, InfeasibleBoundsError):
        judge_no_counts(given["bounds"], given["groups"])
        return "interval"
    made = of_centers(given, found)
    if made is None:
        return "not judged: rows of several ranks, or too many"
    scores, _, doubt = made
    if given["weights"] is not None:
        weights = np.asarray(given["weights"], np.float64)
        scores, doubt = scores * weights[:, None], doubt * float(weights.max(initial=0.0))
    barred = barred_pairs(given, *scores.shape)
    scores = scores if barred is None else np.where(barred, -np.inf, scores)
    judge_grouped(scores, given["bounds"], given["groups"], found.assignment, doubt=doubt)
    return "interval"


def linked(given: dict[str, Any], found: Any) -> str:
    scores = scores_in(given["scores"])
    if isinstance(found, InfeasibleBoundsError):
        return "not judged: pairs, which tests compare with all labels"
    if scores is None:
        return "not judged: too large"
    if given["weights"] is not None:
        scores = np.where(np.isfinite(scores), scores * given["weights"][:, None], scores)
    judge_linked(scores, given["bounds"], given["must_link"], given["cannot_link"], found)
    return "interval"


def linked_means(given: dict[str, Any], found: Any) -> str:
    made = None if isinstance(found, InfeasibleBoundsError) else of_centers(given, found)
    if made is None:
        return "not judged: an error of a call inside, rows of several ranks, or too many"
    scores, _, doubt = made
    if given["weights"] is not None:
        weights = np.asarray(given["weights"], np.float64)
        scores, doubt = scores * weights[:, None], doubt * float(weights.max(initial=0.0))
    pairs = given["must_link"], given["cannot_link"]
    judge_linked(scores, given["bounds"], *pairs, found.assignment, doubt=doubt)
    return "interval"


def trimmed_means(given: dict[str, Any], found: Any) -> str:
    made = None if isinstance(found, InfeasibleBoundsError) else of_centers(given, found)
    if made is None:
        return "not judged: an error of a call inside, rows of several ranks, or too many"
    scores, at_center, doubt = made
    low, high = limits(given, *scores.shape)
    outside = at_center - 0.5 * given["distance"] ** 2
    judge_partial(scores, outside, low, high, given["max_out"], found.assignment, doubt)
    return "interval"


def loaded(given: dict[str, Any], found: Any) -> str:
    scores = scores_in(given["scores"])
    if scores is None or given["exact"]:
        return "not judged: too large, or by branch and bound, which tests compare with all labels"
    if given["weights"] is not None:
        scores = np.where(np.isfinite(scores), scores * given["weights"][:, None], scores)
    judge_weighted(scores, given["bounds"], found)
    return "interval"


def loaded_means(given: dict[str, Any], found: Any) -> str:
    made = of_centers(given, found)
    if made is None:
        return "not judged: rows of several ranks, or too many"
    scores, _, doubt = made
    judge_weighted(scores, given["bounds"], found.assignment, doubt=doubt)
    return "interval"
