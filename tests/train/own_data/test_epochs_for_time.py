"""A run that fits a time: the clock is the test's, and each second of it is accounted for."""

from dataclasses import replace
from itertools import count

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.train.data.look import Look
from dualclust.train.own_data import Machine, choose_settings, epoch_time, fit_to_time, seconds_of
from dualclust.train.own_data.epochs_for_time import MOST, SHARE, STEPS, ladder
from tests.train.runs import tiny

LOOK = Look("files", 500, 3, 90, 64)


def chosen(method="secu", **options):
    return choose_settings(LOOK, method, "photos", Machine(2), clusters=10, **options)


class Clock:
    """Stands still, but for what is measured."""

    now = 0.0

    def __call__(self):
        return self.now


def fitted(seconds, per_width, start=None):
    """Fit to a time where an epoch takes per_width times the width, and timing it 10 s."""
    clock, asked = Clock(), []

    def measure(config):
        asked.append(config.network.width)
        clock.now += 10
        return per_width * config.network.width

    return fit_to_time(start or chosen(), seconds, measure, clock=clock), asked


@pytest.mark.parametrize("text", ["20", "m", "20 m", "-5m", "1h 30m", "5d", "", "0s", "1e3s"])
def test_times_that_are_none(text):
    with pytest.raises(UsageError, match="--time must be"):
        seconds_of(text)


def test_times():
    assert [seconds_of(t) for t in ("20m", "1h30m", "90s", "0.5h", "1m30s")] == [
        1200, 5400, 90, 1800, 90,
    ]  # fmt: skip


def test_the_largest_network_that_gets_its_epochs():
    wanted = chosen().config.epochs
    assert wanted == 200
    for seconds, width in ((1500, 8), (2100, 16), (5000, 32), (9000, 64)):
        found, asked = fitted(seconds, 0.5)
        config = found.config
        assert config.network.width == width
        assert asked[-1] <= 2 * width
        # What is taken fits, and no more than an epoch is left over.
        left = SHARE * (seconds - 10 * len(asked))
        assert config.epochs == min(MOST * wanted, int(left / (0.5 * width)))
        assert wanted <= config.epochs
        told = [c for c in found.choices if c.settings.startswith("epochs")]
        assert [c.settings for c in told] == [f"epochs = {config.epochs}"]
        (of_width,) = [c for c in found.choices if c.settings.startswith("network.width")]
        assert of_width.settings == f"network.width = {width}"


def test_fewer_epochs_of_the_smallest_network_where_time_is_short():
    found, asked = fitted(60, 1.0)
    assert asked == [8]
    assert found.config.epochs == int(SHARE * 50 / 8)
    assert found.config.optim.warmup_epochs <= found.config.epochs
    with pytest.raises(
        UsageError, match=r"--time 12s is too short: an epoch takes 8 s, and 10 s went before"
    ):
        fitted(12, 1.0)


def test_beginnings_count():
    """Four beginnings of 8 of 28 epochs are 52 epochs in all."""
    start = choose_settings(
        Look("images", 10_000, 1, 28, 28), "gatcluster", "x", Machine(2), clusters=10
    )
    found = fit_to_time(start, 520, lambda config: 8.0, clock=Clock())
    config = found.config
    passes = config.epochs + 3 * config.starts.epochs
    assert 0.9 * SHARE * 520 <= 8 * passes <= 1.1 * SHARE * 520


def test_other_networks_have_one_rung():
    assert list(ladder(chosen("gatcluster").config)) == [chosen("gatcluster").config]
    assert [c.network.width for c in ladder(chosen().config)] == [8, 16, 32, 64]


def test_an_epoch_is_timed_by_its_first_steps():
    """A clock that ticks when it is read: a tick before the first step, one for each."""
    n = 300
    config = tiny("digits", "batch_size=50", "optim.frozen_epochs=1", "evaluation.every=1")
    ticks = count()
    found = epoch_time(config, "cpu", n, clock=lambda: float(next(ticks)))
    assert next(ticks) == STEPS + 1
    # Each step takes a tick, and there is nothing before the first.
    assert found == -(-n // 50)


def test_passes_before_the_first_step_grow_with_the_data():
    config = replace(tiny("digits", "batch_size=50"))
    times = iter([0.0, 11.0, 12.0, 13.0, 14.0])
    assert epoch_time(config, "cpu", 17_970, clock=lambda: next(times)) == 10 * 10 + 360
