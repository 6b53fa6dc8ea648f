"""CoKe between its epochs: where it starts, its second stage from the first epoch on, resuming."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from dualclust.train.methods._priced_heads import kmeans_centers
from dualclust.train.methods.coke import CoKe
from tests.problems import cone_features
from tests.thread_ranks import ThreadRanks, on_threads
from tests.train.coke_methods import (
    AVERAGED,
    MULTI,
    PREDICTOR,
    D,
    N,
    draw_images,
    make,
    on_features,
)


def test_a_start_is_of_first_views_of_a_stream_of_their_own():
    """Drawn like a first view, by numbers that no epoch draws: `apply_to_all` has both by name."""
    method = make(changes=["heads.init=kmeans"])
    [images] = draw_images(make(changes=["coke.views=one"]), N)
    drawn = {("first", "init"): images, ("plain", "init"): -images, ("first", "plain"): 2 - images}
    method.network.eval()
    with torch.no_grad():
        method.start(lambda function, view="plain", stream="plain": function(drawn[view, stream]))
        rows = method.features(images)
    for head, bounds in enumerate(method.bounds):
        expected = kmeans_centers(rows, bounds, method.config.seed, head)
        torch.testing.assert_close(method.centers[head, : bounds.n_clusters], expected)


@pytest.mark.parametrize(("changes", "rows"), [(AVERAGED, N), ([], 0), (["coke.average=false"], 0)])
def test_averaged_labels_take_memory_where_there_are_any(changes, rows):
    method = make(changes=["coke.slots=2", *changes])
    assert method.averaging == (rows > 0)
    assert [tuple(table.shape) for table in method.averages] == [(3, rows, 2)] * 2


def test_the_second_stage_may_begin_right_after_the_first_epoch():
    """Epoch 1 labels by the centers that epoch 0 ended with, and averages two labels of an image.

    One head of two clusters, whose samples lie on four directions: all is seen by hand.
    """
    method = make((2,), 4, [*AVERAGED, "coke.second_stage=1"], torch.float64)
    method = on_features(method)
    rows = torch.eye(D, dtype=torch.float64)[:4]
    given = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 0]])
    seen = []

    def assign(scores):
        seen.append(scores[0])
        return given[len(seen) - 1][None]

    method.heads.assign = assign
    for epoch in range(3):
        method.begin_epoch(epoch)
        method.step(torch.arange(4), (rows,))
    ended = F.normalize(torch.stack([rows[:2].sum(0), rows[2:].sum(0)]), dim=1)
    torch.testing.assert_close(seen[1], rows @ ended.T)
    # The average over the one epoch that is over is what it ended with.
    second = torch.stack([rows[0], F.normalize(rows[1:].sum(0), dim=0)])
    torch.testing.assert_close(seen[2], rows @ second.T)
    clusters, weights = (table[0] for table in method.averages)
    found = torch.zeros(4, 2, dtype=torch.float64).scatter_add(1, clusters.long(), weights)
    expected = [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [0.5, 0.5]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_one_sample_is_enough_to_move_an_averaged_center():
    method = on_features(make((3,), changes=AVERAGED, dtype=torch.float64))
    x = torch.from_numpy(cone_features(N, 1, d=D))
    labels = torch.arange(N) % 3
    method.heads.assign = lambda scores: labels[None]
    for epoch in range(4):
        method.begin_epoch(epoch)
        if epoch == 3:
            labels = torch.where(torch.arange(N) == 7, 2, torch.arange(N) % 2)
        method.step(torch.arange(N), (x,))
    before = method.past[0, 2].clone()
    method.begin_epoch(4)
    torch.testing.assert_close(method.past[0, 2], (before + x[7]) / 2, rtol=0, atol=1e-8)
    assert (before - x[7]).norm() > 0.01


def test_an_epoch_that_was_left_goes_on_with_its_own_steps_of_prices():
    """Which halve from epoch to epoch: a batch moves the prices as it would have."""
    method, other = (make((3,), 6000, [f"seed={seed}"]) for seed in (0, 3))
    views = draw_images(method, N)
    ids = torch.arange(N)
    for epoch in range(2):
        method.begin_epoch(epoch)
        method.step(ids, views)
    assert float(method.heads.rule.step_size.max()) < 0.02  # else the steps would be capped
    left = copy.deepcopy((method.epoch_state(), method.state_dict()))
    other.load_state_dict(left[1])
    other.resume_epoch(1, left[0])
    assert other.epoch == 1
    assert torch.equal(method.heads.rule.step_size, other.heads.rule.step_size)
    groups = other.epoch_state()["groups"]
    assert groups
    for name, tables in left[0]["groups"].items():
        assert all(torch.equal(x, y) for x, y in zip(tables, groups[name], strict=True))
    losses = [one.step(ids, views) for one in (method, other)]
    assert torch.equal(*losses)
    assert torch.equal(method.heads.duals.lower, other.heads.duals.lower)


@pytest.mark.parametrize("changes", [MULTI, [*MULTI, *PREDICTOR]], ids=["projector", "predictor"])
def test_ranks_have_the_loss_of_the_whole_batch(changes):
    """Views of one rank's images alone, and the state of one process on both."""
    alone = make(changes=changes, dtype=torch.float64)
    views = draw_images(alone, 7, dtype=torch.float64)
    start = copy.deepcopy(alone.network.state_dict())

    def work(ranks: ThreadRanks) -> tuple[float, torch.Tensor]:
        network = copy.deepcopy(alone.network).eval()  # no batch statistics, which ranks share
        network.load_state_dict(start)
        method = CoKe(alone.config, network, N, ranks)
        method.begin_epoch(0)
        part = slice(*ranks.shard(7))
        return method.step(torch.arange(7), tuple(v[part] for v in views)).item(), method.labels

    (expected, labels), *others = on_threads(1, work) + on_threads(2, work)
    for loss, found in others:
        assert loss == pytest.approx(expected, rel=1e-12)
        assert torch.equal(found, labels)
