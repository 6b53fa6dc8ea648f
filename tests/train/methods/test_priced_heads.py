"""Heads with prices: what is padded, when prices may have any sign, and where k-means begins."""

import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.start import kmeans_plus_plus
from dualclust.train.config.run import AssignmentConfig
from dualclust.train.methods import _priced_heads
from dualclust.train.methods._priced_heads import PAD, PricedHeads, kmeans_centers, pad_scores
from dualclust.train.state.seeding import generator

PLACE = {"dtype": torch.float32, "device": torch.device("cpu")}


def bounds(k=3, lower=0.5, upper=2.0, n=60):
    return SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper, xp=torch)


def test_a_padded_cluster_has_no_probability_below_90():
    assert PAD == -1e4
    padding = pad_scores([2, 4, 3], PAD, **PLACE)
    assert padding.shape == (3, 1, 4)
    assert (padding[:, 0] == 0).sum(1).tolist() == [2, 4, 3]
    assert float(torch.softmax(padding[0, 0] / 90, dim=0)[2:].sum()) == 0.0


@pytest.mark.parametrize("steps", ["measured", "secu-cifar"])
def test_new_heads_have_the_rule_of_epoch_0(steps):
    many = [bounds(n=60_000), bounds(4, n=60_000)]  # of few images the steps are capped
    heads = PricedHeads(many, AssignmentConfig(steps=steps), **PLACE)
    first = heads.rule
    size = first.step_size.clone()
    heads.begin_epoch(5)
    later = heads.rule.step_size.clone()
    for name in ("step_size", "lower_share", "upper_share"):
        assert getattr(heads.rule, name) is getattr(first, name)  # in place
    assert torch.equal(later, size) == (steps == "secu-cifar")
    heads.begin_epoch(0)
    assert torch.equal(heads.rule.step_size, size)
    assert heads.rule.chunk_size == first.chunk_size


@pytest.mark.parametrize(("below", "free"), [(0.0, True), (0.7e-12, True), (1.5e-12, False)])
def test_prices_have_any_sign_where_lower_bounds_leave_no_slack(below, free):
    """To 1e-12, which rounding of the shares stays below."""
    tight = SizeBounds.from_ratios(
        4, n_samples=60, lower=1.0 - below, upper=2.0, rounding="outward", xp=torch
    )
    assert PricedHeads([tight], AssignmentConfig(), **PLACE).free_sign is free
    # Of all heads, or of none.
    assert not PricedHeads([tight, bounds()], AssignmentConfig(), **PLACE).free_sign


def test_centers_begin_with_twenty_rounds_of_k_means(monkeypatch):
    seen, whole = [], _priced_heads.constrained_kmeans

    def spy(*args, **kwargs):
        seen.append(kwargs["max_iter"])
        return whole(*args, **kwargs)

    monkeypatch.setattr(_priced_heads, "constrained_kmeans", spy)
    rows = torch.nn.functional.normalize(torch.randn(60, 5, dtype=torch.float64), dim=1)
    first = kmeans_centers(rows, bounds(), 1, 0)
    assert seen == [20]
    assert first.shape == (3, 5)
    assert torch.equal(first, kmeans_centers(rows, bounds(), 1, 0))
    # Its start is of a stream of the run's seed and the head, drawn in float64.
    uniforms = torch.rand(3, generator=generator(1, "kmeans", 2), dtype=torch.float64)
    start = kmeans_plus_plus(rows, uniforms)
    expected = whole(rows, bounds(), start, max_iter=20).centers
    assert torch.equal(kmeans_centers(rows, bounds(), 1, 2), expected)


@pytest.mark.parametrize(("kappa", "floor"), [(3.4, 0.1), (0.8, 0.8), (0.05, 0.05)])
def test_prices_get_slower_down_to_the_floor_that_is_set(kappa, floor):
    """Half the pace of the epoch before, for prices of scores that are cosines."""
    options = AssignmentConfig(kappa=kappa, kappa_floor=floor)
    many = [bounds(n=60_000), bounds(4, n=60_000)]
    heads = PricedHeads(many, options, **PLACE)
    first = heads.rule.step_size.clone()
    for epoch in (1, 2, 9):
        heads.begin_epoch(epoch)
        share = max(kappa / 2**epoch, floor) / kappa
        torch.testing.assert_close(heads.rule.step_size, first * share, rtol=1e-12, atol=0)


def test_a_published_step_is_one_for_a_batch_of_any_length():
    """Not three for 300 images, though the published batches were of 128."""
    heads = PricedHeads([bounds(2, 0.5, n=600)], AssignmentConfig(steps="secu-cifar"), **PLACE)
    scores = torch.tensor([0.5, 0.0]).expand(1, 300, 2)
    labels = heads.assign(scores)
    assert bool((labels == 0).all())
    # eta times how far the share of the other cluster, 0, is below its least of 1 / 4.
    expected = torch.tensor([0.0, 0.1 * 0.25], dtype=torch.float64)
    torch.testing.assert_close(heads.duals.lower[0], expected)
    torch.testing.assert_close(heads.prices(0), expected)
