"""Energy, gap and what is read of the arguments: values where a formula is at its edge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.pseudo_labels import energy, solver
from dualclust.algos.pseudo_labels.em import em_labels, em_step
from dualclust.algos.pseudo_labels.energy import (
    LabelDuals,
    floor_outputs,
    label_gap,
    pseudo_label_energy,
)
from dualclust.algos.pseudo_labels.solver import pseudo_labels
from tests.compare import to_numpy

OUTSIDE = [[1.02, -0.02], [-0.01, 0.6], [0.3, 0.7]]
INSIDE = [[1.0, 0.0], [0.0, 0.6], [0.3, 0.7]]


@pytest.mark.parametrize(
    ("product", "target", "value"),
    [
        (0.3, 0.3, 0.0),
        (0.0, 0.0, 0.0),
        (0.25, 0.0, 0.25),  # a vanishing target contributes its product
        (0.0, 0.25, math.inf),
        (0.6, 0.3, 0.3 * (1.0 - math.log(2.0))),
        (0.12, 0.3, 0.3 * (-0.6 - math.log(0.4))),
        (0.21, 0.3, 0.3 * (-0.3 - math.log(0.7))),
        (2.0, 1.0 + 1e-9, (1.0 + 1e-9) * (2.0 / (1.0 + 1e-9) - 1.0 - math.log(2.0 / (1 + 1e-9)))),
        (1.0 + 1e-6, 1.0, 0.5e-12 - 1e-18 / 3.0),  # nothing cancels
        (1e-200, 1.0, 200.0 * math.log(10.0) - 1.0),
        (1.0, 1e-200, 1.0),
        (1e200, 1e-200, 1e200),
    ],
)
def test_the_divergence_of_a_product_from_its_target(xp, product, target, value):
    found = energy._divergence(xp.asarray([product, 0.5]), xp.asarray([target, 0.5]))
    assert float(found[0]) == pytest.approx(value, rel=1e-9)
    assert float(found[1]) == 0.0


@pytest.mark.parametrize(
    ("y", "needed", "value"),
    [(0.5, 1.0, math.log(0.5)), (2.0, 0.0, math.log(2.0)), (0.0, 1e-9, -math.inf), (0.0, 0.0, 0.0)],
)
def test_a_logarithm_is_infinite_only_where_it_is_needed(xp, y, needed, value):
    assert float(energy._log(xp.asarray([y]), xp.asarray([needed]))[0]) == pytest.approx(value)


def test_blocks_hold_so_many_entries():
    rows = 2**17 // 50_000
    assert rows == 2
    assert list(energy._blocks(5, 50_000)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(energy._blocks(2, 2**17 + 1)) == [slice(0, 1), slice(1, 2)]
    assert list(energy._blocks(2**17 + 1, 1)) == [slice(0, 2**17), slice(2**17, 2**17 + 1)]


def test_blocks_change_no_value(xp, monkeypatch):
    rng = np.random.default_rng(0)
    sigma, y = (xp.asarray(rng.dirichlet(np.ones(3), size=7)) for _ in range(2))
    slack = xp.asarray(rng.uniform(0.5, 1.0, size=7))
    duals = LabelDuals(xp.asarray([0.3, 0.6, 0.2]), slack)

    def values():
        found = [pseudo_label_energy(sigma, y, fairness_weight=2.0, beta=0.7)]
        for given in (None, duals):
            found.append(label_gap(sigma, y, fairness_weight=2.0, beta=0.7, duals=given))
        return [float(value) for value in found]

    whole = values()
    monkeypatch.setattr(energy, "BLOCK", 9)  # three rows
    assert values() == pytest.approx(whole, rel=1e-13)


def test_outputs_are_read_clipped_to_probabilities(xp):
    """What rounding adds to them counts for nothing, in each function."""
    outside, inside, y = (xp.asarray(a) for a in (OUTSIDE, INSIDE, [[0.7, 0.3]] * 3))
    for function in (pseudo_label_energy, label_gap):
        found, want = (float(function(s, y, fairness_weight=1.0)) for s in (outside, inside))
        assert found == want
    start = em_labels(outside, fairness_weight=1.0, n_iter=1)
    want = em_step(
        inside,
        xp.asarray(np.clip((1 - 1e-6) * np.asarray(INSIDE) + 5e-7, 1e-300, None)),
        fairness_weight=1.0,
    )
    np.testing.assert_allclose(to_numpy(start), to_numpy(want), rtol=1e-12)
    ends = [
        to_numpy(pseudo_labels(s, fairness_weight=1.0, n_iter=8).labels) for s in (outside, inside)
    ]
    np.testing.assert_array_equal(*ends)


def test_duals_below_0_are_read_as_0(xp):
    sigma, y = xp.asarray([[0.6, 0.4], [0.2, 0.8]]), xp.asarray([[0.5, 0.5], [0.3, 0.7]])
    gaps = [
        float(label_gap(sigma, y, fairness_weight=1.0, duals=LabelDuals(*map(xp.asarray, pair))))
        for pair in (([-0.5, 0.7], [-1.0, 0.9]), ([0.0, 0.7], [0.0, 0.9]))
    ]
    assert gaps[0] == gaps[1]


def test_the_default_price_of_a_mass_that_vanishes_is_finite():
    """``lambda u / 1e-100``: the gap is then as large, and no infinity."""
    sigma, y = np.asarray([[1.0, 0.0]]), np.asarray([[1.0, 1e-120]])
    assert float(label_gap(sigma, y, fairness_weight=1.0)) == pytest.approx(0.5e100, rel=1e-9)


def test_the_prior_is_read_between_0_and_the_largest_weight(xp):
    prior = xp.asarray([-0.5, 0.25, 1e200])
    _, shares = energy.check_problem(xp.asarray([[0.5, 0.5, 0.0]]), 1.0, 1.0, prior)
    assert to_numpy(shares).tolist() == [0.0, 0.25, 1e100]
    _, shares = energy.check_problem(xp.asarray([[0.5, 0.5, 0.0]], "float32"), 1.0, 1.0, None)
    assert shares.dtype == prior.dtype
    assert to_numpy(shares).tolist() == [1.0 / 3.0] * 3


def test_the_ends_of_the_ranges_belong_to_them():
    sigma = np.asarray([[0.5, 0.5]])
    above = math.nextafter(1e100, math.inf)
    for name in ("fairness_weight", "beta"):
        weights = {"fairness_weight": 1.0, "beta": 1.0}
        for value in (1e100, 0.0):
            energy.check_problem(sigma, **weights | {name: value}, prior=None)
        with pytest.raises(InvalidValueError, match=rf"^{name} must lie in \[0, 1e\+100\]"):
            energy.check_problem(sigma, **weights | {name: above}, prior=None)
    for epsilon in (0.0, 1.0):
        floor_outputs(sigma, epsilon=epsilon)
    for epsilon in (-1e-9, 1.0 + 1e-9):
        with pytest.raises(InvalidValueError, match=r"epsilon must lie in \[0, 1\]"):
            floor_outputs(sigma, epsilon=epsilon)
    em_step(sigma, sigma, fairness_weight=1.0, beta=1e100)
    for beta in (0.0, above):
        with pytest.raises(InvalidValueError, match="beta must lie in"):
            em_step(sigma, sigma, fairness_weight=1.0, beta=beta)


def test_what_does_not_fit_is_named():
    sigma, other = np.asarray([[0.5, 0.5]] * 3), torch.ones(3, 2)
    duals = LabelDuals(np.ones(2), np.ones(3))
    cases = [
        (InvalidTypeError, "labels", {"labels": np.ones((3, 2), dtype=int)}),
        (InvalidValueError, "labels", {"labels": np.ones((2, 2))}),
        (DeviceMismatchError, "labels", {"labels": other}),
        (DeviceMismatchError, "prior", {"prior": other[0]}),
        (InvalidValueError, r"duals\.prices", {"duals": duals._replace(prices=np.ones(3))}),
        (InvalidValueError, r"duals\.slack", {"duals": duals._replace(slack=np.ones(2))}),
        (DeviceMismatchError, "prices", {"duals": duals._replace(prices=other[0])}),
        (DeviceMismatchError, "slack", {"duals": duals._replace(slack=other[:, 0])}),
        (DeviceMismatchError, "prices", {"duals": LabelDuals(other[0], other[:, 0])}),
    ]
    for error, name, change in cases:
        with pytest.raises(error, match=name):
            label_gap(sigma, **{"labels": sigma, "fairness_weight": 1.0} | change)
    for call in (
        lambda: em_labels(sigma, fairness_weight=-1.0, n_iter=0),
        lambda: em_labels(sigma, fairness_weight=1.0, n_iter=-1),
    ):
        with pytest.raises(InvalidValueError, match=r"fairness_weight|n_iter"):
            call()


def test_the_published_iteration_starts_from_floored_outputs(xp):
    """A label that would underflow stays where it can grow; from outputs as printed, 0 stays 0."""
    sigma, prior = xp.asarray([[0.8, 0.2, 0.0]] * 2), xp.asarray([0.5, 0.5, 0.0])
    weights = {"fairness_weight": 1.0, "prior": prior}
    start = to_numpy(em_labels(sigma, **weights, n_iter=0, epsilon=0.5))
    assert start.tolist() == [[0.65, 0.35, 1e-300]] * 2
    assert to_numpy(em_labels(sigma, **weights, n_iter=0, epsilon=0.0)).tolist()[0][2] == 0.0
    later = to_numpy(em_labels(sigma, **weights, n_iter=3))
    assert (later[:, 2] == 1e-300).all()
    # A cluster that is not wanted and has no mass is no NaN.
    step = to_numpy(em_step(sigma, sigma, **weights, beta=0.5))
    assert (step[:, 2] == 0.0).all()
    np.testing.assert_allclose(step.sum(axis=1), 1.0, rtol=1e-15)


def recorded(monkeypatch, **options):
    """The problem that `pseudo_labels` hands to Newton's method."""
    found, real = [], solver.init

    def init(problem, start):
        found.append(problem)
        return real(problem, start)

    monkeypatch.setattr(solver, "init", init)
    result = pseudo_labels(**options)
    return found[0], result


