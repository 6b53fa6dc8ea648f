"""Certificates of batches in every array library: the figures of NumPy."""

import numpy as np
import pytest

from dualclust.algos.batches import certify_batch
from dualclust.algos.core.errors import DeviceMismatchError


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_library_certifies_the_same(xp, rng, dtype, epsilon):
    scores, plan = rng.normal(size=(6, 3)).astype(dtype), rng.dirichlet(np.ones(3), 6)
    scores[2] = -np.inf
    arrays = scores, plan, rng.normal(size=3), np.ones(3), np.full(3, 2.0)
    weights = rng.uniform(0.5, 2.0, size=6)
    expected = certify_batch(*arrays, epsilon=epsilon, weights=weights)
    found = certify_batch(*map(xp.asarray, arrays), epsilon=epsilon, weights=xp.asarray(weights))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["plan", "prices", "lower", "weights"])
def test_arrays_of_several_devices_are_refused(name):
    torch = pytest.importorskip("torch")
    given = {"scores": torch.zeros(3, 2), "plan": torch.zeros(3, 2), "prices": torch.zeros(2)}
    given |= {"lower": torch.zeros(2), "upper": torch.ones(2), "weights": torch.ones(3)}
    with pytest.raises(DeviceMismatchError, match=name):
        certify_batch(**(given | {name: given[name].to("meta")}))
