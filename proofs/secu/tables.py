"""Claims of SeCu's supplement about its experiments: S8 to S13. Numbers typed in with their place.

What needs the paper's training runs is empirical here: the check recomputes what follows from the
printed numbers alone, and, where an exact statement is near, that one.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ... import backends
from ...algos import bounds, offline
from ...algos.baselines import entropy
from ...algos.online import assignment, duals, step_sizes
from ..references import online_runs, optimality
from ..registry.claims import Status, claim

PAPER = "SeCu supplement"

# Table 2, CIFAR-10 with 50,000 images and K = 10: gamma, #Max, #Min, ACC, NMI, ARI.
_TABLE_2 = (
    (1.0, 5015, 4973, 85.4, 76.2, 73.0),
    (0.9, 5190, 4556, 88.1, 79.4, 77.6),
    (0.8, 5323, 4422, 87.6, 78.7, 76.6),
    (0.7, 5721, 3789, 86.6, 77.7, 75.1),
)
_TABLE_1 = {64: 88.0, 128: 88.1, 256: 88.2, 512: 87.8}  # output dimension: ACC
_TABLE_3 = {32: 87.9, 64: 88.3, 128: 88.1, 256: 87.9}  # batch size: ACC


@claim(
    id="S8",
    paper=PAPER,
    place="section 3.2.2, Table 2",
    statement="For gamma = 1 the size constraint is satisfied with the dual update.",
    hypotheses="The runs of the table: 50,000 images of CIFAR-10, K = 10, one pass an epoch.",
    status=Status.REFUTED,
    derivation="""
    gamma = 1 asks for n_j >= 50,000 / 10 = 5,000 in every cluster. The row prints a smallest
    cluster of 4,973: 27 samples, or 0.54 %, short. The other three rows do satisfy their bounds
    (4,556 >= 4,500; 4,422 >= 4,000; 3,789 >= 3,500). The duals steer; they leave a remainder in
    one pass. With completion, which reserves the last samples for the clusters that are owed
    them, the constraint is met for any scores.

    Check: the differences in the table; `assign` for gamma = 1 on scores that all prefer the same
    clusters; and for bounds that differ from cluster to cluster, from prices of zero and others,
    every label against the rule written out sample by sample: a cluster closes at its upper bound,
    and at its lower one once no more samples are left than are owed, neither one sooner nor one
    later. By the engine and by the readable text.
    """,
    counterexample="Table 2, first row: gamma = 1, #Min = 4,973 < 5,000.",
    covers=("online.assignment.assign", "bounds.sizes.SizeBounds.from_ratios"),
)
def balanced_row_of_table_2() -> float:
    """Return the samples by which the first row is not short, the others are, or `assign` is."""
    first, *others = [(gamma * 50_000 / 10, low) for gamma, _, low, *_ in _TABLE_2]
    worst = max(0.0, 27.0 - (first[0] - first[1]), *(need - low for need, low in others))
    rng = np.random.default_rng(8)
    for mode in online_runs.ENGINES:
        with backends.engine(mode):
            for steep in (1.0, 40.0):
                scores = rng.uniform(-1.0, 1.0, (80, 10)) + np.linspace(steep, 0.0, 10)
                found = assignment.assign(
                    scores, bounds.SizeBounds.from_ratios(10, n_samples=80, lower=1.0)
                )
                sizes = np.bincount(found.labels, minlength=10)
                worst = max(worst, float(np.abs(sizes - 8).sum()))
                worst = max(worst, float(np.abs(found.state.counts - sizes).sum()))
            worst = max(worst, _wrong_enforcement(np.random.default_rng(81)))
    return worst


def _wrong_enforcement(rng: np.random.Generator) -> float:
    """Return labels of `assign` that are not those of the rule, and samples out of bounds."""
    wrong, n, k = 0.0, 64, 5
    for trial in range(12):
        sizes = rng.multinomial(n, np.asarray([4, 4, 8, 16, 32]) / 64)
        low = np.maximum(sizes - rng.integers(0, 4, size=k), 0)
        high = sizes + rng.integers(0, 4, size=k)
        limits = bounds.SizeBounds.from_counts(low.tolist(), high.tolist(), n_samples=n)
        slope = np.linspace(2.0, 0.0, k) if trial % 2 else np.zeros(k)
        scores = online_runs.dyadic_scores(rng, (n, k), 4) + np.round(16.0 * slope) / 16.0
        free = trial % 3 == 2
        rule = step_sizes.StepRule(2.0 ** -(trial % 5), 1 + 3 * (trial % 3), free)
        prices = duals.Duals(*(rng.integers(0, 9, size=(2, k)) / 8.0 * (trial > 5)))
        state = assignment.init_state(limits)._replace(duals=prices, start=prices)
        cut = rule.chunk_size * 4
        first, state = assignment.assign(scores[:cut], limits, state, steps=rule)
        second, state = assignment.assign(scores[cut:], limits, state, steps=rule)
        told, last = online_runs.enforced_labels(
            scores,
            limits,
            step_size=rule.step_size,
            chunk_size=rule.chunk_size,
            start=prices,
            free_sign=free,
        )
        labels = np.concatenate([first, second])
        counts = np.bincount(labels, minlength=k)
        wrong += float((labels != told).sum() + (counts < low).sum() + (counts > high).sum())
        wrong += float(np.abs(np.asarray(state.duals) - np.asarray(last)).max())
    shares = bounds.SizeBounds.for_stream(k, lower=0.75, upper=1.5)
    by_mean = step_sizes.StepRule(0.25, 4, mean_over_chunk=True)  # the step is that of a batch
    told = assignment.assign(scores, shares, steps=step_sizes.StepRule(0.0625, 4)).labels
    return wrong + float((assignment.assign(scores, shares, steps=by_mean).labels != told).sum())


@claim(
    id="S9",
    paper=PAPER,
    place="section 3.1, STL-10",
    statement="""
    The entropy weight is 26,460 in the first stage and 600 in the second, by the proposed scaling
    rule.
    """,
    hypotheses="The rule is not in the supplement; 6,000 for the 50,000 images of CIFAR-10.",
    status=Status.ERRATUM,
    derivation="""
    The penalty of a move is alpha / N times a logarithm of counts, so that alpha proportional to
    N keeps its weight against the scores: 6,000 (5,000 / 50,000) = 600, the second stage. The
    same rule gives 6,000 (105,000 / 50,000) = 12,600 for the first one; the printed 26,460 is
    6,000 (105,000 / 50,000)^2. No single power of N fits both: the exponents are 1 and 2. Perhaps
    the factor 2.1 was applied twice. Repair: proportional, as in `published_rule`; 26,460 can be
    given as a weight.

    Check: the exponents, the rule, and that with it the price of one cluster over another, of
    three times as many samples, tends to the same (alpha / N) log 3 for every N.
    """,
    tolerance=1e-9,
    covers=("baselines.entropy.published_rule", "baselines.entropy.entropy_prices"),
)
def scaling_of_the_entropy_weight() -> float:
    """Return the error of both exponents and of the proportional rule."""
    rule = entropy.published_rule
    base = rule(50_000).weight
    exponents = (
        math.log(26_460 / base) / math.log(105_000 / 50_000),
        math.log(600 / base) / math.log(5_000 / 50_000),
    )
    apart = 0.0
    for n in (4 * 10**6, 4 * 10**8):
        prices = entropy.entropy_prices(np.asarray([n // 4, 3 * n // 4]), rule(n))
        apart = max(apart, abs(float(prices[0] - prices[1]) - 0.12 * math.log(3.0)) - 1.0 / n)
    exact = 0.12 * np.asarray([0.0, math.log(4.0), 18.0 * math.log(3.0) - 24.0 * math.log(2.0)])
    few = -entropy.entropy_prices(np.asarray([0, 1, 8]), rule(9)) - exact
    return max(
        apart,
        float(np.abs(few).max()) - 1e-12,
        float(rule(300).batch_size != 128 or rule(300).n_samples != 300),
        float(rule(300).first_pass != "published"),
        abs(base - 6_000.0),
        abs(exponents[0] - 2.0),
        abs(exponents[1] - 1.0),
        abs(rule(5_000).weight - 600.0),
        abs(rule(105_000).weight - 12_600.0),
    )


@claim(
    id="S10",
    paper=PAPER,
    place="section 3.2.1, Table 1",
    mutations=("dualclust.proofs.secu.tables._TABLE_1",),
    statement="The accuracy is stable for output dimensions from 64 to 512.",
    hypotheses="One run each, no spread given.",
    status=Status.EMPIRICAL,
    derivation="""
    The accuracies are 88.0, 88.1, 88.2 and 87.8: a range of 0.4 points, largest at 256 and not at
    the 128 that is used. Whether 0.4 is noise cannot be said without repetitions. The reason
    given, that a low dimension suits the metric *better*, is not what the table shows.
    """,
    tolerance=1e-9,
    about="print",
)
def range_of_table_1() -> float:
    """Return the error of the range 0.4 and of the place of the maximum, 256."""
    best = max(_TABLE_1, key=lambda dimension: _TABLE_1[dimension])
    return _range_error(_TABLE_1, 0.4) + float(best != 256)


@claim(
    id="S11",
    paper=PAPER,
    place="section 3.2.3, Table 3",
    statement="The accuracy is insensitive to batch sizes from 32 to 256.",
    hypotheses="One run each, no spread given.",
    status=Status.EMPIRICAL,
    derivation="""
    The accuracies are 87.9, 88.3, 88.1 and 87.9: a range of 0.4 points. What is proven of the
    sizes does depend on the batch: clipping at 0 only raises a dual, so that over n samples
    rho_end - rho_start >= (eta / b) (n gamma / K - count), and the shortfall of a cluster is at
    most b (rho_end - rho_start) / eta, larger for larger batches.

    Check: the range; that bound and its twin for upper duals, on streams with batches of 1, 8 and
    40, the last one shorter, from prices of zero and others; the bound of a cluster whose price
    was never clipped is an equality, as it is for duals of free sign.
    """,
    tolerance=1e-9,
    covers=("online.duals.assign_batch",),
)
def range_of_table_3() -> float:
    """Return the error of the range 0.4, and samples by which a shortfall exceeds its bound."""
    rng = np.random.default_rng(11)
    scores, k, eta = rng.uniform(-1.0, 1.0, (192, 4)) + np.linspace(0.6, 0.0, 4), 4, 0.2
    low, high = np.asarray([0.1, 0.2, 0.25, 0.3]), np.asarray([0.2, 0.5, 0.5, 0.6])
    worst = _range_error(_TABLE_3, 0.4)
    for b in (1, 8, 40):
        above = duals.Duals(*rng.uniform(40.0, 41.0, (2, k)))  # nothing is clipped from there
        for start, free in (
            (duals.init_duals((k,), xp=np), False),
            (above, False),
            (duals.init_duals((k,), xp=np), True),
        ):
            labels, state = duals.assign_batch(
                scores,
                start,
                duals.DualRule(
                    lower_share=low,
                    upper_share=high,
                    step_size=eta / b,
                    chunk_size=b,
                    free_sign=free,
                ),
            )
            counts = np.bincount(labels, minlength=k)
            rise, rise_up = state.lower - start.lower, state.upper - start.upper
            short, over = 192 * low - counts, counts - 192 * high
            worst = max(worst, float((short - b * rise / eta).max()))
            if free:
                worst = max(worst, float(np.abs(rise_up).max()))
            else:
                worst = max(worst, float((over - b * rise_up / eta).max()))
            if free or start is above:
                worst = max(worst, float(np.abs(short - b * rise / eta).max()))
            if start is above:
                worst = max(worst, float(np.abs(over - b * rise_up / eta).max()))
    return worst


def _range_error(table: dict[int, float], printed: float) -> float:
    return abs(max(table.values()) - min(table.values()) - printed)


@claim(
    id="S12",
    paper=PAPER,
    place="section 3.2.2, Table 2",
    statement="A smaller gamma makes the sizes more uneven; gamma = 0.9 is best.",
    hypotheses="One run each, no spread given.",
    status=Status.EMPIRICAL,
    derivation="""
    In the table #Max rises (5,015, 5,190, 5,323, 5,721) and #Min falls (4,973, 4,556, 4,422,
    3,789) with falling gamma, and all three scores are best at 0.9. That need not be so for every
    data set: sizes are not monotone in the bound. What is exact: a smaller gamma gives a larger
    feasible set, so that the best objective for fixed scores cannot fall.

    Check: the order in the table, and the objectives of `assign_exact` with falling gamma: against
    linear programs for few scores, and for so many that it works on few candidates, where the
    labels are proven best by their prices, worked out in the check.
    """,
    tolerance=1e-9,
    covers=("offline.assignment.assign_exact",),
)
def order_of_table_2() -> float:
    """Return the rows out of order, and the largest fall of an optimal value."""
    columns = list(zip(*_TABLE_2, strict=True))
    wrong = sum(a >= b for a, b in pairwise(columns[1]))
    wrong += sum(a <= b for a, b in pairwise(columns[2]))
    wrong += sum(max(column) != column[1] for column in columns[3:])
    rng = np.random.default_rng(12)
    worst = 0.0
    for n, k in ((40, 4), (20, 5), (11_000, 6)):
        scores = rng.integers(-512, 513, (n, k)) / 512.0 + np.linspace(0.5, 0.0, k).round(2)
        values = []
        for gamma in (1.0, 0.9, 0.8, 0.7, 0.0):
            limits = bounds.SizeBounds.from_ratios(k, n_samples=n, lower=gamma, rounding="outward")
            found = offline.assign_exact(scores, limits)
            values.append(found.objective)
            worst = max(worst, optimality.gap_by_hand(scores, limits, found) - 1e-8)
            if n < 100:
                best, _ = optimality.linear_program(scores, limits.lower)
                worst = max(worst, abs(best - found.objective))
        worst = max(worst, *(a - b for a, b in pairwise(values)))
        worst = max(worst, abs(values[-1] - float(scores.max(axis=1).sum())) - 1e-8)
    return float(wrong) + worst


@claim(
    id="S13",
    paper=PAPER,
    place="section 3.1, ImageNet and self-labeling",
    statement="""
    ImageNet: gamma = 0.4, dual step 20 per batch of 1,024, center rate fixed at 4.2. Self-labeling
    keeps predictions above 0.9.
    """,
    hypotheses="Settings, not a claim about a result.",
    status=Status.EMPIRICAL,
    derivation="""
    The settings are recorded in `step_sizes.PUBLISHED`. They do not bear out the remark S3d, by
    which the natural rate is 1: the rate is 4.2 here. Per image the dual step is 20 / 1,024; over
    an epoch of N = 1,281,167 images a cluster that gets nothing rises by 20 gamma N / (1,024 K),
    which is 10.0 at K = 1,000. Check: the record, and that number.
    """,
    tolerance=1e-9,
    covers=("online.step_sizes.published_steps",),
)
def settings_of_imagenet() -> float:
    """Compare the record with the supplement, and the rise per epoch with 10.009."""
    name = "secu-imagenet"
    setting, rule = step_sizes.PUBLISHED[name], step_sizes.published_steps(name)
    rise = setting.eta / setting.batch_size * setting.ratio * 1_281_167 / 1_000
    shared = step_sizes.published_steps("coke-imagenet")  # CoKe's runs have the same settings
    small = [step_sizes.published_steps(name) for name in ("secu-cifar", "coke-cifar")]
    wrong = float(shared != rule) + sum(
        rule.step_size != 0.1 or rule.chunk_size != 128 or not rule.mean_over_chunk
        for rule in small
    )
    return (
        wrong
        + float(not rule.mean_over_chunk or rule.free_sign or rule.l1_radius != math.inf)
        + abs(setting.eta - 20.0)
        + abs(setting.batch_size - 1_024)
        + abs(setting.ratio - 0.4)
        + abs(rule.step_size - 20.0)
        + abs(rule.chunk_size - 1_024)
        + max(0.0, abs(rise - 10.0) - 0.05)
    )
