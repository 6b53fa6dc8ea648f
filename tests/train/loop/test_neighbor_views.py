"""Views of embeddings that are neighbors: which rows they are, and where there are none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import Run, resume, train
from tests.thread_ranks import on_threads
from tests.train.runs import Interrupted, interrupt_after

N, FEW = 60, 5


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(N, 8)).astype(np.float32))
    return tmp_path / "X.npy"


def settings(rows: Path, *changes: str) -> RunConfig:
    words = [
        "network.name=none",
        "network.layers=1",
        "heads.clusters=[3]",
        "heads.target=3",
        "epochs=3",
        "threads=1",
    ]
    words += ["batch_size=16", "optim.warmup_epochs=0", f"data.source={rows}"]
    return override(RunConfig(), [*words, f"second.neighbors={FEW}", *changes])


def drawn(run: Run) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids and both views of an epoch."""
    batches = list(run.loader.views(run.loader.batches(0), 0, ("first", "second")))
    ids = torch.cat([ids for ids, _ in batches])
    return ids, *(torch.cat([views[v] for _, views in batches]) for v in (0, 1))


def nearest(data: np.ndarray) -> list[set[int]]:
    unit = data / np.linalg.norm(data, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2.0)
    return [set(line) for line in np.argsort(-cosines, axis=1)[:, :FEW].tolist()]


@pytest.mark.parametrize("resident", ["auto", "never"])
def test_a_view_is_one_of_the_nearest_and_the_other_the_sample(rows: Path, resident: str) -> None:
    run = Run(settings(rows, f"data.resident={resident}"), "cpu")
    data = run.loader.data.take(run.loader.data.ids).numpy()
    ids, first, second = drawn(run)
    np.testing.assert_array_equal(first, data[ids])
    shown = [np.flatnonzero((data == row).all(1)).item() for row in second.numpy()]
    near = nearest(data)
    assert all(j in near[i] for i, j in zip(ids.tolist(), shown, strict=True))
    # Not the same neighbor of each: a third of 60 have it by chance if all are drawn alike.
    places = [sorted(near[i]).index(j) for i, j in zip(ids.tolist(), shown, strict=True)]
    assert len(set(places)) == FEW


def test_neighbors_are_drawn_anew_in_each_epoch_and_alike_in_each_run(rows: Path) -> None:
    run, other = (Run(settings(rows), "cpu").loader for _ in range(2))
    ids = torch.arange(N)
    found = [[next(one.views([ids], e, ("second",)))[1][0] for e in (0, 1)] for one in (run, other)]
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    assert not torch.equal(*found[0])


def test_ranks_draw_what_one_process_draws(rows: Path) -> None:
    def second(ranks) -> torch.Tensor:
        loader = Run(settings(rows), "cpu", ranks=ranks).loader
        return torch.cat([views[0] for _, views in loader.views(loader.batches(0), 0, ("second",))])

    halves = on_threads(2, second)
    whole = second(ALONE)
    assert sum(map(len, halves)) == N
    assert {tuple(row) for half in halves for row in half.tolist()} == set(
        map(tuple, whole.tolist())
    )


def test_noise_and_masks_are_of_the_neighbor(rows: Path) -> None:
    run = Run(settings(rows, "second.mask=0.5"), "cpu")
    data = run.loader.data.take(run.loader.data.ids).numpy()
    ids, _, second = drawn(run)
    near = nearest(data)
    for i, row in zip(ids.tolist(), second.numpy(), strict=True):
        kept = row != 0
        assert any((data[j][kept] == row[kept]).all() for j in near[i])


def test_a_run_that_was_stopped_draws_the_same_neighbors(rows: Path, tmp_path: Path) -> None:
    config = settings(rows, "epochs=3")
    whole = train(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(config, tmp_path / "parts", progress=interrupt_after(1))
    parts = resume(tmp_path / "parts")
    assert [r["loss"] for r in parts.metrics] == [r["loss"] for r in whole.metrics]


def test_there_are_no_more_neighbors_than_other_samples(rows: Path) -> None:
    run = Run(settings(rows, "second.neighbors=500"), "cpu")
    assert run.loader.near is not None
    assert run.loader.near.shape == (N, N - 1)


def test_images_have_no_neighbors() -> None:
    with pytest.raises(UsageError, match=r"augment\.neighbors=3: neighbors of images"):
        Run(override(RunConfig(), ["augment.neighbors=3"]), "cpu")
