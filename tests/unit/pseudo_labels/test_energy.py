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
from tests.unit.pseudo_labels.test_solver import outputs

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


def test_blocks_change_no_value(xp):
    """Rows that come three times have the energy and the gap of one time, and take three blocks."""
    rng = np.random.default_rng(0)
    sigma, y = (rng.dirichlet(np.ones(30_000), size=4) for _ in range(2))
    prices, slack = rng.uniform(0.2, 0.6, size=30_000), rng.uniform(0.5, 1.0, size=4)

    def values(times):
        weights = {"fairness_weight": 2.0, "beta": 0.7}
        given = [xp.asarray(np.tile(a, (times, 1))) for a in (sigma, y)]
        duals = LabelDuals(xp.asarray(prices), xp.asarray(np.tile(slack, times)))
        found = [pseudo_label_energy(*given, **weights)]
        found += [label_gap(*given, **weights, duals=each) for each in (None, duals)]
        return [float(value) for value in found]

    assert values(3) == pytest.approx(values(1), rel=1e-11)


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


@pytest.mark.parametrize(
    ("beta", "fairness", "parts"),
    [(0.2, 0.6, (0.25, 0.75, 0.8)), (2.0, 0.0, (1.0, 0.0, 2.0)), (0.0, 0.0, (1.0, 0.0, 0.0))],
)
def test_the_weights_are_parts_of_their_sum(xp, beta, fairness, parts):
    found = solver._scaled(beta, xp.asarray(fairness))
    assert [float(part) for part in found] == pytest.approx(parts, rel=1e-15)


@pytest.mark.parametrize("fairness", [0.5, 30.0])
def test_it_ends_at_a_gap_of_the_tolerance_times_beta(fairness):
    """Or at the rounding of the energy: 1e-14 of beta and the weight of fairness."""
    sigma = outputs(np.random.default_rng(3), 9, 4, "sharp")

    def solved(tol, **given):
        weights = {"beta": 0.5, "fairness_weight": fairness, "prior": np.full(4, 0.5)}
        return pseudo_labels(sigma, **weights, tol=tol, **given)

    for tol in (1e-3, 1e-6, 1e-9):
        found = solved(tol)
        assert float(found.gap) <= 0.5 * tol * (1 + 1e-6) + 1e-13
        before = solved(tol, n_iter=found.n_iter - 1)
        assert float(before.gap) > 0.1 * tol  # its bound, which ends the steps, is a little larger
    rounding = 1e-14 * (0.5 + 2.0 * fairness) / 0.5
    last = solved(1e-30).n_iter
    assert last == solved(0.99 * rounding).n_iter > solved(30.0 * rounding).n_iter
    assert solved(0.5, max_iter=1).n_iter <= 1 == solved(1e-9, max_iter=1).n_iter


def test_a_row_wider_than_a_block_is_a_block():
    wide = np.ones((2, 2**17 + 1)) / (2**17 + 1)
    found = pseudo_labels(wide, fairness_weight=0.0, n_iter=1)
    np.testing.assert_allclose(found.labels, wide, rtol=1e-9)


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
