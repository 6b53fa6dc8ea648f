"""Agreement of labels with classes, and k-means on pixels to compare with."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.data.samples import image_data
from dualclust.train.loop.metrics import Agreement, evaluate, kmeans_on_pixels


def blocks(n=60, classes=3, labels=True):
    """Images that are plainly of one of a few kinds."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, size=(classes, 5, 5))
    member = np.arange(n) % classes
    images = np.clip(kinds[member] + rng.normal(size=(n, 5, 5)) * 4, 0, 255).astype(np.uint8)
    return image_data(images, member if labels else None)


def test_figures_are_acc_arithmetic_nmi_and_ari(rng):
    data = blocks()
    labels = torch.from_numpy(rng.integers(0, 5, size=60))
    expected = clustering_scores(labels, data.labels)
    found = evaluate(labels, data)
    assert found == Agreement(
        expected.acc, expected.nmi, expected.ari, expected.nmi_geometric, expected.ami
    )


def test_perfect_labels_under_other_names():
    data = blocks()
    assert evaluate((data.labels + 1) % 3, data) == pytest.approx((1.0,) * 5)


def test_without_classes_there_is_nothing_to_compare():
    data = blocks(labels=False)
    assert evaluate(torch.zeros(60, dtype=torch.int64), data) is None
    assert kmeans_on_pixels(data, 3, seed=0) is None


def test_labels_of_another_length_are_refused():
    with pytest.raises(InvalidValueError, match="shape"):
        evaluate(torch.zeros(59, dtype=torch.int64), blocks())


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**63 - 1])
def test_k_means_on_pixels_finds_what_is_plain(seed):
    data = blocks()
    assert kmeans_on_pixels(data, 3, seed=seed) == pytest.approx((1.0,) * 5)


def test_k_means_on_pixels_is_a_function_of_its_seed():
    noise = np.random.default_rng(0).integers(0, 256, size=(80, 4, 4)).astype(np.uint8)
    data = image_data(noise, np.arange(80) % 4)
    runs = [kmeans_on_pixels(data, 4, seed=seed) for seed in (3, 3, 4, 5, 6)]
    assert runs[0] == runs[1]
    assert len(set(runs)) > 1
    assert all(math.isfinite(value) for run in runs for value in run)
