"""A run whose number of epochs changes while it goes: schedules follow, and a resume keeps it."""

from __future__ import annotations

import pytest

from dualclust.common.stopping import StoppedError
from dualclust.train.config.run import load_config
from dualclust.train.loop import resume, train
from dualclust.train.loop.optim import learning_rate
from dualclust.train.loop.run import Run
from dualclust.train.loop.train_and_resume import write_page
from dualclust.train.own_data import Pace
from tests.train.runs import tiny, tiny_recipe, without_time, write_images

BEFORE = 6


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)


def settings(few, *changes):
    own = "batch_size=16", "evaluation.every=10", "assignment.rounding=outward"
    return tiny(few, f"epochs={BEFORE}", "optim.warmup_epochs=1", *own, *changes)


def at(epoch, wanted):
    """Ask for a number of epochs once an epoch is over."""
    return lambda record, epochs: wanted if record["epoch"] >= epoch else epochs


@pytest.mark.parametrize("wanted", [4, 9])
def test_rates_and_evaluations_are_those_of_the_new_number(tmp_path, few, wanted) -> None:
    config = settings(few)
    result = train(config, tmp_path / "run", refit=at(2, wanted))
    assert [record["epoch"] for record in result.metrics] == list(range(1, wanted + 1))
    assert [r["epoch"] for r in result.metrics if "acc" in r] == [wanted]
    assert result.config.epochs == load_config(tmp_path / "run" / "config.toml").epochs == wanted
    steps = 4  # of 61 images in batches of 16
    for record in result.metrics:
        done = record["epoch"] - 1 / steps
        epochs = BEFORE if record["epoch"] <= 2 else wanted
        assert record["lr"] == learning_rate(config.optim, epochs, done, step=1 / steps)
    assert f"Epoch {wanted} of {wanted}" in (tmp_path / "run" / "report.html").read_text()


def test_an_epoch_that_is_over_is_not_taken_back(tmp_path, few) -> None:
    asked = []

    def refit(record, epochs):
        asked.append((record["epoch"], epochs))
        return 1

    result = train(settings(few), tmp_path / "run", refit=refit)
    assert len(result.metrics) == 1
    assert "acc" in result.metrics[0]  # it is evaluated as the last one
    assert asked == [(1, BEFORE)]
    assert load_config(tmp_path / "run" / "config.toml").optim.warmup_epochs == 1


def test_a_warm_up_ends_with_the_run(tmp_path, few) -> None:
    result = train(settings(few, "optim.warmup_epochs=4"), tmp_path / "run", refit=at(2, 3))
    assert len(result.metrics) == 3
    assert result.config.optim.warmup_epochs == 3


def test_a_method_that_contradicts_the_number_ends_when_it_can(tmp_path, few) -> None:
    """Its second stage begins after epoch 4: three epochs in all would have none."""
    own = (
        "assignment.rounding=outward",
        "heads.clusters=[10]",
        "coke.second_stage=4",
        "coke.views=one",
    )
    config = tiny_recipe("coke_digits", few, "epochs=6", "network.width=2", *own)
    assert len(train(config, tmp_path / "run", refit=at(2, 3)).metrics) == 5


@pytest.mark.parametrize(("method", "wanted"), [("secu", 4), ("propos", 8)])
def test_a_resumed_run_keeps_the_number_to_the_bit(tmp_path, few, method, wanted) -> None:
    own = ["propos.queue=32", "optim.warmup_epochs=0"] if method == "propos" else []
    more = "epochs=6", "batch_size=16", "network.width=2", "assignment.rounding=outward"
    config = tiny_recipe(f"{method}_digits", few, *more, "heads.clusters=[10]", *own)
    whole = train(config, tmp_path / "whole", refit=at(2, wanted))
    ends, steps = [], []

    def stop():
        return len(ends) == 3 and len(steps) > 13

    with pytest.raises(StoppedError):
        train(
            config,
            tmp_path / "parts",
            refit=at(2, wanted),
            progress=ends.append,
            steps=lambda done, total: steps.append(done),
            stop=stop,
        )
    settings_there = tmp_path / "parts" / "config.toml"
    # As if the process had been killed before the number was written.
    text = settings_there.read_text().replace(f"epochs = {wanted}\n", "epochs = 6\n", 1)
    settings_there.write_text(text)
    write_page(tmp_path / "parts")
    parts = resume(tmp_path / "parts")
    assert len(parts.metrics) == wanted
    assert without_time(parts.metrics) == without_time(whole.metrics)
    weights = [(tmp_path / run / "weights.safetensors").read_bytes() for run in ("whole", "parts")]
    assert weights[0] == weights[1]
    assert load_config(settings_there).epochs == wanted
    assert len(resume(tmp_path / "parts").metrics) == wanted  # a finished one


