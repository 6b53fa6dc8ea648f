"""The rounding of shares: slots of one row each."""

from dualclust.algos.offline.weighted._program import Shared, rounded


def test_shared_rows_take_slots_in_the_order_of_their_sizes():
    """Two rows of shares that add up to one and a half: a full slot has one, an open one may."""
    rows = [
        Shared(0, 5.0, [0, 1], [0.5, 0.5], [1.0, 0.0]),
        Shared(1, 3.0, [0, 1], [0.5, 0.5], [1.0, 0.0]),
        Shared(2, 1.0, [0, 1], [0.5, 0.5], [1.0, 0.0]),
    ]
    chosen = rounded(rows)
    assert chosen.count(0) == 2  # worth as much as the shares: 1.5, rounded up
    assert chosen[2] == 0 or chosen[0] != chosen[1]  # the first slot of each has one of two
    assert rounded([]) == []
