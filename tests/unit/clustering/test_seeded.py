"""Where clusters with fixed rows start: at the mean of these, and the others away from them."""

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.seeded import fixed_means, seeded_centers
from dualclust.algos.clustering.start import kmeans_plus_plus, start_centers
from dualclust.algos.core.errors import DeviceMismatchError, InvalidValueError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import feature_source
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.problems import unit_rows
from tests.refusals import message_of


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_known_clusters_start_at_the_means_of_their_rows(xp, rng, metric, weighted):
    x, k = rng.normal(size=(60, 4)), 5
    x = unit_rows(x) if metric == "cosine" else 3.0 * x + 7.0
    weights = rng.uniform(0.1, 4.0, size=60) if weighted else None
    fixed = np.full(60, -1)
    fixed[:12] = [0, 3, 3, 0, 0, 3, 3, 3, 0, 3, 0, 4]
    given = None if weights is None else xp.asarray(weights)
    options = {"fixed": xp.asarray(fixed), "metric": metric, "weights": given}
    source = feature_source(xp.asarray(x))
    means, known = fixed_means(source, k, **options)
    assert to_numpy(known).tolist() == [True, False, False, True, True]
    own = np.ones(60) if weights is None else weights
    want = np.zeros((k, 4))
    for j in (0, 3, 4):
        want[j] = np.average(x[fixed == j], axis=0, weights=own[fixed == j])
        want[j] /= np.linalg.norm(want[j]) if metric == "cosine" else 1.0
    np.testing.assert_allclose(to_numpy(means), want, atol=1e-10)
    found = to_numpy(seeded_centers(source, k, seed=3, **options))
    np.testing.assert_array_equal(found[[0, 3, 4]], to_numpy(means)[[0, 3, 4]])
    free = x[fixed < 0]
    for j in (1, 2):  # free rows, and not twice the same
        assert (np.abs(free - found[j]).max(axis=1) < 1e-15).sum() == 1
    assert (found[1] != found[2]).any()


def test_other_clusters_start_far_from_the_known_ones(xp):
    """Three groups of rows; two are known, so the third center is in the third group."""
    x = np.asarray([0.0, 0.1, 0.2, 50.0, 50.1, 50.2, 90.0, 90.1])[:, None]
    fixed = xp.asarray([-1, 2, -1, -1, 0, -1, -1, -1])
    source = feature_source(xp.asarray(x))
    for seed in range(5):
        found = seeded_centers(source, 3, fixed=fixed, seed=seed, metric="euclidean")
        found = to_numpy(found)[:, 0]
        assert (found[0], found[2]) == (50.1, 0.1)
        assert found[1] >= 90.0


def test_free_rows_are_drawn_by_their_weights(xp):
    """The farthest row has no weight, and the next one nearly all of it."""
    x = np.asarray([0.0, 30.0, 40.0, 90.0])[:, None]
    fixed = xp.asarray([0, -1, -1, -1])
    weights = xp.asarray([1.0, 1e-9, 1e9, 0.0])
    options = {"fixed": fixed, "metric": "euclidean", "weights": weights}
    for seed in range(5):
        found = seeded_centers(feature_source(xp.asarray(x)), 2, seed=seed, **options)
        assert to_numpy(found)[:, 0].tolist() == [0.0, 40.0]


def test_no_other_cluster_starts_at_a_fixed_row(xp):
    """The rows farthest from the mean of cluster 0 are its own."""
    x = np.asarray([0.0, 100.0, 50.1, 49.5, 50.0])[:, None]
    fixed = xp.asarray([0, 0, -1, -1, -1])
    source = feature_source(xp.asarray(x))
    for seed in range(5):
        found = seeded_centers(source, 2, fixed=fixed, seed=seed, metric="euclidean")
        assert to_numpy(found)[0, 0] == 50.0
        assert to_numpy(found)[1, 0] in (50.1, 49.5)


def test_without_fixed_rows_it_is_k_means_plus_plus(xp, rng):
    source = feature_source(xp.asarray(rng.normal(size=(40, 3))))
    want = start_centers(source, 4, seed=1, metric="euclidean")
    free = xp.asarray(np.full(40, -1))
    for fixed in (None, free):
        found = seeded_centers(source, 4, fixed=fixed, seed=1, metric="euclidean")
        assert_equal(found, want)


