"""Vectors beside lists on a device: on the host where an engine sums up the lists, else nowhere."""

import numpy as np
import pytest

from dualclust.algos.offline._near_host import (
    DEVICE_DENSE,
    VECTORS,
    beside,
    eliminate,
    is_dense,
    near_host,
)
from dualclust.algos.offline._smoothed_dual import SmoothedDual, refine_prices
from dualclust.backends import engine
from tests.backends.test_augmenting_paths import candidates_of

torch = pytest.importorskip("torch")
from tests.second_device import DEVICE, is_second  # noqa: E402


def problem(place=lambda array: array, n=300, k=6):
    """Rows of which the first cluster is wanted by most."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, k))
    scores[:, 0] += 1.0
    values, clusters = candidates_of(scores, 6, rng)
    even, box = np.full(k, n / k), np.full(k, 4.0)
    vectors = np.zeros(k), 0.9 * even, 1.1 * even, -box, box
    return SmoothedDual(*map(place, (values, clusters, *vectors)))


def on_device(array):
    return torch.from_numpy(array).to(DEVICE)


def test_on_the_host_nothing_moves():
    given = problem()
    assert near_host(given) is given
    vectors = given.lower, given.upper
    assert beside(given.values, *vectors) == vectors


def test_vectors_of_a_device_come_in_one_copy_and_go_back_in_one(transfers):
    given = problem(on_device)
    transfers.clear()
    found = near_host(given)
    assert transfers.reads.total() == 1
    assert is_second(found.values)
    assert is_second(found.clusters)
    for name in VECTORS:
        here = getattr(found, name)
        assert not is_second(here)
        assert torch.equal(here, getattr(given, name).cpu())
    there = beside(given.values, found.low, found.high)
    assert transfers.uploads.total() == 1
    assert all(map(is_second, there))
    assert torch.equal(there[1].cpu(), found.high)


def test_a_device_eliminates_more_than_the_host():
    like = on_device(np.zeros(1))
    assert [is_dense(DEVICE_DENSE + i, like=like) for i in (0, 1)] == [True, False]


def test_vectors_stay_where_no_engine_is_or_bounds_are_a_tree(transfers):
    given = problem(on_device)
    with engine("reference"):
        assert near_host(given) is given
    tree = given._replace(tree=torch.zeros(6, 6, dtype=torch.float64).to(DEVICE))
    assert near_host(tree) is tree


@pytest.mark.parametrize("k", [6, DEVICE_DENSE + 1])
def test_prices_are_those_of_the_host_and_come_back_to_the_device(k, transfers):
    given, start = {"start": 0.5, "fractional": 10.0}, torch.zeros(k, dtype=torch.float64)
    here = refine_prices(problem(torch.from_numpy, k=k), start, **given)
    there = refine_prices(problem(on_device, k=k), start.to(DEVICE), **given)
    assert is_second(there.prices)
    assert there.temperature == here.temperature
    torch.testing.assert_close(there.prices.cpu(), here.prices, rtol=1e-6, atol=1e-9)


def test_a_system_on_a_device_is_solved_for_vectors_of_the_host_in_two_copies(transfers):
    matrix = torch.diag(torch.arange(1.0, 6.0, dtype=torch.float64)).to(DEVICE)
    free, more, side = torch.ones(3, 5, dtype=torch.float64)
    free[2] = 0.0
    transfers.clear()
    found = eliminate(matrix, free, more, side)
    assert (transfers.uploads.total(), transfers.reads.total()) == (1, 1)
    assert found.tolist() == [1 / 2, 1 / 3, 1.0, 1 / 5, 1 / 6]
    there = eliminate(matrix, *(vector.to(DEVICE) for vector in (free, more, side)))
    assert is_second(there)
    assert torch.equal(there.cpu(), found)
