"""Epochs, schedules, what training may not see, and what a run leaves."""

import csv
import itertools
import json
import math
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch
from torch.nn import functional as F

from dualclust.algos.core.errors import DualclustError, InvalidValueError, UsageError
from dualclust.common import files
from dualclust.train.config.run import load_config
from dualclust.train.data.samples import load_source
from dualclust.train.loop import Run, loader, train, training
from dualclust.train.loop.agreement import evaluate
from dualclust.train.loop.optim import learning_rate
from tests.train.runs import (
    EPOCHS,
    FILES,
    PICTURES,
    N,
    assert_same_run,
    contents,
    listing,
    tiny,
    without_time,
    write_images,
)


@pytest.fixture(scope="module")
def finished(source, tmp_path_factory):
    """A finished run: its result and the records that its progress callback got."""
    seen = []
    folder = tmp_path_factory.mktemp("finished") / "run"
    return train(tiny(source), folder, progress=seen.append), seen


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


# What a run leaves -----------------------------------------------------------------------------


def test_the_run_folder(source, finished):
    result, _ = finished
    assert {path.name for path in result.folder.iterdir()} == FILES
    assert load_config(result.folder / "config.toml") == tiny(source)
    for name in PICTURES:
        content = (result.folder / name).read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n"), name
        assert len(content) > 1000
    kept = sorted(path.name for path in (result.folder / "checkpoints").iterdir())
    assert kept == [f"epoch-{epoch:06d}" for epoch in (EPOCHS - 1, EPOCHS)]


def test_metrics_say_the_same_everywhere(finished):
    result, seen = finished
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == result.metrics == seen
    assert [record["epoch"] for record in seen] == list(range(1, EPOCHS + 1))
    for record in seen:
        assert ("acc" in record) == (record["epoch"] in (2, EPOCHS))
        assert record["loss"] > 0
        assert 0 <= record["size_min"] <= N / 10 <= record["size_max"] <= N
        assert 0 <= record["churn"] <= 1
        assert record["seconds"] >= 0


