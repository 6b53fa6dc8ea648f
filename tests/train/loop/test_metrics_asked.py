"""What is asked of scikit-learn, and which rows it gets, by stand-ins for it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.metrics import uniformity
from dualclust.train.data.samples import embedding_data, image_data
from dualclust.train.loop.metrics import (
    agreement,
    evaluate,
    kmeans_labels,
    kmeans_on_pixels,
    logistic_probe,
    nearest_neighbors,
    pixel_rows,
    spread,
)


@pytest.mark.parametrize(
    ("seed", "state"), [(0, 0), (7, 7), (2**32, 0), (2**32 + 9, 9), (2**63 - 1, 2**32 - 1)]
)
def test_k_means_is_asked_for_ten_beginnings(monkeypatch, seed, state):
    asked = []

    def kmeans(k, **options):
        asked.append((k, options))
        return SimpleNamespace(
            fit=lambda rows: (
                asked.append(rows) or SimpleNamespace(labels_=np.array([1, 0], np.int32))
            )
        )

    monkeypatch.setattr("sklearn.cluster.KMeans", kmeans)
    rows = np.ones((2, 3))
    labels = kmeans_labels(rows, 5, seed=seed)
    assert (labels.tolist(), labels.dtype) == ([1, 0], np.int64)
    assert asked == [(5, {"n_init": 10, "random_state": state}), rows]


def test_pixels_are_rows_in_the_order_of_the_samples():
    images = image_data(np.arange(24, dtype=np.uint8).reshape(2, 3, 4), [1, 0])
    rows = pixel_rows(images)
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, np.arange(24.0).reshape(2, 12))
    many = image_data(
        np.random.default_rng(0).integers(0, 256, (60, 3, 4), np.uint8), [0, 1, 2] * 20
    )
    for seed in (9, 10):
        labels = torch.from_numpy(kmeans_labels(pixel_rows(many), 4, seed=seed))
        assert kmeans_on_pixels(many, 4, seed=seed) == agreement(labels, many.labels)


def test_samples_without_a_class_do_not_count():
    labels = torch.tensor([0, 0, 1, 1, 2])
    classes = torch.tensor([5, 5, -1, 7, -1])
    found = agreement(labels, classes)
    assert (found.acc, found.nmi, found.ari) == (1.0, 1.0, 1.0)
    # One of three is in the wrong cluster; that without a class would be a second one.
    wrong = agreement(torch.tensor([0, 1, 1, 1]), torch.tensor([3, 3, 4, -1]))
    assert wrong.acc == pytest.approx(2 / 3)
    data = embedding_data(np.ones((5, 2), np.float32), classes.numpy())
    assert evaluate(labels, data) == agreement(labels, data.labels) == found


def test_spread_of_sizes_and_features():
    features = torch.eye(4)[[0, 1, 2, 3, 0, 1]]
    found = spread(features, torch.tensor([4, 2]))
    assert (found.imbalance, found.effective_clusters) == (0.5, pytest.approx(3 / 2 ** (2 / 3)))
    assert found.uniformity == uniformity(features)


def test_neighbors_are_near_by_angle_and_vote():
    """Rows at angles and at other lengths: by distance, others would be nearest."""
    angles, lengths = np.array([0.0, 0.1, 0.2, 1.5, 1.6, 1.7, 0.9]), np.array([1, 9, 3, 1, 9, 3, 5])
    x = torch.tensor(np.column_stack([np.cos(angles), np.sin(angles)]) * lengths[:, None])
    classes = torch.tensor([1, 1, 1, 4, 4, 4, -1])
    assert nearest_neighbors(x, classes, n_neighbors=2) == 1.0
    test = x[[0, 3, 6, 6]], torch.tensor([1, 1, -1, 4])
    assert nearest_neighbors(x, classes, n_neighbors=3, test=test) == pytest.approx(2 / 3)
    one = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    assert nearest_neighbors(one, torch.tensor([0, 1, 1]), n_neighbors=1) == pytest.approx(1 / 3)


def test_a_probe_holds_a_fifth_of_each_class_out(monkeypatch):
    asked = []

    def split(x, t, **options):
        asked.append(
            (x.tolist(), t.tolist(), {**options, "stratify": options["stratify"].tolist()})
        )
        return x[:3], x[3:], t[:3], t[3:]

    monkeypatch.setattr("sklearn.model_selection.train_test_split", split)
    fitted = []

    def regression(**options):
        fitted.append(options)
        from sklearn.dummy import DummyClassifier

        return DummyClassifier(strategy="most_frequent")

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", regression)
    x, classes = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 0, 1, -1, 0, 1])
    assert logistic_probe(x, classes, seed=2**32 + 3) == 0.5
    kept = x[classes >= 0].tolist()
    known = [0, 0, 1, 0, 1]
    assert asked == [
        (kept, known, {"test_size": 0.2, "stratify": known, "random_state": 3}),
    ]
    assert fitted == [{"max_iter": 1000}]
    found = logistic_probe(x, classes, seed=0, test=(x[:4], torch.tensor([0, 1, 0, -1])))
    assert found == pytest.approx(2 / 3)
    assert len(asked) == 1
