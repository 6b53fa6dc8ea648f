"""Pseudo-labels: the solution, its certificate, and the published EM."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.pseudo_labels.em import em_labels, em_step
from dualclust.algos.pseudo_labels.solver import (
    LabelDuals,
    floor_outputs,
    label_gap,
    pseudo_label_energy,
    pseudo_labels,
)
from tests.compare import assert_close, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES

KINDS = ("soft", "sharp", "zeros", "one-hot")


def outputs(rng, m, k, kind):
    """Network outputs: soft, sharp, sharp with exact zeros and a dead cluster, one-hot."""
    logits = rng.normal(size=(m, k)) + rng.normal(size=k)
    if kind != "soft":
        logits *= 8.0
    sigma = np.exp(logits - logits.max(axis=1, keepdims=True))
    if kind == "zeros":
        sigma[sigma < 1e-3] = 0.0
        sigma[:, 0] = 0.0
        sigma[sigma.sum(axis=1) == 0, -1] = 1.0
    elif kind == "one-hot":
        sigma = np.eye(k)[logits.argmax(axis=1)]
    return sigma / sigma.sum(axis=1, keepdims=True)


def energy(sigma, y, balance, beta, u):
    """E(y) of Lemma B.1, one term at a time."""
    m, k = sigma.shape
    total = 0.0
    for c in range(k):
        for i in range(m):
            if sigma[i, c] > 0:
                total -= beta / m * sigma[i, c] * math.log(y[i, c])
        if balance * u[c] > 0:
            total -= balance * u[c] * math.log(sum(y[:, c]) / m)
    return total


def dual(sigma, prices, slack, balance, beta, u):
    """The Lagrange dual, minimized over y and the masses in closed form."""
    m, k = sigma.shape
    nu, total = slack + prices.max(), 0.0
    for i in range(m):
        total -= nu[i] / m
        for c in range(k):
            if sigma[i, c] > 0:
                a = beta * sigma[i, c]
                total += (a - a * math.log(a / (nu[i] - prices[c]))) / m
    for c in range(k):
        if balance * u[c] > 0:
            a = balance * u[c]
            total += a - a * math.log(a / prices[c])
    return total


def printed_em(sigma, steps, balance, n):
    """Algorithm 1 of the supplement as it stands, from the network's output."""
    m, k = sigma.shape
    y, u = sigma.copy(), np.full(k, 1.0 / k)
    for _ in range(steps):
        share = np.zeros((m, k))
        for i in range(m):
            for c in range(k):
                share[i, c] = y[i, c] / sum(y[:, c])
        for i in range(m):
            below = 1.0 + balance * n * sum(u[c] * share[i, c] for c in range(k))
            for c in range(k):
                y[i, c] = (sigma[i, c] + balance * n * u[c] * share[i, c]) / below
    return y


@pytest.mark.parametrize("kind", KINDS)
def test_objective_and_gap_are_the_formulas(xp, rng, kind):
    sigma = outputs(rng, 7, 4, kind)
    y, u = rng.dirichlet(np.ones(4), size=7), np.asarray([0.5, 0.0, 0.25, 0.75])
    prices = np.where(u > 0, rng.uniform(0.1, 3.0, size=4), 0.0)
    slack = rng.uniform(0.01, 2.0, size=7)
    weights = {"fairness_weight": 3.0, "beta": 0.5}
    value = energy(sigma, y, 3.0, 0.5, u)
    below = dual(sigma, prices, slack, 3.0, 0.5, u)
    s, labels, w = (xp.asarray(a) for a in (sigma, y, u))
    found = pseudo_label_energy(s, labels, **weights, prior=w)
    duals = LabelDuals(xp.asarray(prices), xp.asarray(slack))
    gap = label_gap(s, labels, **weights, prior=w, duals=duals)
    assert float(found) == pytest.approx(value, rel=1e-13)
    assert float(gap) == pytest.approx(value - below, rel=1e-12)


