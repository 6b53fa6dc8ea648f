"""Moves and swaps that bring loads inside their bounds."""

import numpy as np

from dualclust.algos.offline.weighted._repair import repaired


def test_a_repair_swaps_where_no_move_helps():
    scores = np.asarray([[0.0, -1.0], [0.0, -1.0], [-1.0, 0.0]])
    sizes, labels = np.asarray([4.0, 3.0, 2.0]), np.asarray([0, 0, 1])
    least, most = np.asarray([6.0, 3.0]), np.asarray([6.0, 3.0])
    found = repaired(scores, sizes, labels, np.asarray([7.0, 2.0]), least, most)
    assert found.tolist() == [0, 1, 0]
    assert repaired(scores, sizes, labels, np.asarray([7.0, 2.0]), least - 0.5, most - 0.5) is None
    scores[1, 1] = scores[0, 1] = -np.inf
    assert repaired(scores, sizes, labels, np.asarray([7.0, 2.0]), least, most) is None


def test_a_repair_fills_what_lacks():
    scores = np.asarray([[0.0, -1.0], [0.0, -3.0], [-1.0, 0.0]])
    sizes, labels = np.asarray([2.0, 2.0, 2.0]), np.asarray([0, 0, 1])
    loads, least, most = np.asarray([4.0, 2.0]), np.asarray([0.0, 3.0]), np.asarray([9.0, 9.0])
    assert repaired(scores, sizes, labels, loads, least, most).tolist() == [1, 0, 1]


def test_a_repair_begins_elsewhere_where_the_worst_cluster_is_stuck():
    no = -np.inf
    scores = np.asarray([[0.0, no, no], [0.0, -1.0, no], [no, 0.0, -1.0]])
    sizes, labels = np.asarray([2.0, 4.0, 6.0]), np.asarray([0, 0, 1])
    most = np.asarray([3.0, 5.0, 9.0])
    # The second row may leave only for the cluster that the third one has overfilled.
    found = repaired(scores, sizes, labels, np.asarray([6.0, 6.0, 0.0]), 0.0 * most, most)
    assert found.tolist() == [0, 1, 2]
