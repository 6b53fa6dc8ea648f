"""Sinkhorn: the printed iteration, its residual, and that it can be resumed."""

import math
import tracemalloc

import numpy as np
import pytest
import torch

from dualclust.algos.baselines.sinkhorn_transport import SWAV, SinkhornOptions, sinkhorn, soft_plan
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.refusals import assert_refused


def swav_plan(scores, epsilon, rounds):
    """SwAV's iteration as printed: plain exponentials, clusters before samples, n samples."""
    Q = np.exp(scores / epsilon).T
    Q /= Q.sum()
    K, B = Q.shape
    for _ in range(rounds):
        Q /= Q.sum(axis=1, keepdims=True)
        Q /= K
        Q /= Q.sum(axis=0, keepdims=True)
        Q /= B
    return (Q * B).T


def rows_first_plan(scores, epsilon, rounds):
    """The same with samples before clusters, ended by samples."""
    Q = np.exp(scores / epsilon)
    n, k = Q.shape
    for _ in range(rounds):
        Q /= Q.sum(axis=1, keepdims=True)
        Q *= n / k / Q.sum(axis=0)
    return Q / Q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("rounds", [1, 2, 3, 10])
@pytest.mark.parametrize("columns_first", [True, False])
def test_the_plan_is_that_of_the_printed_iteration(xp, rng, rounds, columns_first):
    scores = rng.uniform(-1, 1, (12, 4))
    options = SinkhornOptions(0.05, rounds, 0.0, columns_first)
    found = sinkhorn(xp.asarray(scores), options=options)
    assert found.n_iter == rounds
    plan = soft_plan(xp.asarray(scores), found.prices, epsilon=0.05)
    printed, other = swav_plan(scores, 0.05, rounds), rows_first_plan(scores, 0.05, rounds)
    if not columns_first:
        printed, other = other, printed
    assert_close(plan, xp.asarray(printed), rtol=1e-9)
    assert np.abs(to_numpy(plan) - other).max() > 1e-3  # the order matters
    assert_equal(found.labels, xp.asarray(printed.argmax(axis=1)))


def test_swav_is_three_rounds_of_epsilon_a_twentieth():
    assert SWAV == SinkhornOptions(0.05, 3, 0.0, columns_first=True)


def test_columns_get_the_shares_asked_for(xp, rng):
    scores, shares = rng.normal(size=(40, 3)), np.asarray([5.0, 2.0, 1.0])
    for target in (None, shares):
        given = None if target is None else xp.asarray(target)
        found = sinkhorn(xp.asarray(scores), shares=given, options=SinkhornOptions(0.3, 1000, 1e-9))
        plan = to_numpy(soft_plan(xp.asarray(scores), found.prices, epsilon=0.3))
        r = np.ones(3) / 3 if target is None else shares / shares.sum()
        np.testing.assert_allclose(plan.sum(axis=0), 40 * r, rtol=1e-7)
        np.testing.assert_allclose(plan.sum(axis=1), 1.0, rtol=1e-12)
        assert float(found.residual) <= 1e-9
        assert found.n_iter < 1000


def test_the_residual_is_that_of_the_plan(xp, rng):
    scores = rng.normal(size=(30, 4))
    found = sinkhorn(xp.asarray(scores), options=SinkhornOptions(0.2, 2, 0.0))
    plan = to_numpy(soft_plan(xp.asarray(scores), found.prices, epsilon=0.2))
    expected = np.abs(plan.sum(axis=0) / 30 - 0.25).sum()
    assert expected > 1e-3
    assert_close(found.residual, xp.asarray(expected), rtol=1e-10)


def test_kinds(xp, rng):
    for dtype in ("float32", "float64"):
        scores = xp.asarray(rng.normal(size=(9, 3)), dtype)
        found = sinkhorn(scores)
        assert_same_kind(found.labels, xp.asarray(np.zeros(9, np.int64)))
        assert_same_kind(found.prices, xp.asarray(np.zeros(3)))
        assert_same_kind(found.residual, xp.asarray(np.zeros(())))
        assert_same_kind(soft_plan(scores, found.prices, epsilon=0.05), scores)


def test_half_precision_is_computed_wide(rng):
    scores = rng.normal(size=(20, 3)).astype(np.float16)
    found = sinkhorn(scores, options=SWAV)
    assert_equal(found.prices, sinkhorn(scores.astype(np.float64), options=SWAV).prices)
    assert soft_plan(scores, found.prices, epsilon=0.05).dtype == np.float32
    brain = torch.asarray(scores.astype(np.float32)).to(torch.bfloat16)
    found = sinkhorn(brain, options=SWAV)
    assert_equal(found.prices, sinkhorn(brain.to(torch.float64), options=SWAV).prices)


