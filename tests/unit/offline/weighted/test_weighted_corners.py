"""The best corner in a box of prices, and without one."""

import numpy as np

from dualclust.algos.offline.weighted._corners import FreeRows, best_corner


def test_prices_stay_in_their_box_and_what_lacks_is_told():
    names, values = np.asarray([[0, 1], [0, 1]]), np.asarray([[1.0, 0.0], [1.0, 0.5]])
    ends = np.zeros(2), np.asarray([0.0, 2.0]), np.asarray([2.0, 2.0])
    free, zero = FreeRows(names, values, np.ones(2), *ends), np.zeros(2)
    inside = best_corner(free, zero, 9.0, (zero - 0.125, zero + 0.125))
    assert inside.is_stuck
    assert np.abs(inside.prices).max() <= 0.125
    assert inside.clusters.tolist() == [0, 0]
    found = best_corner(free, zero, 9.0, None)
    assert not found.is_stuck
    assert found.clusters.tolist() == [1, 1]
    assert found.prices[1] - found.prices[0] >= 1.0
