"""What an epoch of a run gives to its steps and its record: rates, counts, seconds, identity."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dualclust.algos.core.errors import DivergedError
from dualclust.common.stopping import StoppedError
from dualclust.train.config.run import DataConfig, RunConfig, override
from dualclust.train.loop import Run
from dualclust.train.loop.optim import learning_rate
from tests.train.runs import tiny, write_images

SMALL = ("heads.clusters=[10]", "assignment.rounding=outward", "evaluation.every=9", "epochs=3")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Enough images for three batches of 20 or 21 an epoch."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)


@pytest.fixture
def run(few):
    run = Run(tiny(few, "batch_size=21", *SMALL), "cpu")
    run.init()
    return run


class Clock:
    """Goes on by a second for each step, and by what it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self):
        return self.now


def test_rates_and_counts_of_the_steps_go_on_where_an_epoch_was_stopped(run, few):
    """Each rate is that of its place in the run, with the length of a step."""
    counted, rates = [], []

    def seen(of_run):
        def on_step(done, total):
            counted.append((done, total))
            rates.append(of_run.optimizer.param_groups[0]["lr"])

        return on_step

    run.run_epoch()
    run.on_step = seen(run)
    run.stop = lambda: len(counted) == 2
    with pytest.raises(StoppedError, match=r"^stopped in epoch 2, after 2 of 3 steps$"):
        run.run_epoch()
    again = Run(run.config, "cpu")
    again.load_state_dict(run.state_dict())
    again.on_step = seen(again)
    record = again.run_epoch()
    options = run.config.optim
    expected = [learning_rate(options, 3, 1 + i / 3, step=1 / 3) for i in range(3)]
    assert rates == pytest.approx(expected)
    assert len(set(rates)) == 3
    sizes = [len(ids) for ids in run.loader.batches(1)]
    assert counted == [(sum(sizes[: i + 1]), 61) for i in range(3)]
    assert (record["epoch"], record["lr"]) == (2, pytest.approx(expected[-1]))


def test_the_seconds_of_an_epoch_are_those_of_its_parts(run):
    clock = Clock()
    run.clock = clock.perf_counter

    def step(done, total):
        clock.now += 1.00012

    run.on_step, run.stop = step, lambda: True
    for steps in (1, 2):
        with pytest.raises(StoppedError):
            run.run_epoch()
        assert (run.part.steps, run.part.seconds) == (steps, pytest.approx(1.00012 * steps))
        clock.now += 50.0  # nobody works
    assert run.run_epoch()["seconds"] == 3.0004
    assert run.part is None


def test_churn_is_the_share_of_labels_that_have_changed(run):
    run.run_epoch()
    method = run.method
    before = method.labels[method.target].clone()
    record = run.run_epoch()
    changed = (before != method.labels[method.target]).double().mean()
    assert 0.0 < record["churn"] == pytest.approx(float(changed))
    sizes = method.training_sizes()
    assert (record["size_min"], record["size_max"]) == (int(sizes.min()), int(sizes.max()))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_end_a_run(run, value):
    """The loss is finite: a weight was spoilt by the last step."""
    weight = next(iter(run.method.parameter_groups())).params[-1]

    def spoil(done, total):
        if done == total:
            weight.data.view(-1)[-1] = value

    run.on_step = spoil
    with pytest.raises(
        DivergedError, match=r"^a weight became infinite or NaN in epoch 1\. To fix"
    ):
        run.run_epoch()
    assert run.epoch == 0


def test_a_checkpoint_belongs_to_settings_and_images_wherever_they_lie():
    def identity(config):
        shown = SimpleNamespace(digest=lambda: "of the images")
        return Run.identity(SimpleNamespace(config=config, loader=SimpleNamespace(shown=shown)))

    config = RunConfig()
    found = identity(config)
    assert found["images"] == "of the images"
    elsewhere = DataConfig(source="moved", workers=3, resident="never", limit=7)
    assert identity(replace(config, data=elsewhere, log=("wandb",))) == found
    for change in ("data.normalization=cifar10", "data.standardize=true", "seed=1", "optim.lr=9.0"):
        assert identity(override(config, [change])) != found, change
