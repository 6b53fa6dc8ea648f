"""A time limit ends `fit` with sizes inside the bounds."""

import numpy as np
import pytest

from dualclust import ConstrainedKMeans, SpectralConstrainedKMeans, interruptible
from dualclust.algos.core.errors import InvalidValueError


def test_no_time_leaves_sizes_inside_the_bounds(rng):
    x = rng.normal(size=(6_000, 8)) + 3.0 * rng.normal(size=(20, 8))[rng.integers(20, size=6_000)]
    model = ConstrainedKMeans(20, lower=0.9, upper=1.1, n_init=3, random_state=0, time_limit=0)
    model.fit(x)
    assert model.n_iter_ == 0
    assert 270 <= model.counts_.min() <= model.counts_.max() <= 330
    assert 0.0 < model.gap_ < 1.0
    patient = ConstrainedKMeans(20, lower=0.9, upper=1.1, random_state=0, time_limit=1e6).fit(x)
    assert patient.gap_ <= 1e-4
    assert patient.inertia_ < model.inertia_
    with pytest.raises(InvalidValueError, match="time_limit"):
        ConstrainedKMeans(2, time_limit=-1.0).fit(x[:40])


def test_no_time_is_enough_for_sizes_and_starts_are_told(rng, capsys):
    x, sizes = rng.normal(size=(200, 2)), rng.integers(1, 9, 200)
    how = {"lower": 0.9, "upper": 1.1, "n_init": 3, "random_state": 0, "verbose": 1}
    model = ConstrainedKMeans(4, **how, time_limit=0).fit(x, sizes=sizes)
    assert (model.n_iter_, model.status_) == (0, "inside")
    assert capsys.readouterr().out.startswith("start 1: 0 updates, gap ")
    patient = ConstrainedKMeans(4, **how).fit(x, sizes=sizes)
    assert [line[:8] for line in capsys.readouterr().out.splitlines()] == [
        f"start {i}:" for i in (1, 2, 3)
    ]
    assert patient.inertia_ < model.inertia_


def test_labels_of_no_time_are_those_of_a_later_fit_that_starts_there(rng):
    """What a limit has left is a start like any other."""
    x = rng.normal(size=(6_000, 8))
    model = ConstrainedKMeans(20, lower=0.9, upper=1.1, random_state=0, time_limit=0).fit(x)
    more = ConstrainedKMeans(20, lower=0.9, upper=1.1, init=model.cluster_centers_).fit(x)
    assert more.inertia_ < model.inertia_
    assert np.bincount(more.labels_, minlength=20).tolist() == more.counts_.tolist()


def test_a_graph_comes_to_its_end_and_k_means_gets_what_is_left(rng):
    """Here nothing: the first start is labeled inside the bounds, and no other is drawn."""
    x = rng.normal(size=(2_400, 8)) + 2.0 * rng.normal(size=(12, 8))[rng.integers(12, size=2_400)]
    wanted = {"n_clusters": 12, "lower": 0.9, "upper": 1.1, "n_init": 3, "random_state": 0}
    model = SpectralConstrainedKMeans(**wanted, time_limit=0.0).fit(x)
    assert model.n_iter_ == 0
    assert 180 <= model.counts_.min() <= model.counts_.max() <= 220
    patient = SpectralConstrainedKMeans(**wanted).fit(x)
    np.testing.assert_array_equal(model.embedding_, patient.embedding_)
    assert patient.kmeans_.inertia_ < model.kmeans_.inertia_
    with interruptible() as limit:
        same = SpectralConstrainedKMeans(**wanted, time_limit=limit).fit(x)
    np.testing.assert_array_equal(same.labels_, patient.labels_)
    with pytest.raises(InvalidValueError, match="time_limit"):
        SpectralConstrainedKMeans(2, time_limit=-1.0).fit(x[:40])