def test_rows_without_weight_or_direction_say_nothing(xp):
    x = np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    source = feature_source(xp.asarray(x))
    known = fixed_means(source, 3, fixed=xp.asarray([0, 0, 1, -1]), metric="cosine")[1]
    assert to_numpy(known).tolist() == [False, True, False]
    weights = xp.asarray([0.0, 0.0, 1.0, 1.0])
    known = fixed_means(
        source, 3, fixed=xp.asarray([0, 0, 1, -1]), metric="euclidean", weights=weights
    )[1]
    assert to_numpy(known).tolist() == [False, True, False]


def test_all_rows_fixed_and_all_clusters_known(xp):
    x = np.asarray([[0.0], [2.0], [8.0]])
    source = feature_source(xp.asarray(x))
    fixed = xp.asarray([0, 0, 1])
    found = seeded_centers(source, 2, fixed=fixed, seed=0, metric="euclidean")
    assert to_numpy(found)[:, 0].tolist() == [1.0, 8.0]
    found = seeded_centers(source, 3, fixed=fixed, seed=0, metric="euclidean")
    assert to_numpy(found)[2, 0] in (0.0, 2.0, 8.0)  # of fixed rows, since there are no others


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_starts_are_of_the_dtype_of_the_rows(xp, dtype):
    """A third in the dtype of the rows, known or drawn; a row of float64 keeps its digits."""
    x = np.asarray([[1.0], [1.0], [4.0], [9.0], [16.0], [25.0]]) / 3.0
    source, fixed = feature_source(xp.asarray(x, dtype)), xp.asarray([0, 0, 1, -1, -1, -1])
    for k in (2, 3):
        found = seeded_centers(source, k, fixed=fixed, seed=0, metric="euclidean")
        assert_same_kind(found, xp.asarray(np.zeros((k, 1)), dtype))
        assert_equal(found[:2, :], xp.asarray(np.asarray([[1.0], [4.0]]) / 3.0, dtype))


def test_ranks_start_at_the_same_centers():
    from tests.unit.clustering.test_kmeans_sources import on_ranks

    rng = np.random.default_rng(0)
    n = MOST_ROWS + 100
    x = rng.normal(size=(n, 3)).astype(np.float32)
    fixed = np.where(np.arange(n) % 7 == 0, np.arange(n) % 4, -1)

    def work(source):
        return seeded_centers(source, 6, fixed=fixed, seed=2, metric="euclidean")

    want = work(feature_source(x))
    results, errors = on_ranks(x, [0, MOST_ROWS, n], work)
    assert errors == [None, None]
    assert [found.tobytes() for found in results] == [want.tobytes()] * 2


def test_centers_that_are_given_are_kept_away_from(xp):
    """With one draw at the end of the running sum, the last row that is not at a given center."""
    x = xp.asarray(np.asarray([[0.0], [5.0], [0.0]]))
    uniforms = xp.asarray([0.999])
    assert to_numpy(kmeans_plus_plus(x, uniforms))[0, 0] == 0.0
    found = kmeans_plus_plus(x, uniforms, given=xp.asarray([[0.0]]))
    assert to_numpy(found)[0, 0] == 5.0
    found = kmeans_plus_plus(x, uniforms, given=xp.asarray([[0.0], [5.0]]))
    assert to_numpy(found)[0, 0] == 0.0  # all rows are at a center: drawn like the first


def test_wrong_labels_of_fixed_rows_are_named(xp):
    source = feature_source(xp.asarray(np.eye(3)))
    text = message_of(
        InvalidValueError,
        seeded_centers,
        source,
        2,
        fixed=xp.asarray([0, 1, 2]),
        seed=0,
        metric="cosine",
    )
    assert text == (
        "fixed must hold clusters from 0 to 1, or -1 for a free row, got values from 0 to 2. "
        "To fix this, number rows and clusters from 0"
    )


def test_labels_and_weights_of_another_library_than_the_features_are_named():
    source, fixed = feature_source(np.eye(3)), torch.asarray([0, 1, -1])
    for call, options in ((fixed_means, {}), (seeded_centers, {"seed": 0})):
        text = message_of(
            DeviceMismatchError, call, source, 2, fixed=fixed, metric="euclidean", **options
        )
        assert text.startswith("fixed must be of the same array library as features, got torch")
        options = options | {"fixed": np.asarray([0, 1, -1]), "weights": torch.ones(3)}
        text = message_of(DeviceMismatchError, call, source, 2, metric="euclidean", **options)
        assert text.startswith("weights must be of the same array library as features, got torch")
