"""The estimator for rows that have sizes."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError


@pytest.fixture(name="stops", scope="module")
def stops_and_demand():
    rng = np.random.default_rng(0)
    return rng.random((60, 2)), rng.integers(1, 9, 60)


def test_loads_by_shares_and_by_numbers(stops):
    x, demand = stops
    mean = demand.sum() / 4
    most = int(1.2 * mean)
    model = ConstrainedKMeans(4, lower=0.8, max_count=most, random_state=0)
    model.fit(x, sizes=demand)
    assert model.status_ == "inside"
    np.testing.assert_array_equal(model.loads_, np.bincount(model.labels_, demand, minlength=4))
    assert (model.loads_ >= 0.8 * mean).all()
    assert (model.loads_ <= most).all()
    np.testing.assert_array_equal(model.counts_, np.bincount(model.labels_))
    apart = ((x - model.cluster_centers_[model.labels_]) ** 2).sum()
    assert model.inertia_ == pytest.approx(apart)
    again = model.predict(x, sizes=demand)
    assert (again != model.labels_).sum() <= 8  # those that the program shares, or a repair moved
    bounded = model.predict(x, sizes=demand, bounded=True)
    assert (np.bincount(bounded, demand, minlength=4) <= most).all()
    more = ConstrainedKMeans(4, lower=0.8, max_count=most, n_init=3, random_state=0)
    assert more.fit(x, sizes=demand).inertia_ <= model.inertia_
    assert not hasattr(model.fit(x[:40]), "loads_")


def test_sizes_of_tensors_are_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(8.0)[:, None]
    model = ConstrainedKMeans(2, max_count=6, random_state=0).fit(x, sizes=torch.ones(8) + 0.5)
    assert isinstance(model.loads_, torch.Tensor)
    assert model.loads_.tolist() == [6.0, 6.0]


def test_what_is_refused(stops):
    x, demand = stops
    model = ConstrainedKMeans(4, random_state=0)
    for call, words in (
        (lambda: model.fit(x, sizes=demand[:9]), "one number for each of the 60 rows"),
        (lambda: model.fit(x, sizes=-demand), "at least 0"),
        (lambda: model.fit(x, sizes=demand, sample_weight=demand), "not go with sample_weight"),
        (lambda: model.fit(x, sizes=demand, forbidden=[[0, 1]]), "not go with forbidden"),
        (lambda: model.fit(csr_array(x), sizes=demand), "not go with sparse rows"),
        (lambda: ConstrainedKMeans(4, upper=2, max_count=9).fit(x, sizes=demand), "both bound"),
        (lambda: model.fit(x).predict(x, sizes=demand), "must be left out as in fit"),
        (lambda: model.fit(x, sizes=demand).predict(x), "must be given as in fit"),
    ):
        with pytest.raises(InvalidValueError, match=words):
            call()
    with pytest.raises(InfeasibleBoundsError, match="less than all sizes"):
        ConstrainedKMeans(4, max_count=9).fit(x, sizes=demand)
