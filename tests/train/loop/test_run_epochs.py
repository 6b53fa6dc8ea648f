"""Epochs, learning rates, and what training may not see."""

import itertools
import math

import numpy as np
import pytest
import torch

from dualclust.train.data.samples import load_source
from dualclust.train.loop import Run, loader, train
from dualclust.train.loop.optim import learning_rate
from tests.train.runs import (
    EPOCHS,
    N,
    assert_same_run,
    contents,
    tiny,
)

# Epochs ----------------------------------------------------------------------------------------


def spy_on_steps(run):
    """Record ids, views and learning rates of each step of a run."""
    steps, whole = [], run.method.step

    def step(ids, views):
        rates = [group["lr"] for group in run.optimizer.param_groups]
        steps.append((ids.clone(), [view.clone() for view in views], rates))
        return whole(ids, views)

    run.method.step = step
    return steps


@pytest.mark.parametrize("batch_size", [2, 3, 16, 32, 120, 121, 241, 1000])
def test_every_image_once_an_epoch_in_even_batches(source, batch_size):
    run = Run(tiny(source, f"batch_size={batch_size}"), "cpu")
    learn = run.method.step

    def first_alone(ids, views):
        """Of hundreds of steps, which this is not about, one for each epoch."""
        return learn(ids, views) if len(steps) == 1 else 0.0 * run.method.centers.sum()

    run.method.step = first_alone
    steps = spy_on_steps(run)
    orders = []
    for _ in range(2):
        run.run_epoch()
        ids = [ids for ids, *_ in steps]
        sizes = [len(part) for part in ids]
        assert len(sizes) == min(math.ceil(N / batch_size), N // 2)
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 2  # one image has no batch statistics
        assert max(sizes) <= max(batch_size, 3)
        orders.append(torch.cat(ids))
        assert torch.equal(orders[-1].sort().values, torch.arange(N))
        steps.clear()
    assert not torch.equal(*orders)


def test_the_loss_is_the_mean_over_images(source):
    run, losses = Run(tiny(source), "cpu"), []
    whole = run.method.step

    def step(ids, views):
        loss = whole(ids, views)
        losses.append((len(ids), loss.item()))
        return loss

    run.method.step = step
    record = run.run_epoch()
    assert {size for size, _ in losses} == {30, 31}
    expected = sum(size * loss for size, loss in losses) / N
    assert record["loss"] == pytest.approx(expected, rel=1e-6)


def test_the_last_epoch_is_evaluated_whenever_it_comes(source):
    run = Run(tiny(source, "epochs=3", "evaluation.every=2"), "cpu")
    assert ["acc" in run.run_epoch() for _ in range(3)] == [False, True, True]


def test_views_differ_between_views_steps_and_epochs(source):
    """The same images each time: what differs is what was drawn."""
    run = Run(tiny(source), "cpu")
    ids = torch.arange(5)
    streams = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), ("predict", 0, 0), ("init", 0)]
    views = [run.loader.view(ids, *stream) for stream in streams]
    for a, b in itertools.combinations(views, 2):
        assert not torch.equal(a, b)
    assert torch.equal(views[0], run.loader.view(ids, 0, 0, 0))
    other = Run(tiny(source, "seed=1"), "cpu")
    assert not torch.equal(views[0], other.loader.view(ids, 0, 0, 0))


def test_the_two_views_of_a_step_are_those_of_the_named_streams(source):
    run = Run(tiny(source), "cpu")
    steps = spy_on_steps(run)
    run.run_epoch()
    run.run_epoch()
    for i, (ids, views, _) in enumerate(steps):
        epoch, step = divmod(i, 8)
        for v in (0, 1):
            assert torch.equal(views[v], run.loader.view(ids, epoch, step, v))


# Learning rates --------------------------------------------------------------------------------


def test_each_step_has_its_rate_and_the_centers_a_constant_one(source):
    run = Run(tiny(source), "cpu")
    steps = spy_on_steps(run)
    records = [run.run_epoch() for _ in range(EPOCHS)]
    used = []
    # A rate is set before the step that it is for.
    for i, (_, _, (rate, center_rate)) in enumerate(steps):
        expected = learning_rate(run.config.optim, EPOCHS, i / 8)
        assert rate == pytest.approx(expected, abs=1e-15)
        assert center_rate == run.config.optim.center_lr
        used.append(rate)
    assert [record["lr"] for record in records] == used[7::8]


def test_only_the_centers_learn_in_the_first_epoch(source):
    run = Run(tiny(source), "cpu")
    network = [p.detach().clone() for p in run.method.network.parameters()]
    centers = run.method.centers.detach().clone()
    run.run_epoch()
    assert all(
        torch.equal(a, b) for a, b in zip(network, run.method.network.parameters(), strict=True)
    )
    assert not torch.equal(centers, run.method.centers)
    run.run_epoch()
    changed = [
        not torch.equal(a, b) for a, b in zip(network, run.method.network.parameters(), strict=True)
    ]
    assert all(changed)


# What training may not see ---------------------------------------------------------------------


def test_true_labels_never_reach_training(source, finished, tmp_path, monkeypatch):
    result, _ = finished
    expected = contents(result.folder)
    generator = torch.Generator().manual_seed(0)

    def shuffled(data):
        return data._replace(labels=data.labels[torch.randperm(N, generator=generator)])

    variants = {
        "shuffled": shuffled,
        "one class": lambda data: data._replace(labels=torch.zeros_like(data.labels)),
        "none": lambda data: data._replace(labels=None, class_names=()),
    }
    for name, change in variants.items():
        monkeypatch.setattr(
            loader, "load_source", lambda *a, c=change, **k: c(load_source(*a, **k))
        )
        train(tiny(source), tmp_path / name)
        found = contents(tmp_path / name)
        for part in ("state", "centers.npy", "weights.safetensors", "sizes.png"):
            assert found[part] == expected[part], (name, part)
        rows = [line.split(",")[:3] for line in found["assignments.csv"].decode().splitlines()]
        assert rows == [
            line.split(",")[:3] for line in expected["assignments.csv"].decode().splitlines()
        ]
    assert not any("acc" in record for record in found["metrics.jsonl"])
    assert b"class" not in found["assignments.csv"]


def test_the_global_random_state_is_neither_read_nor_moved(source, finished, tmp_path):
    result, _ = finished
    torch.manual_seed(987)
    np.random.seed(987)  # noqa: NPY002 - the legacy state is what must not matter
    before = torch.get_rng_state()
    train(tiny(source), tmp_path / "run")
    assert torch.equal(before, torch.get_rng_state())
    assert_same_run(tmp_path / "run", result.folder)


@pytest.mark.parametrize("fails", [False, True])
def test_the_number_of_threads_is_put_back(source, tmp_path, monkeypatch, fails):
    calls = []  # two threads on a busy machine are slow, so that none is started
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    settings = tiny(source, "threads=2", "epochs=1", "optim.warmup_epochs=0")

    def progress(record):
        assert calls == [2]
        if fails:
            raise KeyboardInterrupt

    try:
        train(settings, tmp_path / "run", progress=progress)
    except KeyboardInterrupt:
        assert fails
    assert calls == [2, torch.get_num_threads()]
