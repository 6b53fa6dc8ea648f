"""k-means from several starts at once against plain loops, one start and one row at a time."""

import numpy as np
import pytest

from dualclust.algos.clustering.constrained import kmeans_plus_plus
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.gatcluster import grouping
from dualclust.algos.losses.gatcluster.grouping import grouped_labels
from tests.compare import assert_equal


def loop_lloyd(x, centers, rounds=100):
    """Labels and sum of squares after Lloyd's algorithm from given centers."""
    labels = None
    for _ in range(rounds + 1):
        apart = ((x[:, None] - centers) ** 2).sum(axis=2)
        before, labels = labels, apart.argmin(axis=1)
        if before is not None and (labels == before).all():
            break
        centers, far = centers.copy(), None
        for j in range(len(centers)):
            if (labels == j).any():
                centers[j] = x[labels == j].mean(axis=0)
        far = ((x - centers[labels]) ** 2).sum(axis=1)
        order = np.argsort(-far, kind="stable")
        for turn, j in enumerate(sorted(set(range(len(centers))) - set(labels.tolist()))):
            if far[order[turn]] > 1e-20:
                centers[j] = x[order[turn]]
    return labels, apart.min(axis=1).sum()


def loop_labels(x, uniforms):
    found = [loop_lloyd(x, kmeans_plus_plus(x, own)) for own in uniforms]
    least = min(value for _, value in found)
    return next(labels for labels, value in found if value <= least + 1e-9 * (x**2).sum())


def clouds(rng, n, k, d, noise=0.3):
    return 3 * rng.normal(size=(k, d))[np.arange(n) % k] + noise * rng.normal(size=(n, d))


def draws(rng, starts, k, tries):
    return rng.uniform(size=(starts, k, tries))


CASES = [(60, 6, 4, 3, 2, 2.0), (40, 3, 2, 4, 3, 0.3), (25, 5, 1, 2, 1, 1.0), (9, 9, 3, 2, 2, 1.0)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read_back", [True, False])
def test_labels_are_those_of_plain_loops(rng, case, read_back):
    n, k, d, starts, tries, noise = case
    x, u = clouds(rng, n, k, d, noise), draws(rng, starts, k, tries)
    assert_equal(grouped_labels(x, u, read_back=read_back), loop_labels(x, u))


@pytest.mark.parametrize("read_back", [True, False])
def test_labels_are_the_same_on_every_library(xp, rng, read_back):
    x, u = clouds(rng, 20, 3, 2, 1.5), draws(rng, 2, 3, 2)
    found = grouped_labels(xp.asarray(x), xp.asarray(u), max_iter=20, read_back=read_back)
    assert_equal(found, xp.asarray(loop_labels(x, u)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fixed_number_of_rounds_ends_where_stopping_does(rng, dtype):
    x, u = clouds(rng, 50, 4, 3, 1.0).astype(dtype), draws(rng, 3, 4, 3)
    assert_equal(
        grouped_labels(x, u, max_iter=30, read_back=False), grouped_labels(x, u, max_iter=30)
    )


def test_starts_in_several_groups_are_one(rng, monkeypatch):
    x, u = clouds(rng, 50, 4, 3, 2.0), draws(rng, 5, 4, 2)
    expected = grouped_labels(x, u)
    monkeypatch.setattr(grouping, "ENTRIES", 2 * 50 * 4)
    assert_equal(grouped_labels(x, u), expected)


def test_the_best_start_wins(rng):
    """The first start alone ends in a worse optimum than all together."""
    x = clouds(rng, 60, 6, 2, 0.1)
    u = draws(np.random.default_rng(8), 40, 6, 1)
    values = [loop_lloyd(x, kmeans_plus_plus(x, own))[1] for own in u]
    worst = int(np.argmax(values))
    assert values[worst] > 2 * min(values)
    order = [worst, *(i for i in range(40) if i != worst)]
    labels = grouped_labels(x, u[order])
    means = np.stack([x[labels == j].mean(axis=0) for j in range(6)])
    assert ((x - means[labels]) ** 2).sum() == pytest.approx(min(values))


def test_starts_that_end_alike_leave_the_first(rng):
    x, u = clouds(rng, 40, 4, 2, 0.05), draws(rng, 6, 4, 8)
    alone = [grouped_labels(x, u[i : i + 1]) for i in range(6)]
    same = [np.array_equal(a[:, None] == a, alone[0][:, None] == alone[0]) for a in alone]
    assert all(same)
    assert len({a.tobytes() for a in alone}) > 1  # numbered in other ways
    assert_equal(grouped_labels(x, u), alone[0])


@pytest.mark.parametrize("read_back", [True, False])
def test_an_empty_cluster_takes_the_farthest_row(read_back):
    """Two centers on one place: the second has no row, and takes the one that lies far out."""
    x = np.asarray([[0.0], [0.0], [1.0], [5.0]])
    given = grouping._about_mean(x)
    centers = np.asarray([[[0.0], [0.0], [3.0]]]) - x.mean()
    labels, _ = grouping._nearest(given, centers)
    assert labels.tolist() == [[0, 0, 0, 2]]
    moved = grouping._updated(given, labels, centers, read_back)
    np.testing.assert_allclose(moved[0, :, 0] + x.mean(), [1 / 3, 1.0, 5.0], atol=1e-12)
    labels, _ = grouping._lloyd(given, centers, 9, read_back)
    assert labels.tolist() == [[0, 0, 1, 2]]


@pytest.mark.parametrize("read_back", [True, False])
def test_rows_that_are_all_alike_leave_clusters_empty(read_back):
    x, u = np.full((6, 2), 0.1), np.full((2, 3, 2), 0.3)
    found = grouped_labels(x, u, max_iter=5, read_back=read_back)
    assert len(set(found.tolist())) == 1


def test_no_update_labels_for_the_starts(rng):
    x, u = clouds(rng, 30, 3, 2, 2.0), draws(rng, 1, 3, 2)
    starts = kmeans_plus_plus(x, u[0])
    expected = ((x[:, None] - starts) ** 2).sum(axis=2).argmin(axis=1)
    assert grouped_labels(x, u, max_iter=0).tolist() == expected.tolist()


def test_rows_that_are_not_finite():
    x, u = np.asarray([[0.0], [np.nan], [1.0]]), np.full((1, 2, 1), 0.5)
    with pytest.raises(InvalidValueError, match="features must be finite"):
        grouped_labels(x, u)
    found = grouped_labels(x, u, max_iter=3, read_back=False)
    assert set(found.tolist()) <= {0, 1}


def test_misuse_is_named(xp):
    x, u = xp.asarray(np.zeros((3, 2))), xp.asarray(np.zeros((1, 4, 2)))
    with pytest.raises(InvalidValueError, match="at least one row per center"):
        grouped_labels(x, u)
    with pytest.raises(InvalidValueError, match="at least one start"):
        grouped_labels(x, xp.asarray(np.zeros((0, 2, 2))))
    with pytest.raises(InvalidTypeError, match="features must have a real floating dtype"):
        grouped_labels(xp.asarray(np.zeros((3, 2), dtype=np.int64)), u)
