"""The linear probe standardizes its features, and holds the same share of each class out."""

import numpy as np
import pytest
import torch

from dualclust.train.loop.metrics import logistic_probe


def test_a_feature_counts_whatever_its_unit(rng):
    """The penalty of the regression would shut a feature of small unit out."""
    member = np.arange(80) % 2
    telling = 1e-4 * (2.0 * member - 1.0 + 0.1 * rng.normal(size=80))
    x = np.column_stack([telling, rng.normal(size=(80, 3))])
    features, classes = torch.from_numpy(x), torch.from_numpy(member)
    assert logistic_probe(features, classes, seed=0) == 1.0
    assert logistic_probe(features[:40], classes[:40], seed=0, test=(features, classes)) >= 0.95


@pytest.mark.parametrize("seed", range(6))
def test_each_class_is_held_out_by_its_share(seed):
    """Features say nothing, so that all get the frequent class: 1 in 20 is wrong in any split."""
    classes = torch.from_numpy(np.repeat([0, 1], [95, 5]))
    assert logistic_probe(torch.ones(100, 2), classes, seed=seed) == pytest.approx(0.95)
