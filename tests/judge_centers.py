"""Judges centers and soft labels, with none of the library's code; see `tests.judge`.

Products, logarithms and exponentials are computed in long doubles, or float64 and a bound on its
rounding; what the library computes in a narrower type is granted the rounding of that type.

`judge_clustering`
    `judge_assignment` of labels, for scores computed from features and centers.
`judge_kmeans`
    Counts are those of the labels; each label is a nearest center; objective is the sum of scores.
    With ``means``, each center is the mean of its rows, or the direction of their sum.
`judge_pseudo_labels`
    Labels lie on the simplex; ``objective`` is E of them; gap is ``E - g(p, nu)``, where g is the
    Lagrange dual function at the prices p and multipliers ``nu = slack + max p``, so g <= min E.
`judge_survey`
    Counts, objective, free objective, upper bound and silhouette are those of the best priced
    clusters, but where two are as good to rounding.
`judge_centers`
    Unit centers; gap and residual are those of ``T(w)``, the linear minimum; the status is theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.judge import Verdict, implied, judge_assignment, require

LONG = np.longdouble


def scores_of(
    features: Any, centers: Any, weights: Any, metric: str, eps: float, middle: Any = None
) -> tuple[Any, Any, float]:
    """Return scores, the weight of each row, and by how much all rows' scores may be off.

    Squared distances are counted from that to `middle`, the mean of the features by default.
    """
    x, c = np.asarray(features, np.float64), np.asarray(centers, np.float64)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    middle = x.mean(axis=0) if middle is None else middle
    middle = middle if metric == "euclidean" else np.zeros(x.shape[1])
    x, c = x - middle, c - middle
    scores = x @ c.T - (0.5 * (c * c).sum(axis=1) if metric == "euclidean" else 0.0)
    reach = np.sqrt((x * x).sum(axis=1)) + np.sqrt((c * c).sum(axis=1)).max()
    off = eps * reach * ((x.shape[1] + 8) * reach + 4 * np.abs(middle).sum())
    return scores, w, float((w * off).sum())


def judge_clustering(
    features: Any,
    centers: Any,
    weights: Any,
    metric: str,
    lower: Any,
    upper: Any,
    found: Any,
    *,
    eps: float,
    barred: Any = None,
) -> Verdict:
    """Judge the certificate of labels for centers; `barred` are pairs, (n, k) bool, or None."""
    scores, w, doubt = scores_of(features, centers, weights, metric, eps)
    scores = scores if barred is None else np.where(barred, -np.inf, scores)
    return judge_assignment(
        scores, None if weights is None else w, lower, upper, found, doubt=doubt
    )


def judge_medoids(
    pairs: Any, weights: Any, barred: Any, lower: Any, upper: Any, found: Any
) -> None:
    """Judge labels for medoids and, at the end, medoids for the labels."""
    scores = -np.asarray(pairs)[:, found.medoids]
    scores = scores if barred is None else np.where(barred, -np.inf, scores)
    judge_assignment(scores, weights, lower, upper, found.assignment)
    if not found.converged:
        return
    wide = np.asarray(pairs, np.float64)
    wide = wide if weights is None else wide * (np.asarray(weights) / np.max(weights))[:, None]
    for j, medoid in enumerate(found.medoids):
        own = found.labels == j
        sums = wide[own].sum(axis=0)
        best = sums[own].min(initial=np.inf)
        require(sums[medoid] <= best * (1 + 1e-9), "the medoid of a cluster", sums[medoid], best)


def judge_kmeans(
    features: Any, weights: Any, metric: str, found: Any, *, eps: float, means: bool
) -> None:
    """Judge what `kmeans` returns; `means` says that no label has changed at the last step."""
    centers, y = np.asarray(found.centers, np.float64), np.asarray(found.labels)
    scores, w, doubt = scores_of(features, centers, weights, metric, eps)
    (n, k), x = scores.shape, np.asarray(features, np.float64)
    counts = np.bincount(y, minlength=k)
    require(np.array_equal(found.counts, counts), "counts of k-means", found.counts, counts)
    own = w * scores[np.arange(n), y]
    lost = (w * scores.max(axis=1) - own).sum()
    require(lost <= 2 * doubt, "labels are the nearest centers", lost, doubt)
    off = doubt + 2.0**-45 * np.abs(own).sum()
    require(abs(found.objective - own.sum()) <= off, "objective of k-means", found.objective, off)
    if metric == "cosine":
        lengths = np.linalg.norm(centers, axis=1)
        directed = lengths > 0  # rows may add up to 0
        require(np.allclose(lengths[directed], 1.0, rtol=0, atol=64 * eps), "unit centers", lengths)
    if not means:
        return
    for j in np.flatnonzero(np.bincount(y, w, minlength=k) > 0):
        own, part = x[y == j], w[y == j] / w[y == j].max()  # squares of weights leave float64
        sums, size = part @ own, (part @ np.abs(own)).max()
        # A row is rounded to 2^-80 of the largest entry, and unit rows without weights to 2^-36.
        off = 1e2 * eps * size + part.sum() * np.abs(x).max() * 2.0**-79
        if metric == "cosine":
            off += 0.0 if weights is not None else len(own) * own.shape[1] ** 0.5 * 2.0**-36
            length = np.linalg.norm(sums)
            mean, off = sums / (length or 1.0), off / (length or off or 1.0)
        else:
            mean, off = sums / part.sum(), off / part.sum()
        away = np.abs(centers[j] - mean).max()
        off += np.finfo(np.asarray(found.centers).dtype).smallest_subnormal
        require(off > 0.1 or away <= off, "a center is the mean of its rows", j, away, off)


def judge_pseudo_labels(
    sigma: Any, found: Any, *, fairness_weight: float, beta: float, prior: Any
) -> None:
    """Judge soft labels, their energy and their gap, by Lagrange duality."""
    sigma, y = np.clip(np.asarray(sigma, LONG), 0.0, 1.0), np.asarray(found.labels, LONG)
    (m, k), rows = sigma.shape, y.sum(axis=1)
    prior = np.full(k, 1 / k) if prior is None else np.clip(np.asarray(prior, LONG), 0.0, 1e100)
    a, b = LONG(beta) / m * sigma, LONG(fairness_weight) * prior
    require((y >= 0).all(), "labels are not negative", y.min())
    value, sizes = _cross(a, y)
    fair, more = _cross(b, y.mean(axis=0))
    eps = np.finfo(np.asarray(found.labels).dtype).eps  # the labels' rounding came last
    value, sizes = value + fair, sizes + more + (a.sum() + b.sum()) * (1 + eps * 2.0**52)
    if not np.isfinite(value):  # mass is missing, or below what the labels' dtype holds
        tiny = LONG(np.finfo(np.asarray(found.labels).dtype).smallest_subnormal)
        least = (
            _cross(a, np.maximum(y, tiny))[0] + _cross(b, np.maximum(y.mean(axis=0), tiny / m))[0]
        )
        true = np.inf in (found.objective, found.gap) or (found.objective or 0.0) >= 0.99 * least
        require(true, "E is infinite, or as large as labels allow", found.objective, least)
        return
    if found.objective is not None:
        away = abs(found.objective - value)
        require(away <= 2.0**-44 * sizes, "E", found.objective, value)
    if found.duals is None:
        return
    p = np.clip(np.asarray(found.duals.prices, LONG), 0.0, None)
    nu = np.clip(np.asarray(found.duals.slack, LONG), 0.0, None) + p.max()
    dual, more = _conjugate(b, p)
    rest, size = _conjugate(a, (nu[:, None] - p) / m)
    dual, sizes = dual + rest - nu.sum() / m, sizes + more + size + nu.sum() / m
    require(value - dual <= found.gap + 2.0**-44 * sizes, "gap", found.gap, value - dual)
    true = found.gap > 1e100 or found.gap <= value - dual + 2.0**-44 * sizes
    require(true, "a gap that is not too large", found.gap, value - dual)
    if found.gap <= 1e-6 * beta:
        some = a.sum(axis=1) > 0  # a row of zeros has no weight
        require(np.allclose(rows[some], 1.0, rtol=0, atol=1e-3), "rows add up to 1", rows)


def _cross(target: Any, y: Any) -> tuple[Any, Any]:
    """Return ``- sum t ln y`` where t is above 0, and the sum of its sizes."""
    some = target > 0
    with np.errstate(divide="ignore"):  # where mass is missing, the sum is infinite
        terms = -target[some] * np.log(y[some])
    return terms.sum(), np.abs(terms).sum()


def _conjugate(target: Any, price: Any) -> tuple[Any, Any]:
    """Return ``sum min_y price y - t ln y``, and the sum of its sizes."""
    some = target > 0
    t, q = target[some], price[some]
    terms = t - t * np.log(t / q)
    return terms.sum(), np.abs(terms).sum()


def judge_centers(
    features: Any,
    labels: Any,
    start: Any,
    found: Any,
    *,
    temperature: float,
    tol: float,
    eps: float,
) -> None:
    """Judge hardness-weighted centers: each minimizes its own loss with the others as they were."""
    x, y, w = np.asarray(features, LONG), np.asarray(labels), np.asarray(found.centers, LONG)
    start = np.asarray(start, LONG)
    lengths = np.linalg.norm(start.astype(np.float64), axis=1, keepdims=True)
    start = start / np.where(lengths > 0, lengths, 1)  # of an empty cluster it may be 0
    k, sizes, others = len(w), np.bincount(y, minlength=len(w)), x @ start.T / temperature
    others[np.arange(len(x)), y] = -np.inf
    for j in range(k):
        own, status = x[y == j], int(found.status[j])
        require((status == 3) == (sizes[j] == 0), "empty, and only then", j, status, sizes[j])
        if not len(own):
            continue
        require(abs(np.linalg.norm(w[j].astype(float)) - 1.0) <= 64 * eps, "unit center", j)
        with np.errstate(over="ignore", divide="ignore"):
            log_a = np.logaddexp.reduce(others[y == j], axis=1)
            q = 1 / (1 + np.exp(own @ w[j] / temperature - log_a))
        pull = q @ own
        length = np.sqrt((pull * pull).sum())
        gap = (length - pull @ w[j]) / temperature / len(own)
        reach = np.sqrt((own * own).sum(axis=1))
        off = 4 * eps * (4 + x.shape[1]) * (1 + reach.max() / temperature) * (q * reach).sum()
        scale = temperature * len(own)
        require(
            abs(found.gap[j] - gap) <= off / scale + 1e-300, "gap of a center", j, found.gap[j], gap
        )
        residual = np.sqrt(((w[j] - pull / (length or 1)) ** 2).sum())
        sure = length > max(1e3 * off, 1e-290)  # a pull that float64 does not hold has no direction
        require(
            not sure or abs(found.residual[j] - residual) <= 2 * off / length + 4 * eps,
            "residual",
            j,
        )
        require((status == 0) == (found.gap[j] <= tol), "certified within tol", j, status)


def judge_survey(features: Any, candidate: Any, metric: str, found: Any, *, eps: float) -> None:
    """Judge the figures of a candidate: sums over rows, and the mean of simplified silhouettes."""
    x, c = np.asarray(features, np.float64), np.asarray(candidate.centers, np.float64)
    (n, d), k = x.shape, len(c)
    size = np.sqrt((x * x).sum(axis=1)), np.sqrt((c * c).sum(axis=1)).max()
    off = (d + 8) * eps * (size[0] + size[1]) ** 2
    own = np.full(n, 2.0) if metric == "cosine" else (x * x).sum(axis=1)
    scores = x @ c.T - (0.0 if metric == "cosine" else 0.5 * (c * c).sum(axis=1))
    prices = np.zeros(k) if candidate.prices is None else candidate.prices
    priced, i = scores + prices, np.arange(n)
    y, near = priced.argmax(axis=1), priced >= (priced.max(axis=1) - 2 * off)[:, None]
    if candidate.labels is not None:
        y, near = np.asarray(candidate.labels), np.eye(k, dtype=bool)[candidate.labels]
    doubtful = near.sum(axis=1) > 1
    moved = np.abs(np.bincount(y, minlength=k) - found.counts).sum()
    require(moved <= 2 * doubtful.sum(), "counts of a survey", found.counts, moved)
    span = np.where(near, scores, -np.inf).max(axis=1) - np.where(near, scores, np.inf).min(axis=1)
    total = off.sum() + 2.0**-45 * np.abs(scores).max(axis=1, initial=0).sum()
    value = scores[i, y].sum()
    require(abs(value - found.objective) <= total + span.sum(), "objective", found.objective, value)
    free = upper = scores.max(axis=1).sum()
    require(abs(free - found.free) <= total, "free objective", found.free, free)
    if candidate.bounds is not None and candidate.prices is not None:
        low, high = implied(candidate.bounds.lower, candidate.bounds.upper, n)
        paid = np.where(prices < 0, high, low) * prices
        upper, total = priced.max(axis=1).sum() - paid.sum(), total + 2.0**-45 * np.abs(paid).sum()
        total += 2.0**-45 * n * np.abs(prices).max()
    require(abs(upper - found.upper_bound) <= total, "upper bound", found.upper_bound, upper)
    at, others = scores[i, y], np.where(np.arange(k) == y[:, None], -np.inf, scores).max(axis=1)
    a, b = (np.sqrt(np.maximum(own - 2 * s, 0)) for s in (at, others))
    far = np.maximum(np.maximum(a, b), np.sqrt(off))
    each = np.where(np.maximum(a, b) > 0, (b - a) / far, 0.0)
    most = np.minimum(2.0, 8 * off / np.maximum(np.minimum(a, b), np.sqrt(off)) / far)
    most = np.where(doubtful | (far <= 4 * np.sqrt(off)), 2.0, most).mean()
    require(abs(each.mean() - found.silhouette) <= most + 1e-12, "silhouette", found.silhouette)
