"""The figures of a run: heads, held-out images, neighbors, probe, collapse."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.loop import Run
from dualclust.train.loop.evaluation import evaluate_method
from dualclust.train.loop.metrics import (
    agreement,
    evaluate,
    logistic_probe,
    nearest_neighbors,
    spread,
)
from tests.train.runs import tiny


@pytest.fixture(scope="module")
def split_source(tmp_path_factory):
    """Images of ten plain kinds, split into train and test."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, size=(10, 8, 8))
    arrays = {}
    for name, n in (("train", 150), ("test", 60)):
        member = np.arange(n) % 10
        noisy = np.clip(kinds[member] + 30 * rng.normal(size=(n, 8, 8)), 0, 255)
        arrays |= {f"{name}_images": noisy.astype(np.uint8), f"{name}_labels": member}
    path = tmp_path_factory.mktemp("data") / "split.npz"
    np.savez(path, **arrays)
    return path


def blobs(n, seed=0, classes=3, d=5):
    rng = np.random.default_rng(seed)
    member = np.arange(n) % classes
    x = 4.0 * np.eye(classes, d)[member] + 0.3 * rng.normal(size=(n, d))
    return torch.from_numpy(x), torch.from_numpy(member)


def test_the_figures_of_a_run(split_source):
    changes = ["evaluation.heads=all", "evaluation.neighbors=3", "evaluation.probe=true"]
    run = Run(tiny(split_source, "data.test=test", *changes), "cpu")
    run.init()
    run.run_epoch()
    figures = evaluate_method(run.method, run.loader, last=True)
    own = evaluate(run.predict().assignment.labels, run.loader.data)._asdict()
    assert own.items() <= figures.items()
    other = evaluate(run.predict(1).assignment.labels, run.loader.data)
    assert len(run.predict(1).assignment.counts) == 20
    assert figures["head1_nmi"] == other.nmi
    assert "head0_nmi" not in figures  # the target, under its plain name
    for name in ("test_acc", "knn", "probe", "imbalance"):
        assert 0.0 < figures[name] <= 1.0, name
    assert 1.0 <= figures["effective_clusters"] <= 10.0
    assert "probe" not in evaluate_method(run.method, run.loader)


def test_held_out_images_get_the_label_of_their_best_center(split_source):
    run = Run(tiny(split_source, "data.test=test", "evaluation.views=0"), "cpu")
    run.init()
    prediction = run.predict()
    run.method.network.eval()
    with torch.no_grad():
        scores = (
            run.method.features(run.loader.test.take(run.loader.test.ids)) @ prediction.centers.T
        )
    expected = agreement(scores.argmax(1), run.loader.test.labels)
    run.method.network.train()
    assert evaluate_method(run.method, run.loader)["test_acc"] == pytest.approx(expected.acc)
    assert len(run.loader.test.ids) == 60
    # New images are normalized as the training images were.
    assert torch.equal(run.loader.test.mean, run.loader.data.mean)


def test_samples_without_a_class_do_not_count():
    classes = torch.tensor([0, 1, -1, 0, 1, -1])
    labels = torch.tensor([1, 0, 0, 1, 0, 1])
    assert agreement(labels, classes) == pytest.approx((1.0,) * 5)
    x, member = blobs(60)
    assert nearest_neighbors(x, torch.where(member == 2, -1, member), n_neighbors=3) == 1.0


def test_neighbors_and_probe_find_what_is_plain():
    x, member = blobs(60)
    test = blobs(30, seed=1)
    assert nearest_neighbors(x, member, n_neighbors=5) == 1.0
    assert nearest_neighbors(x, member, n_neighbors=5, test=test) == 1.0
    assert logistic_probe(x, member, seed=0) == 1.0
    assert logistic_probe(x, member, seed=0, test=test) == 1.0
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=(60, 5)))
    assert nearest_neighbors(noise, member, n_neighbors=5) < 0.7
    assert logistic_probe(noise, member, seed=0) < 0.8


def test_a_sample_is_no_neighbor_of_its_own():
    x = torch.tensor([[1.0, 0.0], [0.99, 0.01], [0.0, 1.0], [0.01, 0.99]])
    assert nearest_neighbors(x, torch.tensor([0, 1, 0, 1]), n_neighbors=1) == 0.0


def test_more_neighbors_than_samples_are_refused():
    with pytest.raises(InvalidValueError, match=r"lower evaluation\.neighbors"):
        nearest_neighbors(*blobs(6), n_neighbors=6)


def test_collapse_shows():
    x, _ = blobs(60)
    healthy = spread(torch.nn.functional.normalize(x, dim=1), torch.tensor([20, 20, 20]))
    gone = spread(torch.nn.functional.normalize(torch.ones(60, 5), dim=1), torch.tensor([60, 0, 0]))
    assert healthy.imbalance == 1.0
    assert healthy.effective_clusters == pytest.approx(3.0)
    assert gone.imbalance == 0.0
    assert gone.effective_clusters == pytest.approx(1.0)
    assert gone.uniformity == pytest.approx(0.0, abs=1e-7)
    assert healthy.uniformity > 0.1
