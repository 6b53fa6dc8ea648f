"""k-means from several starts where a tie, a width or rounding decides."""

import numpy as np
import pytest

from dualclust.algos.losses.gatcluster import grouping
from dualclust.algos.losses.gatcluster.grouping import grouped_labels

X = np.asarray([[-1.0], [1.0]])


@pytest.mark.parametrize(("ahead", "winner"), [(0.75, 0), (1.0, 0), (1.25, 1), (-1.25, 0)])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_starts_within_a_part_of_all_squares_tie(monkeypatch, ahead, winner, offset):
    """Sums that differ by less than 2^-30 of all squared lengths, 2 here: the first wins."""
    second = offset + ahead * 2.0 * 2.0**-30

    def ended(given, centers, max_iter, read_back):
        return np.asarray([[0, 0], [1, 1]]), np.asarray([offset, second])

    monkeypatch.setattr(grouping, "_lloyd", ended)
    assert grouped_labels(X, np.full((2, 1, 1), 0.5)).tolist() == [winner] * 2


@pytest.mark.parametrize(("nearer", "chosen"), [(2.4, 0), (2.6, 1)])
def test_candidates_within_a_part_of_all_squares_tie(nearer, chosen):
    """The second center: either far row leaves the other's square, which differ by 2 e.

    All squared lengths, and the largest of them once for each row, are 2 + 3 = 5.
    """
    far = 1.0 + nearer * 2.0**-30
    rows = np.asarray([[0.0], [1.0], [-far]])
    given = grouping._Rows(rows, (rows**2)[:, 0], np.asarray(0.0))
    draws = np.asarray([[[0.0, 0.0], [0.1, 0.9]]])
    centers = grouping._drawn(given, draws)
    assert centers[0, :, 0].tolist() == [0.0, [1.0, -far][chosen]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_four_roundings_of_the_largest_entry_along_each_axis(xp, dtype):
    x = np.asarray([[0.0, 2.0, -8.0], [1.0, 0.0, 0.0], [2.0, 4.0, 5.0]])
    given = grouping._about_mean(xp.asarray(x, dtype))
    step = 4.0 * np.finfo(dtype).eps * 8.0
    assert float(given.noise) == pytest.approx(3.0 * step**2, rel=1e-12)


@pytest.mark.parametrize("read_back", [True, False])
@pytest.mark.parametrize(("away", "moves"), [(0.9, False), (1.0, False), (1.1, True)])
def test_a_cluster_without_rows_takes_none_that_only_rounding_moves(away, moves, read_back):
    step = 0.25
    rows = np.asarray([[0.0], [2.0 * away * step], [1.0]])  # the first two are in one cluster
    given = grouping._Rows(rows, (rows**2)[:, 0], np.asarray(step**2))
    centers = np.asarray([[[0.0], [0.5], [1.0]]])
    labels = np.asarray([[0, 0, 2]])
    found = grouping._updated(given, labels, centers, read_back)[0, :, 0]
    assert found[[0, 2]].tolist() == pytest.approx([away * step, 1.0])
    assert found[1] == pytest.approx(0.0 if moves else 0.5)


def test_several_clusters_without_rows_take_the_farthest_ones_in_turn():
    rows = np.asarray([[0.0], [1.0], [4.0], [10.0]])
    given = grouping._Rows(rows, (rows**2)[:, 0], np.asarray(0.0))
    centers = np.asarray([[[3.0], [-9.0], [-9.0], [-9.0]]] * 2)
    centers[1] = centers[1][::-1]
    labels = np.asarray([[0] * 4, [3] * 4])
    found = grouping._updated(given, labels, centers, False)
    # From the mean 3.75: 6.25, 3.75, 2.75 and 0.25.
    assert found[0, :, 0].tolist() == [3.75, 10.0, 0.0, 1.0]
    assert found[1, :, 0].tolist() == [10.0, 0.0, 1.0, 3.75]