@pytest.mark.unjudged(reason="its labels are no distributions")
def test_gap_holds_off_the_simplex(rng):
    sigma, y = outputs(rng, 6, 3, "soft"), rng.uniform(0.1, 0.9, size=(6, 3))
    prices, slack = rng.uniform(0.5, 2.0, size=3), rng.uniform(0.1, 1.0, size=6)
    value = energy(sigma, y, 2.0, 1.0, np.ones(3) / 3)
    below = dual(sigma, prices, slack, 2.0, 1.0, np.ones(3) / 3)
    gap = label_gap(sigma, y, fairness_weight=2.0, duals=LabelDuals(prices, slack))
    assert float(gap) == pytest.approx(value - below, rel=1e-12)


def test_missing_mass_is_infinite_and_absent_terms_are_zero(xp):
    sigma = xp.asarray([[1.0, 0.0], [0.5, 0.5]])
    hard = xp.asarray([[1.0, 0.0], [1.0, 0.0]])
    assert float(pseudo_label_energy(sigma, hard, fairness_weight=1.0)) == math.inf
    assert float(label_gap(sigma, hard, fairness_weight=1.0)) == math.inf
    first = xp.asarray([[1.0, 0.0], [1.0, 0.0]])
    only = xp.asarray([1.0, 0.0])
    assert float(pseudo_label_energy(first, hard, fairness_weight=1.0, prior=only)) == 0.0
    assert float(label_gap(first, hard, fairness_weight=1.0, prior=only)) == 0.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_solution_satisfies_the_optimality_conditions(xp, rng, kind, dtype):
    if dtype == "float16" and xp.name.startswith("strict"):
        pytest.skip("array_api_strict has no half precision")
    given = xp.asarray(outputs(rng, 40, 5, kind), dtype)
    result = pseudo_labels(given, fairness_weight=10.0, beta=2.0)
    wide = np.float64 if dtype == "float64" else np.float32
    assert_same_kind(result.labels, xp.asarray(np.empty((40, 5), wide)))
    y, sigma = to_numpy(result.labels).astype(np.float64), to_numpy(given).astype(np.float64)
    p, s = (to_numpy(a) for a in result.duals)
    nu = s + p.max()
    assert result.n_iter <= (12 if kind == "soft" else 30)
    assert 0 <= float(result.gap) + 1e-13 <= 2e-10 + 1e-13
    eps = float(np.finfo(wide).eps)
    np.testing.assert_allclose(y.sum(axis=1), 1.0, atol=8 * eps)
    np.testing.assert_allclose(y * (nu[:, None] - p), 2.0 * sigma, atol=1e-5 + 100 * eps)
    np.testing.assert_allclose(p * y.mean(axis=0), 10.0 / 5, rtol=1e-4)
    assert (y > 0).all()
    assert float(result.residual) < 1e-4
    value = energy(sigma, y, 10.0, 2.0, np.full(5, 0.2))
    assert float(result.objective) == pytest.approx(value, rel=4 * eps + 1e-13)


def agree(xp, sigma, u, steps):
    """A number of steps known before, read back or not, blocks or none: one optimum."""
    sigma, u = xp.asarray(sigma), xp.asarray(u)
    options = {"fairness_weight": 5.0, "prior": u, "tol": 1e-11}
    want = pseudo_labels(sigma, **options)
    assert float(want.gap) <= 2e-11
    for n_iter in (None, steps):
        found = pseudo_labels(sigma, **options, n_iter=n_iter, block_rows=7)
        assert float(found.gap) <= 2e-11
        assert_close(found.objective, want.objective, rtol=4e-12)
        assert_close(found.duals.prices, want.duals.prices, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [4, 30])
def test_all_ways_of_solving_the_linear_system_agree(rng, m, kind):
    u = np.asarray([1.0, 2.0, 0.0, 1.0, 0.5, 0.25])
    agree(LIBRARIES[0], outputs(rng, m, 6, kind), u, 25)


@pytest.mark.parametrize("m", [3, 9])
def test_all_ways_run_on_every_library(xp, rng, m):
    agree(xp, outputs(rng, m, 4, "soft"), np.asarray([1.0, 2.0, 0.0, 1.0]), 5)


@pytest.mark.parametrize(("m", "k"), [(140, 150), (150, 140)])
def test_more_unknowns_than_are_eliminated_take_conjugate_gradients(rng, m, k):
    """Where the number of steps is known; by samples and by clusters."""
    agree(LIBRARIES[0], outputs(rng, m, k, "soft"), np.full(k, 1.0 / k), 12)