def test_results_agree_with_the_prediction(source, finished):
    result, _ = finished
    found, data = result.prediction.assignment, load_source(source)
    with (result.folder / "assignments.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(N))
    labels = torch.tensor([int(row["cluster"]) for row in rows])
    assert torch.equal(labels, found.labels)
    assert [int(row["class"]) for row in rows] == data.labels.tolist()
    margins = [float(row["margin"]) for row in rows]
    np.testing.assert_allclose(margins, result.prediction.margins.numpy(), atol=6e-7)
    centers = np.load(result.folder / "centers.npy", allow_pickle=False)
    np.testing.assert_array_equal(centers, result.prediction.centers.numpy())
    assert evaluate(labels, data)._asdict().items() <= result.metrics[-1].items()


def test_sizes_are_inside_and_the_value_is_certified(finished):
    result, _ = finished
    found = result.prediction.assignment
    sizes = torch.bincount(found.labels, minlength=10)
    assert (result.lower, result.upper) == (22, 26)  # inward of 0.9 and 1.1 times 24.1
    assert int(sizes.min()) >= 22
    assert int(sizes.max()) <= 26
    assert result.prediction.assignment.violation == 0
    scores = result.prediction.features @ result.prediction.centers.T
    value = float(scores.double()[torch.arange(N), found.labels].sum())
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.upper_bound >= found.objective - 1e-9


def test_saved_weights_and_centers_repeat_the_prediction(source, finished):
    """Features of an evaluation pass with the weights of the file, and nothing else of the run."""
    result, _ = finished
    run = Run(tiny(source), "cpu")
    weights = safetensors.torch.load_file(result.folder / "weights.safetensors")
    run.method.network.load_state_dict(weights, strict=True)
    run.method.network.eval()
    views = run.loader.view(torch.arange(N), "predict", 0, 0)
    with torch.no_grad():
        features = F.normalize(run.method.network(views), dim=1)
    torch.testing.assert_close(features, result.prediction.features, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("views", [0, 1, 3])
def test_prediction_averages_views_and_leaves_no_trace(source, views):
    run = Run(tiny(source, f"evaluation.views={views}"), "cpu")
    run.init()
    run.run_epoch()
    before = {k: v.clone() for k, v in run.method.network.state_dict().items()}
    first, second = run.predict(), run.predict()
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.assignment.labels, second.assignment.labels)
    torch.testing.assert_close(first.features.norm(dim=1), torch.ones(N))
    assert run.method.network.training
    for k, v in run.method.network.state_dict().items():
        assert torch.equal(v, before[k])


def test_prediction_does_not_depend_on_its_batches(source, monkeypatch):
    run = Run(tiny(source, "evaluation.views=0"), "cpu")
    whole = run.predict().features
    monkeypatch.setattr(loader, "EVALUATION_BATCH", 48)
    torch.testing.assert_close(run.predict().features, whole, rtol=1e-4, atol=1e-5)


def test_an_image_left_alone_in_the_first_pass(source, tmp_path, monkeypatch):
    """As 1025 images would leave one of EVALUATION_BATCH = 1024, without batch statistics."""
    monkeypatch.setattr(loader, "EVALUATION_BATCH", N - 1)
    result = train(tiny(source, "epochs=1", "optim.warmup_epochs=0"), tmp_path / "run")
    labels = result.prediction.assignment.labels
    assert labels.shape == (N,)
    assert result.lower <= int(torch.bincount(labels).min())
    assert int(torch.bincount(labels).max()) <= result.upper
    assert torch.isfinite(result.prediction.features).all()


def test_training_learns_what_is_plain(source, tmp_path):
    """Not a benchmark: noisy copies of ten images, from random centers, are told apart."""
    still = ("rotate=0", "shear=0", "translate=0", "elastic=0", "scale=[1, 1]")
    settings = tiny(
        source,
        "epochs=12",
        "heads.clusters=[10]",
        "heads.init=random",
        "network.width=8",
        "network.hidden=64",
        "network.out_dim=32",
        *(f"augment.{change}" for change in still),
    )
    untrained = Run(settings, "cpu")
    before = evaluate(untrained.predict().assignment.labels, untrained.loader.data)
    result = train(settings, tmp_path / "run")
    assert before.acc < 0.6
    assert result.metrics[-1]["acc"] > 0.85


# What goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [["optim.lr=1e30"], ["optim.center_lr=1e38"]],
    ids=str,
)
def test_a_loss_that_is_not_finite_stops_the_run(source, tmp_path, changes):
    seen = []
    with pytest.raises(UsageError, match=r"the loss became nan in epoch .*lower optim\.lr"):
        train(tiny(source, *changes), tmp_path / "run", progress=seen.append)
    assert all(math.isfinite(record["loss"]) for record in seen)


def test_a_temperature_that_float32_cannot_hold_is_refused(source, tmp_path):
    with pytest.raises(InvalidValueError, match="temperature"):
        train(tiny(source, "loss.center_temperature=1e-40"), tmp_path / "run")


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_last_step_that_spoils_the_weights_is_said(source, tmp_path, monkeypatch, epoch):
    """The loss was taken before; epoch 2 is evaluated, epoch 3 would only be saved."""
    whole, count = torch.optim.SGD.step, 0

    def step(self, *args, **kwargs):
        nonlocal count
        whole(self, *args, **kwargs)
        count += 1
        if count == 8 * epoch:
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(math.nan)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    seen = []
    with pytest.raises(UsageError, match=r"lower optim\.lr"):
        train(tiny(source), tmp_path / "run", progress=seen.append)
    assert len(seen) == epoch - 1


def test_a_full_disk_is_said_and_costs_no_epoch(source, finished, tmp_path, monkeypatch):
    result, _ = finished
    folder = shutil.copytree(result.folder, tmp_path / "run")
    before = {name: v for name, v in listing(folder).items() if name.startswith("checkpoints")}

    def full(path, parts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_flushed", full)
    with pytest.raises(DualclustError, match=r"cannot write .*No space left on device"):
        training.resume(folder)
    after = {name: v for name, v in listing(folder).items() if name.startswith("checkpoints")}
    assert after == before
    assert not list(folder.glob(".*"))


def test_without_labels_nothing_is_compared(tmp_path):
    source = write_images(tmp_path / "images.npz", labels=False)
    result = train(tiny(source, "epochs=2"), tmp_path / "run")
    assert not any("acc" in record for record in result.metrics)
    header = (tmp_path / "run" / "assignments.csv").read_text().partition("\n")[0]
    assert header == "id,cluster,margin"
    assert without_time(result.metrics)[-1].keys() >= {"loss", "lr", "size_min", "size_max"}
