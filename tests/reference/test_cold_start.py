"""The law that replaced the published theorem: a first pass misses max rho* / kappa of a bound."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import assign, next_pass
from dualclust.algos.online.step_sizes import StepRule, theorem_steps
from tests.problems import cone_scores, mixture_scores


def optimal_prices(scores, share):
    """Minimize the dual with its maximum smoothed, more and more sharply."""

    def dual(rho, width):
        z = (scores + rho) / width
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        total = e.sum(axis=1, keepdims=True)
        value = width * float((top[:, 0] + np.log(total[:, 0])).mean()) - share * float(rho.sum())
        return value, (e / total).mean(axis=0) - share

    rho = np.zeros(scores.shape[1])
    for width in (0.03, 0.01, 0.003):
        box = [(0.0, None)] * len(rho)
        rho = minimize(dual, rho, (width,), jac=True, method="L-BFGS-B", bounds=box).x
    return rho


def missing(scores, rule, seed):
    """Largest share of the lower bound that a cluster lacks after one cold pass."""
    n, k = scores.shape
    order = np.random.default_rng(seed).permutation(n)
    state = assign(scores[order], SizeBounds.for_stream(k, lower=0.9), steps=rule).state
    gamma = 0.9 * n / k
    return float((gamma - state.counts).max()) / gamma


@pytest.mark.parametrize("kappa", [1.7, 3.4, 6.8])
@pytest.mark.parametrize(
    ("make", "n", "k"),
    [(cone_scores, 10_000, 10), (cone_scores, 20_000, 30), (mixture_scores, 10_000, 10)],
)
def test_a_cold_pass_misses_the_largest_price_over_kappa(make, n, k, kappa):
    scores = make(n, k)
    law = optimal_prices(scores, 0.9 / k).max() / kappa
    rule = StepRule(kappa / (0.9 * n / k))
    measured = np.mean([missing(scores, rule, seed) for seed in range(3)])
    assert measured == pytest.approx(law, rel=0.15)


def test_a_warm_pass_misses_much_less():
    scores, rng = cone_scores(10_000, 10), np.random.default_rng(0)
    bounds, state = SizeBounds.for_stream(10, lower=0.9), None
    for kappa in (3.4, 1.7, 0.85):
        start = None if state is None else next_pass(state)
        rule = StepRule(kappa / 900)
        state = assign(scores[rng.permutation(10_000)], bounds, start, steps=rule).state
    warm = float((900 - state.counts).max()) / 900
    assert warm < 0.5 * missing(scores, StepRule(3.4 / 900), 0)


def test_a_radius_below_the_sum_of_the_prices_leaves_a_violation_that_grows_with_n():
    shares = []
    for n in (2_000, 8_000):
        scores = cone_scores(n, 10)
        tau = 0.5 * float(optimal_prices(scores, 0.09).sum())
        shares.append(missing(scores, theorem_steps(n, tau), 0))
    assert min(shares) > 0.2  # a fixed share of the bound, as the size of the data grows