@pytest.mark.parametrize(("steps", "gap"), [(None, 2e-4), (2, 1e-1)])
def test_a_system_too_large_to_hold_is_never_made(rng, steps, gap):
    """1,025 samples of 1,030 clusters: conjugate gradients on the product with its matrix."""
    sigma = outputs(rng, 1025, 1030, "soft")
    found = pseudo_labels(sigma, fairness_weight=5.0, tol=1e-4, n_iter=steps)
    assert float(found.gap) <= gap < float(label_gap(sigma, sigma, fairness_weight=5.0))


def test_blocks_of_rows_change_nothing(xp, rng):
    sigma = xp.asarray(outputs(rng, 23, 4, "sharp"))
    whole, parts = (pseudo_labels(sigma, fairness_weight=10.0, block_rows=b) for b in (None, 5))
    assert parts.n_iter == whole.n_iter
    assert_close(parts.labels, whole.labels, rtol=1e-6, atol=1e-9)


def test_fixed_number_of_steps_is_the_same_solution(xp, rng):
    for kind in ("soft", "zeros"):
        sigma = xp.asarray(outputs(rng, 10, 3, kind))
        free, fixed = (
            pseudo_labels(sigma, fairness_weight=10.0),
            pseudo_labels(sigma, fairness_weight=10.0, n_iter=20),
        )
        assert fixed.n_iter == 20
        assert float(fixed.gap) <= 1e-10
        assert_close(fixed.objective, free.objective, rtol=1e-11)
        few = pseudo_labels(sigma, fairness_weight=10.0, n_iter=2)
        assert float(few.objective - free.objective) <= float(few.gap)


@pytest.mark.parametrize("shape", [(8, 3), (3, 8), (200, 150)])
def test_fixed_number_of_steps_reads_no_value_back(shape):
    # A meta tensor has no values: reading one, or a shape that depends on one, raises.
    sigma = torch.empty(shape, device="meta", requires_grad=True)
    result = pseudo_labels(sigma, fairness_weight=10.0, n_iter=3)
    assert result.labels.shape == shape
    assert result.gap.device.type == "meta"
    with pytest.raises(Exception, match="meta"):
        pseudo_labels(sigma, fairness_weight=10.0)


def test_no_gradient_goes_through_the_labels(rng):
    sigma = torch.tensor(outputs(rng, 20, 4, "soft"), requires_grad=True)
    for n_iter in (None, 8):
        result = pseudo_labels(sigma, fairness_weight=10.0, n_iter=n_iter)
        tensors = [result.labels, result.objective, result.gap, result.residual, *result.duals]
        assert not any(t.requires_grad for t in tensors)


@pytest.mark.parametrize("beta", [1.0, 3.0])
@pytest.mark.parametrize("kind", ["soft", "zeros"])
def test_envelope(rng, kind, beta):
    values = outputs(rng, 12, 4, kind)
    sigma = torch.tensor(values, requires_grad=True)
    weights = {"fairness_weight": 5.0, "beta": beta}
    y = pseudo_labels(sigma, **weights, tol=1e-14).labels
    pseudo_label_energy(sigma, y, **weights).backward()
    expected = -beta / 12 * np.log(to_numpy(y))
    np.testing.assert_allclose(to_numpy(sigma.grad), expected, rtol=1e-13)
    h = 1e-5
    for i, c in ((0, 1), (3, 2), (11, 3)):
        if not 1e-2 < values[i, c] < 0.9:
            continue
        ends = []
        for sign in (1.0, -1.0):
            moved = values.copy()
            moved[i, c] += sign * h
            ends.append(float(pseudo_labels(moved, **weights, tol=1e-14).objective))
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(expected[i, c], rel=1e-5)


def test_em_is_the_printed_step_with_n_the_batch_size(xp, rng):
    sigma = outputs(rng, 9, 3, "soft")
    found = em_labels(xp.asarray(sigma), fairness_weight=4.0, n_iter=20, epsilon=0.0)
    assert_close(found, xp.asarray(printed_em(sigma, 20, 4.0, 9)), rtol=1e-12)