@pytest.mark.parametrize(
    ("beta", "fairness", "prior"),
    [
        (0.2, 0.4, [0.3, 0.2]),
        (2.0, 3.0, [1.5, 0.5]),
        (0.5, 1.0, [0.0, 0.0]),
        (0.0, 0.0, [1.0, 1.0]),
    ],
)
def test_the_weights_are_parts_of_their_sum(monkeypatch, beta, fairness, prior):
    sigma = np.asarray([[0.5, 0.5], [0.1, 0.9], [0.6, 0.4]])
    problem, _ = recorded(
        monkeypatch, sigma=sigma, fairness_weight=fairness, beta=beta, prior=np.asarray(prior),
        tol=1e-6, n_iter=0, block_rows=1,
    )  # fmt: skip
    total = beta + fairness * sum(prior)
    weight = beta / total if total else 1.0
    assert float(problem.weight) == pytest.approx(weight, rel=1e-15)
    shares = 3 * fairness * np.asarray(prior) / (total or 1.0)
    np.testing.assert_allclose(problem.shares, shares, rtol=1e-14)
    assert float(problem.least) == pytest.approx(0.1 * 1e-6 * weight / 2, rel=1e-14)
    assert problem.block_rows == 1
    assert problem.fixed


def test_the_solver_stops_at_the_rounding_of_the_energy_at_the_latest(monkeypatch):
    sigma = np.asarray([[0.5, 0.3, 0.2]])
    problem, _ = recorded(monkeypatch, sigma=sigma, fairness_weight=1.0, tol=1e-30, n_iter=0)
    assert float(problem.least) == pytest.approx(0.1 * 1e-14 / 3, rel=1e-14)
    assert problem.block_rows == 2**17 // 3
    problem, result = recorded(monkeypatch, sigma=sigma, fairness_weight=1.0, max_iter=1)
    assert result.n_iter == 1
    assert not problem.fixed
    wide = np.ones((2, 2**17 + 1)) / (2**17 + 1)
    problem, _ = recorded(monkeypatch, sigma=wide, fairness_weight=0.0, n_iter=0)
    assert problem.block_rows == 1
    monkeypatch.setattr(solver, "bound", lambda *_: np.asarray(2.0**-30))
    for tol, n_iter in ((2.0**-30, 0), (2.0**-31, 2)):
        found = pseudo_labels(sigma, fairness_weight=0.0, tol=tol, max_iter=2)
        assert found.n_iter == n_iter