def test_a_warm_start_needs_fewer_iterations(xp, rng):
    scores = xp.asarray(rng.normal(size=(50, 5)))
    cold = sinkhorn(scores, options=SinkhornOptions(0.1, 5000, 1e-8))
    warm = sinkhorn(scores, options=SinkhornOptions(0.1, 5000, 1e-8), prices=cold.prices)
    assert cold.n_iter > 10
    assert warm.n_iter == 0
    assert_equal(warm.prices, cold.prices)
    # Columns first is a matter of the start without prices only.
    options = SinkhornOptions(0.1, 5000, 1e-8, columns_first=True)
    assert sinkhorn(scores, options=options, prices=cold.prices).n_iter == 0


def test_the_iteration_can_be_cut_anywhere_and_resumed(xp, rng):
    scores = xp.asarray(rng.normal(size=(30, 4)))
    whole = sinkhorn(scores, options=SinkhornOptions(0.1, 7, 0.0))
    part = sinkhorn(scores, options=SinkhornOptions(0.1, 3, 0.0))
    rest = sinkhorn(scores, options=SinkhornOptions(0.1, 4, 0.0), prices=part.prices)
    assert_equal(rest.prices, whole.prices)


def test_blocks_change_nothing_but_rounding(xp, rng):
    """Rows that come a thousand times are in two blocks, and have the prices of one time."""
    scores = rng.normal(size=(37, 4))
    once, often = xp.asarray(scores), xp.asarray(np.tile(scores, (1_000, 1)))
    one, many = (sinkhorn(each, options=SWAV) for each in (once, often))
    assert_close(many.prices, one.prices, rtol=1e-9)
    np.testing.assert_array_equal(to_numpy(many.labels), np.tile(to_numpy(one.labels), 1_000))
    plans = [to_numpy(soft_plan(each, one.prices, epsilon=0.05)) for each in (once, often)]
    np.testing.assert_array_equal(plans[1][-37:], plans[1][:37])
    np.testing.assert_allclose(plans[1][:37] / plans[1].sum(), plans[0] / plans[0].sum() / 1_000)


def test_memory_does_not_grow_with_the_scores(rng):
    scores = rng.normal(size=(120_000, 50))

    def peak(call):
        tracemalloc.start()
        call()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(lambda: sinkhorn(scores, options=SWAV)) < scores.nbytes / 4
    prices = np.zeros(50)
    one_array = peak(lambda: soft_plan(scores, prices, epsilon=0.05))
    assert scores.nbytes <= one_array < 1.25 * scores.nbytes


def test_equal_scores_tie_to_the_lowest_index(xp):
    found = sinkhorn(xp.asarray(np.zeros((4, 3))))
    assert_equal(found.labels, xp.asarray(np.zeros(4, np.int64)))
    assert float(found.residual) < 1e-15
    assert found.n_iter == 0


def test_one_cluster_and_one_sample(xp):
    found = sinkhorn(xp.asarray(np.asarray([[3.0]])), options=SWAV)
    assert_equal(found.labels, xp.asarray(np.asarray([0])))
    assert float(found.residual) == 0.0


@pytest.mark.parametrize("epsilon", [1e-300, 1e-6, 1.0, 1e300])
@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_no_size_of_scores_or_of_epsilon_overflows(xp, epsilon, size):
    scores = xp.asarray(np.asarray([[size, -size, 0.0], [0.0, size, size], [1.0, 2.0, 3.0]]))
    for columns_first in (True, False):
        options = SinkhornOptions(epsilon, 20, 0.0, columns_first)
        found = sinkhorn(scores, options=options)
        plan = to_numpy(soft_plan(scores, found.prices, epsilon=epsilon))
        assert np.isfinite(to_numpy(found.prices)).all()
        assert math.isfinite(float(found.residual))
        np.testing.assert_allclose(plan.sum(axis=1), 1.0, rtol=1e-12)


def test_the_printed_exponentials_do_overflow():
    with np.errstate(all="ignore"):
        assert np.isnan(swav_plan(np.asarray([[40.0, 0.0], [0.0, 40.0]]), 0.05, 3)).any()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"scores": np.zeros((0, 2))}, InvalidValueError, "at least one row and one column"),
        ({"scores": np.zeros((2, 0))}, InvalidValueError, "at least one row and one column"),
        ({"scores": np.zeros(2)}, InvalidValueError, "scores must have shape"),
        ({"scores": np.zeros((2, 2), int)}, InvalidTypeError, "real floating"),
        ({"scores": [[0.0]]}, InvalidTypeError, "must be an array"),
        ({"shares": np.zeros(2)}, InvalidValueError, "shares must be positive"),
        ({"shares": np.asarray([np.nan, 1.0])}, InvalidValueError, "shares must be positive"),
        ({"shares": np.ones(3)}, InvalidValueError, "shares must have shape"),
        ({"prices": np.ones(3)}, InvalidValueError, "prices must have shape"),
        ({"prices": torch.zeros(2)}, DeviceMismatchError, "prices must be of the same"),
    ],
)
def test_refusals_say_what_and_why(change, error, text):
    assert_refused(error, text, sinkhorn, **{"scores": np.zeros((2, 2)), **change})


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0.0}, {"epsilon": 5e-324}, {"epsilon": math.nan}, {"max_iter": 0}, {"tol": -1.0}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidValueError, match=next(iter(options))):
        SinkhornOptions(**options)