def test_em_descends_to_the_newton_solution(xp, rng):
    sigma = xp.asarray(outputs(rng, 30, 4, "soft"))
    weights = {"fairness_weight": 2.0, "beta": 1.5, "prior": xp.asarray([0.1, 0.2, 0.3, 0.4])}
    best = pseudo_labels(sigma, **weights, tol=1e-14)
    y, last = sigma, math.inf
    for _ in range(5):
        value = float(pseudo_label_energy(sigma, y, **weights))
        assert float(best.objective) <= value <= last
        assert value - float(best.objective) <= float(label_gap(sigma, y, **weights))
        y, last = em_step(sigma, y, **weights), value
    y = em_labels(sigma, **weights, n_iter=400)
    assert_close(y, best.labels, rtol=1e-4)


def test_the_printed_em_solves_another_weight_for_another_n(rng):
    sigma = outputs(rng, 9, 3, "soft")
    u = np.ones(3) / 3
    best = pseudo_labels(sigma, fairness_weight=4.0)
    right, wrong = (energy(sigma, printed_em(sigma, 400, 4.0, n), 4.0, 1.0, u) for n in (9, 2))
    assert right == pytest.approx(float(best.objective), abs=1e-10)
    assert wrong > right + 0.01


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_printed_em_fails_at_zeros():
    dead = np.asarray([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    assert np.isnan(printed_em(dead, 3, 1.0, 3)).any()
    assert np.isnan(em_labels(dead, fairness_weight=1.0, n_iter=3, epsilon=0.0)).any()
    repaired = em_labels(dead, fairness_weight=1.0, n_iter=2000)
    best = pseudo_labels(dead, fairness_weight=1.0)
    assert float(best.gap) <= 1e-10
    assert np.isfinite(repaired).all()
    assert (
        float(pseudo_label_energy(dead, repaired, fairness_weight=1.0))
        <= float(best.objective) + 1e-3
    )

    locked = np.asarray([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.99, 0.01]])
    y = printed_em(locked, 5000, 10.0, 3)
    assert (y[:2, 1:] == 0.0).all()
    best = pseudo_labels(locked, fairness_weight=10.0)
    assert energy(locked, y, 10.0, 1.0, np.ones(3) / 3) > float(best.objective) + 0.1


def test_floor_bounds_the_price_of_unique_labels(rng):
    for kind in ("zeros", "one-hot"):
        sigma = outputs(rng, 50, 5, kind)
        for epsilon in (1e-3, 1e-6):
            floored = floor_outputs(sigma, epsilon=epsilon)
            np.testing.assert_allclose(floored.sum(axis=1), 1.0, rtol=1e-14)
            y = pseudo_labels(floored, fairness_weight=10.0).labels
            lost = (
                pseudo_label_energy(sigma, y, fairness_weight=10.0)
                - pseudo_labels(sigma, fairness_weight=10.0).objective
            )
            assert -1e-10 <= lost <= epsilon * (1 + math.log(1 / epsilon))
            assert -np.log(y).min() <= -math.log(epsilon) + math.log(12 * 5)


def test_a_single_weight_has_a_known_solution(xp, rng):
    sigma, u = outputs(rng, 8, 3, "zeros"), np.asarray([2.0, 1.0, 0.0])
    for weights in ({"fairness_weight": 0.0}, {"fairness_weight": 0.0, "beta": 0.0}):
        alone = pseudo_labels(xp.asarray(sigma), **weights)
        assert_close(alone.labels, xp.asarray(sigma), rtol=1e-12, atol=1e-100)
    alone = pseudo_labels(xp.asarray(sigma), fairness_weight=1.0, prior=xp.asarray(0.0 * u))
    assert_close(alone.labels, xp.asarray(sigma), rtol=1e-12, atol=1e-100)
    fair = pseudo_labels(xp.asarray(sigma), fairness_weight=1.0, beta=0.0, prior=xp.asarray(u))
    np.testing.assert_allclose(to_numpy(fair.labels).mean(axis=0), [2 / 3, 1 / 3, 0], atol=1e-6)
    assert float(fair.gap) <= 1e-13


def test_a_large_weight_gives_the_wanted_shares(xp, rng):
    u = np.asarray([0.5, 0.3, 0.2])
    sigma = xp.asarray(outputs(rng, 60, 3, "soft"))
    result = pseudo_labels(sigma, fairness_weight=1e4, prior=xp.asarray(u))
    np.testing.assert_allclose(to_numpy(result.labels).mean(axis=0), u, rtol=1e-3)


def test_the_sum_of_the_prior_is_a_factor_of_the_weight(rng):
    sigma, u = outputs(rng, 15, 4, "soft"), np.asarray([0.1, 0.2, 0.3, 0.4])
    one, two = (
        pseudo_labels(sigma, fairness_weight=3.0, prior=u),
        pseudo_labels(sigma, fairness_weight=0.5, prior=6.0 * u),
    )
    np.testing.assert_allclose(one.labels, two.labels, rtol=1e-10)
    assert float(one.objective) == pytest.approx(float(two.objective), rel=1e-12)


def test_a_start_near_the_solution_saves_steps(xp, rng):
    sigma = outputs(rng, 100, 5, "soft")
    before = pseudo_labels(xp.asarray(sigma), fairness_weight=100.0)
    moved = xp.asarray(0.98 * sigma + 0.02 * sigma[::-1])
    cold = pseudo_labels(moved, fairness_weight=100.0)
    warm = pseudo_labels(moved, fairness_weight=100.0, start=before.labels)
    assert warm.n_iter < cold.n_iter
    assert_close(warm.objective, cold.objective, rtol=1e-11)
    for bad in (np.zeros((100, 5)), np.eye(5)[np.zeros(100, int)], np.full((100, 5), -1e300)):
        again = pseudo_labels(moved, fairness_weight=100.0, start=xp.asarray(bad))
        assert_close(again.objective, cold.objective, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fairness_weight", [1.0, 10.0, 100.0])
def test_few_steps_at_any_weight(rng, kind, fairness_weight):
    for m, k in ((250, 10), (1000, 30)):
        result = pseudo_labels(outputs(rng, m, k, kind), fairness_weight=fairness_weight, tol=1e-12)
        assert result.n_iter <= (12 if kind == "soft" else 30)
        assert float(result.gap) <= 2e-12 + 1e-13 * fairness_weight


def test_errors_name_the_argument(xp, rng):
    sigma = xp.asarray(outputs(rng, 5, 3, "soft"))
    cases = [
        (InvalidValueError, "fairness_weight", {"fairness_weight": -1.0}),
        (InvalidValueError, "fairness_weight", {"fairness_weight": math.nan}),
        (InvalidValueError, "beta", {"beta": -1.0}),
        (InvalidValueError, "tol", {"tol": 0.0}),
        (InvalidValueError, "max_iter", {"max_iter": 0}),
        (InvalidValueError, "n_iter", {"n_iter": -1}),
        (InvalidValueError, "block_rows", {"block_rows": 0}),
        (InvalidValueError, "prior", {"prior": xp.asarray([1.0, 2.0])}),
        (InvalidTypeError, "prior", {"prior": xp.asarray([1, 2, 3])}),
        (InvalidValueError, "start", {"start": sigma[:2, :]}),
    ]
    for error, name, change in cases:
        with pytest.raises(error, match=name):
            pseudo_labels(sigma, **{"fairness_weight": 1.0, **change})
    for shape in ((0, 3), (3, 0), (3,)):
        with pytest.raises(InvalidValueError, match="sigma"):
            pseudo_labels(xp.asarray(np.zeros(shape)), fairness_weight=1.0)
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidValueError, match="sigma must be finite"):
            pseudo_labels(xp.asarray([[0.5, 0.5], [bad, 0.5]]), fairness_weight=1.0)
    with pytest.raises(InvalidValueError, match="epsilon"):
        floor_outputs(sigma, epsilon=2.0)
    with pytest.raises(InvalidValueError, match="beta"):
        em_step(sigma, sigma, fairness_weight=1.0, beta=0.0)


def test_arrays_of_two_libraries_are_refused(rng):
    sigma = outputs(rng, 5, 3, "soft")
    with pytest.raises(DeviceMismatchError, match="labels"):
        label_gap(sigma, torch.tensor(sigma), fairness_weight=1.0)
