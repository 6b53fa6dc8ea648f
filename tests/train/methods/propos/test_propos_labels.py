"""ProPos' k-means and its balanced epochs, each against a transcription of its definition."""

import numpy as np
import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import kmeans
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.scores.sources import feature_source
from dualclust.train.config.methods.propos import ProposOptions
from dualclust.train.methods.propos import _labels
from dualclust.train.methods.propos._labels import balanced_order, cluster, stream_key
from tests.problems import unit_rows

K, N = 4, 90


@pytest.fixture
def features(rng):
    """Directions in lopsided groups that overlap, so that starts and bounds matter."""
    near = np.repeat(np.arange(K), [60, 15, 10, 5])
    return torch.from_numpy(unit_rows(2.0 * np.eye(K, 6)[near] + rng.normal(size=(N, 6))))


def unbounded() -> SizeBounds:
    return SizeBounds.from_ratios(K, n_samples=N, lower=0.0, upper=float("inf"), xp=torch)


def test_streams_differ_by_seed_and_by_name():
    keys = {stream_key(seed, name) for seed in (0, 1, 2**63) for name in ("kmeans", "order")}
    assert len(keys) == 6
    assert all(0 <= key < 2**63 for key in keys)
    assert stream_key(1, "kmeans") == stream_key(1, "kmeans")


@pytest.mark.parametrize("n_init", [1, 5])
def test_the_best_of_the_starts_is_kept(features, n_init):
    """Starts are numbered from the run's stream; the labels are those of the largest sum."""
    source, first = feature_source(features), stream_key(7, "kmeans")
    runs = []
    for start in range(first, first + n_init):
        centers = start_centers(source, K, seed=start, metric="cosine")
        found = kmeans(features, centers, max_iter=300, tol=1e-4)
        runs.append((found.labels, (features * found.centers[found.labels]).sum().item()))
    values = [value for _, value in runs]
    assert n_init == 1 or max(values) > values[0] + 1e-3  # the first is not the best
    labels, centers = cluster(features, unbounded(), ProposOptions(n_init=n_init), seed=7)
    assert (features * centers[labels]).sum().item() == pytest.approx(max(values), rel=1e-12)
    torch.testing.assert_close(centers.norm(dim=1), torch.ones(K, dtype=torch.float64))


def test_iterations_and_tolerance_are_the_options(features):
    """One iteration, or a tolerance of all labels, stops short of what 300 reach."""
    sums = []
    for options in (
        ProposOptions(n_init=1),
        ProposOptions(n_init=1, kmeans_iterations=1),
        ProposOptions(n_init=1, kmeans_tolerance=1.0),
    ):
        labels, centers = cluster(features, unbounded(), options, seed=0)
        sums.append((features * centers[labels]).sum().item())
    assert sums[0] > max(sums[1:]) + 1e-3


@pytest.mark.parametrize(("lower", "upper"), [(20, N), (0, 24), (20, 24)])
def test_bounds_on_one_side_are_kept(features, lower, upper):
    bounds = SizeBounds.from_counts([lower] * K, [upper] * K, n_samples=N, xp=torch)
    plain = torch.bincount(cluster(features, unbounded(), ProposOptions(), seed=0)[0], minlength=K)
    assert int(plain.min()) < 20
    assert int(plain.max()) > 24
    labels, centers = cluster(features, bounds, ProposOptions(n_init=2), seed=0)
    sizes = torch.bincount(labels, minlength=K)
    assert int(sizes.min()) >= lower
    assert int(sizes.max()) <= upper
    torch.testing.assert_close(centers.norm(dim=1), torch.ones(K, dtype=torch.float64))


@pytest.mark.parametrize("missing", [False, True], ids=["all there", "an empty cluster"])
def test_an_order_inverts_the_printed_weights(rng, missing):
    """Weights n / n_y, normalized; image i is drawn where the running sum first exceeds u."""
    labels = rng.permutation(np.repeat([0, 2 if missing else 1, 3], [50, 8, 2]))
    sizes = np.bincount(labels, minlength=K)
    weights = [1.0 / sizes[y] for y in labels]
    total = sum(weights)
    assert total == pytest.approx(3.0)  # each cluster that is there weighs the same
    uniforms = torch.rand(60, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = []
    for u in uniforms.tolist():
        reached, i = weights[0], 0
        while reached <= u * total:
            i += 1
            reached += weights[i]
        expected.append(i)
    draws = torch.Generator().manual_seed(5)
    found = balanced_order(torch.from_numpy(labels), draws)
    assert found.dtype == torch.int64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("lower", "upper", "bounded"),
    [
        ([0] * K, [N] * K, False),
        ([1, 0, 0, 0], [N] * K, True),
        ([0] * K, [N, N, N - 1, N], True),
        ([1] * K, [N - 1] * K, True),
    ],
)
def test_plain_k_means_where_no_bound_can_bind(features, monkeypatch, lower, upper, bounded):
    used = []

    def spy(name, whole):
        def run(*args, **kwargs):
            used.append((name, kwargs["max_iter"], kwargs["tol"]))
            return whole(*args, **kwargs)

        return run

    for name in ("kmeans", "constrained_kmeans"):
        monkeypatch.setattr(_labels, name, spy(name, getattr(_labels, name)))
    bounds = SizeBounds.from_counts(lower, upper, n_samples=N, xp=torch)
    options = ProposOptions(n_init=1, kmeans_iterations=7, kmeans_tolerance=0.25)
    cluster(features, bounds, options, seed=0)
    assert used == [("constrained_kmeans" if bounded else "kmeans", 7, 0.25)]


def test_a_number_on_the_edge_of_an_image_is_the_next_ones(monkeypatch):
    """Four images of equal weight: a uniform number of 1/4 belongs to the second."""
    uniforms = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: uniforms)
    assert balanced_order(torch.arange(4), torch.Generator()).tolist() == [0, 1, 2, 3]