def test_the_gap_that_comes_back_is_that_of_the_duals(xp):
    sigma = xp.asarray([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    found = pseudo_labels(sigma, fairness_weight=1.0, n_iter=2)
    of_duals, own = (
        float(label_gap(sigma, found.labels, fairness_weight=1.0, duals=duals))
        for duals in (found.duals, None)
    )
    assert float(found.gap) == of_duals
    assert of_duals != own


def test_a_start_is_checked_and_needs_no_gradient():
    sigma = np.asarray([[0.9, 0.1], [0.8, 0.2]])
    cases = [
        (InvalidTypeError, "start", {"start": np.ones((2, 2), dtype=int)}),
        (DeviceMismatchError, "start", {"start": torch.ones(2, 2)}),
        (InvalidValueError, "prior must be finite", {"prior": np.asarray([math.nan, 1.0])}),
    ]
    for error, name, change in cases:
        with pytest.raises(error, match=name):
            pseudo_labels(sigma, fairness_weight=1.0, **change)
    start = torch.ones(2, 2, requires_grad=True)
    result = pseudo_labels(torch.tensor(sigma), fairness_weight=1.0, start=start)
    assert not result.labels.requires_grad
    for dtype, wide in ((torch.bfloat16, torch.float32), (torch.float32, torch.float32)):
        given = torch.tensor(sigma, dtype=dtype)
        assert pseudo_labels(given, fairness_weight=1.0, n_iter=1).labels.dtype == wide
