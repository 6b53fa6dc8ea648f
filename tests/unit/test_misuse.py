"""Misuse that once gave a silent wrong answer."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.baselines.sinkhorn_transport import sinkhorn
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.centers import init_sums, merge_sums
from dualclust.algos.clustering.constrained import kmeans_plus_plus
from dualclust.algos.clustering.hardness_weighted import hardness_centers
from dualclust.algos.core.checks import check_interval, check_kind, shown
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign
from dualclust.algos.online.certificates import violation
from dualclust.algos.online.duals import DualRule, assign_batch, init_duals
from tests.refusals import message_of


def test_a_pass_cannot_change_its_bounds_to_what_it_cannot_keep(rng) -> None:
    scores = rng.normal(size=(200, 5))
    loose = SizeBounds.from_ratios(5, n_samples=200, lower=0.9)
    tight = SizeBounds.from_counts([1] * 5, [200] * 4 + [1], n_samples=200)
    state = assign(scores[:100], loose).state
    with pytest.raises(InvalidValueError, match="from a pass under the same bounds"):
        assign(scores[100:], tight, state)


def test_sizes_of_a_stream_have_no_violation() -> None:
    with pytest.raises(InvalidValueError, match="known number of samples"):
        violation(np.asarray([1000, 0]), SizeBounds.for_stream(2, lower=0.9, upper=1.1))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_sinkhorn_refuses_what_it_would_run_on_for_1000_iterations(rng, bad) -> None:
    scores, prices = rng.normal(size=(20, 3)), np.zeros(3)
    scores[7, 2] = prices[1] = bad
    with pytest.raises(InvalidValueError, match=r"scores must be finite, got .* at index \(7, 2\)"):
        sinkhorn(scores)
    with pytest.raises(InvalidValueError, match=r"prices must be finite, got .* at index \(1,\)"):
        sinkhorn(np.ones((20, 3)), prices=prices)


def test_numbers_beyond_any_float_are_refused() -> None:
    for value in (10**400, -(10**400), Fraction(10**400)):
        with pytest.raises(InvalidValueError, match=r"tolerance must lie in \[0, 1\]"):
            check_interval("tolerance", value, 0.0, 1.0)
        with pytest.raises(InvalidValueError, match=r"scale must lie in"):
            check_interval("scale", value, 0.0, math.inf)


def test_messages_are_short_and_on_one_line() -> None:
    for value in (np.ones((50, 50)), ["x" * 20] * 99, {"a": "\n" * 500}):
        text = message_of(
            InvalidTypeError, check_kind, "bounds", value, SizeBounds, "build it by from_ratios"
        )
        assert text == (
            f"bounds must be a SizeBounds, got {shown(value)} ({type(value).__name__}). "
            f"To fix this, build it by from_ratios"
        )
        assert len(text) < 200


@pytest.mark.parametrize(
    "scores", [[0.0, 1.0], np.zeros(3), np.float64(1.0), np.zeros((2, 3), int)]
)
def test_a_batch_needs_rows_of_real_scores(scores) -> None:
    duals, share = init_duals((3,), xp=np), np.full(3, 1 / 3)
    rule = {"lower_share": share, "upper_share": share, "step_size": 0.1, "chunk_size": 2}
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"^scores must"):
        assign_batch(scores, duals, DualRule(**rule))


def test_tensors_without_values_or_with_few_are_named() -> None:
    torch = pytest.importorskip("torch")
    sparse, meta = torch.eye(3).to_sparse(), torch.ones((3, 3), device="meta")
    bounds = SizeBounds.from_ratios(3, n_samples=3, xp=torch)
    with pytest.raises(InvalidTypeError, match=r"scores must be a dense tensor, .*to_dense\(\)"):
        assign(sparse, bounds)
    with pytest.raises(InvalidTypeError, match="scores must have values, got a tensor on the dev"):
        assign(meta, bounds)


def test_sums_of_other_shapes_do_not_broadcast() -> None:
    with pytest.raises(InvalidValueError, match=r"second\.sums must have shape"):
        merge_sums(init_sums(3, 2, xp=np), init_sums(1, 2, xp=np))


@pytest.mark.parametrize("draws", [[0.5, 1.0], [-0.1, 0.5], [0.5, math.nan]])
def test_draws_outside_the_unit_interval(rng, draws) -> None:
    with pytest.raises(InvalidValueError, match="uniforms must lie in"):
        kmeans_plus_plus(rng.normal(size=(5, 2)), np.asarray(draws))


def test_a_row_that_is_not_finite_starts_no_cluster(rng) -> None:
    x = rng.normal(size=(5, 2))
    x[3, 1] = math.nan
    with pytest.raises(InvalidValueError, match=r"features must be finite, got nan at index"):
        kmeans_plus_plus(x, np.asarray([0.1, 0.2]))


def test_the_length_of_a_center_is_not_part_of_the_problem(rng) -> None:
    x = rng.normal(size=(30, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = np.arange(30) % 3
    unit = hardness_centers(x, labels, x[:3], temperature=0.5)
    # A power of two rounds nothing: the solver stops at a gap, and from a start that differs in its
    # last bit it may stop a step earlier.
    long = hardness_centers(x, labels, 4.0 * x[:3], temperature=0.5)
    np.testing.assert_array_equal(long.centers, unit.centers)
