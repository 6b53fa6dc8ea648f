"""Margins and roundings of certificates, number by number, and what is read at a time."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import AssignmentState
from dualclust.algos.online.certificates import dual_value, margins, size_certificate
from dualclust.algos.online.duals import Duals
from tests.blocks_read import Watched
from tests.compare import to_numpy
from tests.refusals import assert_refused


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_margins_are_the_best_less_the_second(xp, rng, dtype):
    scores = rng.integers(-16, 17, size=(12, 4)) / 16.0
    prices = np.asarray([0.25, 0.0, -0.5, 1.0])
    found = margins(xp.asarray(scores, dtype), xp.asarray(prices))
    ordered = np.sort(scores + prices, axis=1)
    assert to_numpy(found).dtype == np.float64
    assert to_numpy(found).tolist() == (ordered[:, -1] - ordered[:, -2]).tolist()
    alone = margins(xp.asarray(scores[:, :1]), xp.asarray([3.0]))
    assert to_numpy(alone).tolist() == [math.inf] * 12
    none = to_numpy(margins(xp.asarray(scores[:0], dtype), xp.asarray(prices)))
    assert (none.shape, none.dtype) == ((0,), np.float64)


@pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
def test_a_bound_beyond_float64_is_infinite():
    """No number is made up for a sum that has none."""
    bounds = SizeBounds.from_counts([1, 1], n_samples=2)
    large = np.asarray([[1.5e308, 0.0], [0.0, 0.5]])
    assert dual_value(large, np.asarray([1.5e308, 0.0]), bounds) == math.inf
    nowhere = np.asarray([[-math.inf, -math.inf], [0.0, 0.5]])
    assert dual_value(nowhere, np.asarray([1.0, 0.0]), bounds) == -math.inf


def test_margins_refused(xp):
    scores, prices = xp.asarray(np.zeros((3, 2))), xp.asarray([0.0, 0.0])
    for error, words, *call in (
        (InvalidTypeError, "scores must have a real", xp.asarray([[1, 2]]), prices),
        (InvalidTypeError, "prices must have a real", scores, xp.asarray([0, 0])),
        (InvalidValueError, r"scores must have shape \(n, k\)", prices, prices),
        (InvalidValueError, r"prices must have shape \(2,\), got \(1,\)", scores, prices[:1]),
    ):
        assert_refused(error, words, margins, *call)
    if not xp.name.startswith("numpy"):
        assert_refused(DeviceMismatchError, "prices must be", margins, scores, np.zeros(2))


@pytest.mark.unjudged(reason="its state is made by hand")
def test_the_rounding_of_a_certificate_by_hand(xp):
    """Four operations a sample, of numbers up to the price at the start and h for each sample."""
    h, seen = 0.25, 5
    start = Duals(xp.asarray([0.0, 8.0]), xp.asarray([2.0, 0.0]))
    now = Duals(xp.asarray([0.0, 8.0]), xp.asarray([2.0, 0.0]))
    state = AssignmentState(now, start, xp.asarray([4, 1]), seen, h, False)
    bounds = SizeBounds.for_stream(
        2, lower=[0.5, 0.25], upper=[1.5, 1.0], xp=xp.namespace, device=xp.device
    )
    found = size_certificate(state, bounds)
    eps = 2.0**-52
    slack = 4.0 * eps * (seen + 1) * (1.0 + np.asarray([2.0, 8.0]) / h + seen)
    np.testing.assert_allclose(np.asarray([1.25, 0.625]) - to_numpy(found.at_least), slack, 2e-2)
    np.testing.assert_allclose(to_numpy(found.at_most) - np.asarray([3.75, 2.5]), slack, 2e-2)
    free = size_certificate(state._replace(free_sign=True), bounds)
    for side, sign in ((free.at_least, -1.0), (free.at_most, 1.0)):
        found = sign * (to_numpy(side) - np.asarray([1.25, 0.625]))
        np.testing.assert_allclose(found, slack, rtol=2e-2)
    higher = state._replace(duals=Duals(xp.asarray([5.0, 8.0]), now.upper))
    assert float(to_numpy(size_certificate(higher, bounds).at_least)[0]) == 0.0


@pytest.mark.parametrize(
    ("shape", "sizes"), [((2**12 + 1, 2**10), (2**12, 1)), ((2, 2**22 + 1), (1, 1))]
)
def test_four_million_scores_are_priced_at_a_time(shape, sizes):
    n, k = shape
    scores = np.broadcast_to(np.asarray(0.5), shape).view(Watched)
    prices, none = np.zeros(k), np.zeros(k, np.int64)
    Watched.seen = ()
    assert dual_value(scores, prices, SizeBounds(prices, prices + 1, none, none + n, n)) == 0.5 * n
    assert Watched.seen == sizes
