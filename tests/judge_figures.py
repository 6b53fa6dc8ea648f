"""Judges single figures by their definitions, with none of the library's code; see `tests.judge`.

Each function takes arguments of a public function, as it names them, and what it returned.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import logsumexp, xlogy

from tests.judge import implied, require
from tests.judge_bounds import judge_infeasible, judge_value
from tests.judge_centers import judge_pseudo_labels
from tests.judge_runs import agreement

Given = dict[str, Any]


def close(name: str, found: Any, true: Any, size: Any) -> None:
    """Refuse a figure that is off by more than rounding of terms of some size."""
    found, true = np.asarray(found), np.asarray(true)
    same = (found == true) | (np.abs(found - true) <= 2.0**-42 * np.abs(size) + 1e-300)
    require(same.all(), name, found, true)


def regret(given: Given, found: Any) -> None:
    n, best = len(given["scores"]), given["best"]
    off = abs(best) * 2.0**-50
    value = best - found * n
    own = np.asarray(given["scores"], np.longdouble)[np.arange(n), given["labels"]]
    require(abs(value - own.sum()) <= off + 2.0**-46 * np.abs(own).sum(), "regret", found)


def margins(given: Given, found: Any) -> None:
    priced = np.asarray(given["scores"], np.float64) + given["prices"]
    best = np.sort(priced, axis=1)
    if best.shape[1] > 1:
        close("margins", found, best[:, -1] - best[:, -2], np.abs(priced).max(initial=0))


def choices(given: Given, found: Any) -> None:
    """Margins and losses of labels; the clusters named are as good as the best, to rounding."""
    scores, y = np.asarray(given["scores"], np.float64), np.asarray(given["labels"], np.int64)
    i, size = np.arange(len(y)), np.abs(np.where(np.isfinite(scores), scores, 0)).max(initial=0)
    priced = scores + given["prices"]
    others = np.where(np.arange(scores.shape[1]) == y[:, None], -np.inf, priced)
    second, size = others.max(axis=1, initial=-np.inf), size + np.abs(given["prices"]).max()
    close("margin", found.margin, priced[i, y] - second, size)
    lost = scores.max(axis=1) - scores[i, y]
    close("loss", found.loss, np.where(lost > given["ties"], lost, 0.0), size)
    seen = second > -np.inf
    require((found.runner_up[~seen] == -1).all(), "no runner-up", found.runner_up)
    close("runner-up", others[i, found.runner_up][seen], second[seen], size)
    require(((found.free == y) == (found.loss == 0.0)).all(), "free choice", found.free)


def price_of_bounds(given: Given, found: Any) -> None:
    bounds, prices = given["bounds"], np.asarray(given["prices"], np.float64)
    low, high = implied(bounds.lower, bounds.upper, bounds.n_samples)
    terms = np.where(prices < 0, high, low) * prices
    close("price of bounds", found, -terms.sum(), np.abs(terms).sum())


def verified(given: Given, found: Any) -> None:
    """Whether a proof holds; a wrong one may be of any shape."""
    vector, sides = given["vector"], (given["lower"], given["upper"])
    try:
        error = SimpleNamespace(vector=vector, clusters=vector.clusters, excess=vector.excess)
        judge_infeasible(*sides, given["samples"], error, given["weights"])
        holds = True
    except (AssertionError, ValueError, TypeError, IndexError):
        holds = False
    require(found == holds, "a proof holds where it does", found, vector)


def energy(given: Given, found: Any) -> None:
    """The energy of soft labels, and the gap that duals prove, or those that labels imply."""
    names = "fairness_weight", "beta", "prior"
    duals = given.get("duals")
    record = SimpleNamespace(labels=given["labels"], objective=found, gap=None, duals=None)
    if "duals" in given:
        y, sigma = (np.asarray(given[name], np.longdouble) for name in ("labels", "sigma"))
        sigma, k = np.clip(sigma, 0.0, 1.0), sigma.shape[1]
        prior = np.full(k, 1 / k) if given["prior"] is None else given["prior"]
        if duals is None:
            p = given["fairness_weight"] * np.clip(prior, 0, 1e100) / np.maximum(y.mean(0), 1e-100)
            drop, a = p.max() - p, given["beta"] * sigma
            slack = np.maximum(a.sum(1) - (drop * y).sum(1), (a - drop).max(1))
            duals = SimpleNamespace(prices=p, slack=slack)
        record = SimpleNamespace(labels=given["labels"], objective=None, gap=found, duals=duals)
    judge_pseudo_labels(given["sigma"], record, **{name: given[name] for name in names})


def entropy(given: Given, found: Any) -> None:
    """J of labels or, with prices, the bound on it."""
    rule, scores = given["rule"], np.asarray(given["scores"], np.longdouble)
    n, a = rule.n_samples, rule.weight
    if "labels" in given:
        q = np.asarray(given["counts"], np.longdouble) / n
        rest = -a * (q * np.log(np.where(q > 0, q, 1))).sum()
        judge_value(given["scores"], given["labels"], found - rest, extra=abs(rest) * 2.0**-45)
        return
    p = np.asarray(given["prices"], np.float64)
    rest = a * logsumexp(-n * p / a) if a > 0 else -n * p.min()
    size = np.abs(scores).max(axis=1).sum() + 3 * n * np.abs(p).max() + a * np.log(len(p) + 1)
    close("bound on J", found, (scores + p).max(axis=1).sum() + rest, size)


def sinkhorn(given: Given, found: Any) -> None:
    """The residual of the prices found, and labels of the largest entries of the plan."""
    options = given["options"]
    epsilon = 0.05 if options is None else options.epsilon
    scores = np.asarray(given["scores"], np.float64)
    n, k = scores.shape
    shares = np.ones(k) if given["shares"] is None else np.asarray(given["shares"], np.float64)
    shares = shares / shares.max() / (shares / shares.max()).sum()  # their sum may overflow
    priced = scores + found.prices
    top = priced.max(axis=1)
    size = 2.0**-46 * (np.abs(scores).max() + np.abs(found.prices).max())
    own = priced[np.arange(n), found.labels]
    require((own >= top - size).all(), "labels of Sinkhorn", found.labels)
    plan = np.exp((priced - top[:, None]) / epsilon)
    plan /= plan.sum(axis=1, keepdims=True)
    residual = np.abs(plan.sum(axis=0) - n * shares).sum() / n
    off = 1e-10 + 16 * size / epsilon
    require(abs(found.residual - residual) <= off, "residual", found.residual, residual)


def spread(given: Given, found: Any) -> None:
    q = np.asarray(given["counts"], np.float64)
    q = q[q > 0] / q.sum()
    close("effective clusters", found, np.exp(-(q * np.log(q)).sum()), found)


def imbalance(given: Given, found: Any) -> None:
    close("imbalance", found, given["counts"].min() / given["counts"].max(), 1.0)


def uniformity(given: Given, found: Any) -> None:
    x = np.asarray(given["features"], np.float64)
    x = x / np.where(x.any(axis=1), np.abs(x).max(axis=1), 1.0)[:, None]
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    true = (x / np.where(lengths > 0, lengths, 1.0)).std(axis=0).mean()
    require(abs(found - true) <= 1e-6, "uniformity", found, true)


def churn(given: Given, found: Any) -> None:
    moved = np.asarray(given["labels"]) != np.asarray(given["previous"])
    close("churn", found, moved.mean() if moved.size else 0.0, 1.0)


def rand_index(given: Given, found: Any) -> None:
    true = agreement(np.asarray(given["labels"]), np.asarray(given["other"]))["ari"]
    true = 1.0 if np.isnan(true) else true  # of nothing, or of one cluster each
    require(abs(found - true) <= 1e-9, "adjusted Rand index", found, true)


def choice_of_k(given: Given, found: Any) -> None:
    """What the figures of all k and bounds say of each other."""
    require((found.price[:, 0] == 0).all() and (found.gap[:, 0] == 0).all(), "no bounds cost")
    for proven, price in ((found.price_proven, found.price),):
        require(((proven >= 0) & (proven <= price + 1e-12)).all(), "proven price", proven, price)
    require((found.gap >= 0).all() and (found.all_price_proven >= 0).all(), "gaps", found.gap)
    k = found.ks[:, None]
    inside = (found.smallest * k <= found.n_drawn) & (found.n_drawn <= found.largest * k)
    require(inside.all(), "sizes", found.smallest, found.largest)
    for name in ("silhouette", "all_silhouette", "stability", "reference"):
        require((np.abs(getattr(found, name)) <= 1).all(), name, getattr(found, name))


def choice_of_clustering(given: Given, found: Any) -> None:
    for one in found.judged:
        require(0 <= one.price_proven <= max(one.price, 0) + 1e-12, "proven price", one)
        require(abs(one.silhouette) <= 1 and abs(one.agreement) <= 1, "figures of a choice", one)


def rows_that_count(given: Given) -> tuple[Any, Any]:
    """Scores of a batch, 0 in rows that do not count, and how often each row counts."""
    scores = np.asarray(given["scores"], np.float64)
    counted = np.isfinite(scores.max(axis=1))
    w = counted * (1.0 if given["weights"] is None else np.asarray(given["weights"], np.float64))
    return np.where((w > 0)[:, None], scores, 0.0), w


def batch(given: Given, found: Any) -> str | None:
    """The value of the labels of a batch, the bound that prices prove, and its sizes."""
    if given["ranks"] is not None:
        return "not judged: rows of several ranks"
    (x, w), p = rows_that_count(given), np.asarray(given["prices"], np.float64)
    plan = np.where((w > 0)[:, None], np.asarray(given["plan"], np.float64), 0.0)
    epsilon, some = given["epsilon"], plan > 0
    own = np.where(some, plan * np.where(some, x, 0) - epsilon * xlogy(plan, plan), 0.0)
    priced = x + p
    best = epsilon * logsumexp(priced / epsilon, axis=1) if epsilon else priced.max(axis=1)
    sizes, low, high = w @ plan, np.asarray(given["lower"]), np.asarray(given["upper"])
    paid = (np.where(p < 0, high, low) * p).sum()
    size = (w * np.where(np.isfinite(priced), np.abs(x) + np.abs(p), 0).max(axis=1)).sum()
    size += epsilon * w.sum() * np.log(len(p) + 1) + np.abs(paid)
    close("objective of a batch", found.objective, w @ own.sum(axis=1), size)
    close("bound of a batch", found.upper_bound, w @ best - paid, size)
    outside = max(0.0, (low - sizes).max(), (sizes - high).max())
    figures = found.violation, found.smallest, found.largest
    close("sizes of a batch", figures, (outside, sizes.min(), sizes.max()), w.sum() + high.max())
    return None


def soft_batch(given: Given, found: Any) -> str | None:
    """Rows of the plan sum to 1; the residual is no less than the mass outside of the bounds."""
    if given["ranks"] is not None:
        return "not judged: rows of several ranks"
    _, w = rows_that_count(given)
    plan = np.asarray(found.plan, np.float64)
    eps = float(np.finfo(np.promote_types(found.plan.dtype, np.float32)).eps)
    sums = plan[w > 0].sum(axis=1)
    require((np.abs(sums - 1) <= 64 * eps * plan.shape[1]).all(), "rows sum to 1", sums)
    if found.residual is None or not w.any():
        return None
    shares = w[w > 0] @ plan[w > 0] / w.sum()
    low, high = (np.asarray(given[name]) for name in ("lower_share", "upper_share"))
    outside = np.maximum(np.maximum(low - shares, shares - high), 0).max()
    require(outside <= found.residual + 1e3 * eps, "residual of a batch", found.residual, outside)
    return None


FIGURES: dict[str, Callable[[Given, Any], str | None]] = {
    "algos.batches.certificate:certify_batch": batch,
    "algos.batches.soft:balance_soft": soft_batch,
    "algos.baselines.entropy:entropy_objective": entropy,
    "algos.baselines.entropy:entropy_upper_bound": entropy,
    "algos.baselines.sinkhorn_transport:sinkhorn": sinkhorn,
    "algos.bounds.farkas:verify_infeasibility": verified,
    "algos.bounds.sizes:price_of_bounds": price_of_bounds,
    "algos.clustering.choices:row_choices": choices,
    "algos.clustering.metrics:churn": churn,
    "algos.clustering.metrics:effective_clusters": spread,
    "algos.clustering.metrics:imbalance_ratio": imbalance,
    "algos.clustering.metrics:regret": regret,
    "algos.clustering.metrics:uniformity": uniformity,
    "algos.online.certificates:margins": margins,
    "algos.pseudo_labels.energy:label_gap": energy,
    "algos.pseudo_labels.energy:pseudo_label_energy": energy,
    "algos.selection.agreement:adjusted_rand_index": rand_index,
    "algos.selection.choice:choose_k": choice_of_k,
    "algos.selection.given:choose_clustering": choice_of_clustering,
}