class Clock:
    """Seconds that epochs take, as somebody else's clock would tell them."""

    def __init__(self, now, each):
        self.now, self.each = now, iter(each)

    def __call__(self):
        self.now += next(self.each)
        return self.now


def run_of(pace, epochs, each):
    """Go on to the last epoch; return what was told after each."""
    told, done = [], 0
    while done < epochs:
        done += 1
        if done < epochs:
            epochs = pace({"epoch": done, "seconds": each[done - 1]}, epochs)
            told.append(epochs)
    return done, told


@pytest.mark.parametrize(
    ("each", "most"),
    [
        ([1.0] * 500, 500),  # as it was timed
        ([2.0] * 500, 500),  # twice as slow from the beginning
        ([1.0] * 20 + [5.0] * 500, 500),  # others come after a while
        ([5.0] * 6 + [1.0] * 500, 500),  # and go
        ([0.5] * 500, 120),  # fast, and more epochs than that rarely help
        ([1.0, 3.0] * 250, 500),
    ],
)
def test_a_run_ends_at_its_time(each, most) -> None:
    """Of 100 seconds 10 have passed, and epochs were timed at 1 s: 80 of them."""
    done, told = run_of(Pace(100.0, 0.0, most, clock=Clock(10.0, each)), 80, each)
    spent = 10.0 + sum(each[:done])
    if done == most:
        assert spent < 90
    else:
        assert abs(spent - 90) < 10, (spent, told)
    if each[:80] == [1.0] * 80:
        assert set(told) == {80}  # nothing changes for nothing


def test_a_run_that_is_late_ends() -> None:
    pace = Pace(10.0, 0.0, 100, clock=Clock(30.0, [1.0] * 9))
    assert pace({"epoch": 1, "seconds": 1.0}, 50) == 1


@pytest.mark.parametrize("planned", [1, 2])
@pytest.mark.parametrize("slower", [1.0, 1.5, 2.5])
@pytest.mark.parametrize("at", [0, 10, 30])
def test_an_epoch_that_does_not_fit_any_more_ends_inside(planned, slower, at) -> None:
    """Of 100 s, 40 or 80 are for epochs of 20 steps; from step `at` on the machine is slower.

    A third of an epoch is what evaluation and results then take.
    """
    now = [10.0]
    pace = Pace(100.0, 0.0, 8, clock=lambda: now[0])
    epochs, done, steps, slow = planned, 0, 0, 1.0
    while done < epochs:
        begun = now[0]
        for step in range(1, 21):
            slow = slower if steps >= at else 1.0
            now[0] += 2.0 * slow
            steps += 1
            if step < 20 and pace.is_over(step, 20):
                epochs = done + 1
                break
        done += 1
        if done < epochs:
            epochs = pace({"epoch": done, "seconds": now[0] - begun}, epochs)
    took = now[0] + slow * 40.0 / 3
    assert 60 < took < 120, (took, steps)


def used_at(where):
    """Cut a run at a step of an epoch, both from 1."""
    steps = []

    def cut(done, samples):
        steps.append(done)
        return len(steps) >= where

    return cut


def test_a_run_that_is_cut_ends_as_one_of_so_many_epochs(tmp_path, few) -> None:
    config = settings(few)
    result = train(config, tmp_path / "run", cut=used_at(3 + 2))  # 3 of 4 steps ask
    assert result.config.epochs == load_config(tmp_path / "run" / "config.toml").epochs == 2
    first, last = result.metrics
    assert "part" not in first
    assert last["part"] == round(31 / 61, 4)  # batches of 16, 15, 15 and 15
    assert "acc" in last
    assert "Epoch 2 of 2" in (tmp_path / "run" / "report.html").read_text()
    assert without_time(resume(tmp_path / "run").metrics) == without_time(result.metrics)


def test_the_figures_of_an_epoch_that_is_cut_are_of_the_samples_that_it_used(few) -> None:
    runs = [Run(settings(few, "evaluation.every=3"), "cpu") for _ in range(2)]
    for run in runs:
        run.init()
    asked = iter([False, True])
    runs[0].cut, runs[1].stop = used_at(2), lambda: next(asked)
    record = runs[0].run_epoch()
    with pytest.raises(StoppedError, match="stopped in epoch 1, after 2 of 4 steps"):
        runs[1].run_epoch()
    assert record["loss"] == float(runs[1].part.total) / 31
    assert (runs[0].epoch, runs[0].config.epochs) == (1, 1)


def test_a_method_that_contradicts_the_number_is_not_cut(tmp_path, few) -> None:
    own = "assignment.rounding=outward", "heads.clusters=[10]", "coke.second_stage=2"
    config = tiny_recipe("coke_digits", few, "epochs=3", "network.width=2", "coke.views=one", *own)
    found = train(config, tmp_path / "run", cut=lambda done, samples: True).metrics
    assert ["part" in record for record in found] == [False, False, True]
