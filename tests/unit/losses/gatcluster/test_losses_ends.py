"""GATCluster's losses where a logarithm ends, a block ends, and what dtype comes back."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.losses.gatcluster import relations, released, tasks
from dualclust.algos.losses.gatcluster.attention import (
    Gaussian,
    attended_features,
    attention_map,
    full_gaussian,
    isotropic_gaussian,
    released_gaussian,
)
from tests.compare import assert_same_kind, to_numpy
from tests.refusals import message_of


def test_the_logarithm_of_the_released_code_ends_at_minus_a_hundred(xp):
    p = np.asarray([1.0, 0.5, math.exp(-99.5), math.exp(-100.5), 0.0])
    found = to_numpy(released._log(xp.asarray(p)))
    np.testing.assert_allclose(found, [0.0, math.log(0.5), -99.5, -100.0, -100.0], rtol=1e-12)


def test_below_its_end_the_released_logarithm_has_no_gradient():
    p = torch.tensor([0.5, math.exp(-99.5), math.exp(-100.5), 0.0], dtype=torch.float64)
    p.requires_grad_()
    released._log(p).sum().backward()
    np.testing.assert_allclose(p.grad[:2].numpy(), [2.0, math.exp(99.5)], rtol=1e-12)
    assert p.grad[2:].tolist() == [0.0, 0.0]


def test_a_small_mean_is_overwritten_as_released(xp):
    """Below 1e-5, which then counts as 1e-5."""
    for small in (0.9e-5, 1e-5, 1.1e-5):
        rows = xp.asarray([[small, 1.0 - small]] * 3)
        used = max(small, 1e-5)
        expected = used * math.log(used) + (1.0 - small) * math.log1p(-small)
        assert float(released._entropy(rows)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_labels_end_where_float32_still_adds_them(xp, dtype):
    """A difference of scores beyond 1e30 counts as that: sums of millions are finite."""
    found = tasks._log_labels(xp.asarray([[0.0, -3e38], [0.0, -9e29]], dtype))
    np.testing.assert_allclose(to_numpy(found), [[0.0, -1e30], [0.0, -9e29]], rtol=1e-6)


@pytest.mark.parametrize(("n", "rows"), [(3000, 2**22 // 3000), (2**22, 1), (2**22 + 1, 1)])
def test_four_million_pairs_are_looked_at_a_time(monkeypatch, n, rows):
    """And one row at least; on tensors without values, which take no memory."""

    class FirstBlockError(Exception):
        """Enough has been seen."""

    def agreement(y, others, labels, other_labels, floor):
        assert others.shape[0] == other_labels.shape[0] == n
        assert labels.shape[0] == y.shape[0]
        raise FirstBlockError(y.shape[0])

    monkeypatch.setattr(relations, "_agreement", agreement)
    x, y = torch.empty(n, 2, device="meta"), torch.empty(n, dtype=torch.int64, device="meta")
    with pytest.raises(FirstBlockError, match=rf"^{rows}$"):
        relations.relation_gradient(x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_are_of_the_kind_of_the_outputs(xp, dtype):
    raw = xp.asarray(np.zeros((2, 5)), dtype)
    made = isotropic_gaussian(raw[:, :3]), released_gaussian(raw[:, :3]), full_gaussian(raw)
    for window in made:
        assert_same_kind(window.mean, raw[:, :2])
        assert_same_kind(window.variances, raw[:, :2])
        assert_same_kind(window.correlation, raw[:, 0])
        found = attention_map(window, (3, 1))
        assert_same_kind(found[:, 0, 0], raw[:, 0])
        assert_same_kind(attended_features(found[:, None, :, :], found)[:, 0], raw[:, 0])


def test_windows_at_the_ends_of_their_table(xp):
    """The largest size of a released window is above 1 by its least one; of the others, it is 1."""
    raw = xp.asarray([1e3, 1e3, 1e3])
    assert to_numpy(released_gaussian(raw, min_variance=0.25).variances).tolist() == [1.25] * 2
    assert to_numpy(isotropic_gaussian(raw, min_variance=0.25).variances).tolist() == [1.0] * 2
    least = xp.asarray([-1e3, -1e3, -1e3])
    for make in (released_gaussian, isotropic_gaussian):
        assert to_numpy(make(least, min_variance=0.25).variances).tolist() == [0.25] * 2
    single = Gaussian(xp.asarray([0.5, 0.5]), xp.asarray([1.0, 1.0]), xp.asarray(0.0))
    found = to_numpy(attention_map(single, (1, 2), alpha=1.0))
    np.testing.assert_allclose(found, np.exp([[-0.25, -0.25]]), rtol=1e-12)


def test_a_number_alone_is_no_window(xp):
    one = xp.asarray(0.5)
    for make in (isotropic_gaussian, released_gaussian, full_gaussian):
        told = message_of(InvalidValueError, make, one)
        assert told.startswith("raw must have shape (..., "), told
    told = message_of(InvalidValueError, attention_map, Gaussian(one, one, one), (2, 2))
    assert told.startswith("gaussian.mean must have shape (..., 2), got ()"), told


def test_a_cosine_that_rounding_puts_above_1_counts_as_1(xp):
    y, others = xp.asarray([[1.25, 0.0]]), xp.asarray([[1.0, 0.0], [1.0, 0.0], [-0.5, 0.0]])
    labels = xp.asarray([0]), xp.asarray([0, 1, 0])
    found = to_numpy(relations._agreement(y, others, *labels, 0.25))
    assert found.tolist() == [[0.75, 0.25, 0.25 - 0.5 * 0.625]]
