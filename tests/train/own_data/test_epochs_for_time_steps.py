"""What is timed, of how many samples, and where more time gives no more epochs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from dualclust.train.config import StartsConfig
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.look import Look
from dualclust.train.own_data import Machine, choose_settings, epoch_time, fit_to_time
from dualclust.train.own_data import epochs_for_time as module
from dualclust.train.own_data.epochs import epochs_by_count, lasting
from dualclust.train.own_data.epochs_for_time import MOST, SHARE

LOOK = Look("files", 500, 3, 90, 64)


class FakeRun:
    """A run of some samples, whose steps are told by the test."""

    def __init__(self, config, device, log, n, steps):
        log.append((config, device))
        self.config, self.steps = config, steps
        self.loader = SimpleNamespace(n=n)
        network = torch.nn.Linear(1, 1)
        self.method, self.init = SimpleNamespace(network=network), lambda: log.append("init")

    def run_epoch(self):
        for i in range(self.steps):
            self.on_step(i + 1, self.steps)


def timed(monkeypatch, config, n, times, *, kept=100, steps=9):
    """Seconds of an epoch by a clock that shows these times, and what was run."""
    log, shown = [], iter(times)
    monkeypatch.setattr(module, "Run", lambda *given: FakeRun(*given, log, kept, steps))
    found = epoch_time(config, "cpu", n, clock=lambda: next(shown))
    assert list(shown) == []
    return found, log


@pytest.mark.parametrize(
    ("n", "clusters", "limit"),
    [(300, 10, 300), (10**6, 10, 2048), (10**6, 256, 2048), (10**6, 300, 2400), (2000, 300, 2000)],
)
def test_the_run_that_is_timed_learns_at_once_from_some_samples(monkeypatch, n, clusters, limit):
    config = override(
        RunConfig(), [f"heads.clusters=[7, {clusters}]", "heads.target=7", "optim.frozen_epochs=3"]
    )
    config = replace(config, starts=StartsConfig(count=2, epochs=1))
    _, log = timed(monkeypatch, config, n, range(5))
    (found, device), begun = log
    assert (device, begun) == ("cpu", "init")
    assert (found.data.limit, found.optim.frozen_epochs, found.starts) == (limit, 0, None)
    same = replace(found.data, limit=0), replace(found.optim, frozen_epochs=3)
    assert (*same, found.heads) == (config.data, config.optim, config.heads)


@pytest.mark.parametrize(
    ("times", "steps", "seconds"),
    [
        # Begun at 10, the first of four steps over at 14; then 2 s for each.
        ([10, 14, 16, 18, 20], 9, 2 * 3.0 + 2.0 * 8),
        ([10, 14, 16, 19], 3, 1.5 * 3.0 + 2.5 * 8),
        ([10, 14], 1, 4.0 * 8),
        ([10, 11, 13, 15, 17], 9, 2.0 * 8),  # the first was the quickest: nothing came before
    ],
)
def test_an_epoch_is_what_comes_before_it_and_its_steps(monkeypatch, times, steps, seconds):
    """Of 300 samples in batches of 40; a hundred were in the run that was timed."""
    config = override(RunConfig(), ["batch_size=40"])
    found, _ = timed(monkeypatch, config, 300, times, steps=steps)
    assert found == pytest.approx(seconds)


@pytest.mark.parametrize("threads", [0, 2])
def test_steps_are_timed_by_the_threads_of_the_run(monkeypatch, threads):
    calls = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    timed(monkeypatch, override(RunConfig(), [f"threads={threads}"]), 300, range(5))
    assert calls == [threads or 5, 5]


def fitted(seconds, each, *, rungs=None):
    """Fit to a time by a clock that stands still; returns settings and widths that were timed."""
    start = choose_settings(LOOK, "secu", "photos", Machine(2), clusters=10)
    asked = []

    def measure(config):
        asked.append(config.network.width)
        return each[len(asked) - 1]

    found = fit_to_time(start, seconds, measure, clock=lambda: 0.0, rungs=rungs)
    return found, asked


def test_more_than_enough_time_gives_four_times_the_epochs():
    found, asked = fitted(10**6, [1.0] * 4)
    assert MOST == 4
    assert (found.config.epochs, asked) == (4 * 200, [8, 16, 32, 64])


@pytest.mark.parametrize(
    ("factor", "asked", "width"),
    [(1.99, [8], 8), (2.0, [8, 16], 16), (2.5, [8, 16], 16)],
)
def test_a_wider_network_is_timed_where_it_may_fit(factor, asked, width):
    """The next takes at least twice as long; it is taken if it gets its epochs, all of them."""
    seconds = factor * 200 / SHARE * (1 + 1e-9)
    found, timed_widths = fitted(seconds, [1.0, factor])
    assert (timed_widths, found.config.network.width) == (asked, width)
    found, _ = fitted(seconds, [1.0, 1.001 * factor])
    assert found.config.network.width == 8
    assert found.config.epochs == int(factor * 200 + 1e-9)


def test_a_ladder_of_ones_own():
    start = choose_settings(LOOK, "secu", "photos", Machine(2), clusters=10).config
    found, asked = fitted(100 / SHARE, [1.0], rungs=[start])
    assert asked == [start.network.width]
    assert found.config.epochs == 100
    told = {choice.settings.partition(" = ")[0]: choice for choice in found.choices}
    assert told["epochs"].reason == "--time: an epoch takes 1.0 s, by timing a few steps"


def test_beginnings_keep_their_share_of_the_epochs():
    config = override(RunConfig(), ["epochs=40", "optim.warmup_epochs=8", "optim.frozen_epochs=2"])
    config = replace(config, starts=StartsConfig(count=3, epochs=10))
    shown = {}
    for epochs in (1, 2, 3, 4, 20, 80):
        found = lasting(config, epochs)
        starts = None if found.starts is None else found.starts.epochs
        optim = found.optim
        shown[epochs] = (
            *(optim.warmup_epochs, optim.frozen_epochs),
            *(starts, found.evaluation.every),
        )
    assert shown == {
        1: (0, 0, None, 1),
        2: (0, 1, 1, 1),
        3: (1, 2, 1, 1),
        4: (1, 2, 1, 1),
        20: (4, 2, 5, 4),
        80: (16, 2, 20, 16),
    }


@pytest.mark.parametrize(
    ("kind", "card", "n", "epochs"),
    [
        ("photographs", True, 10, 400),
        ("photographs", False, 10, 200),
        ("strokes", True, 10, 200),
        ("strokes", False, 10, 200),
        ("strokes", False, 1000, 75),
        ("photographs", True, 200, 375),
        ("strokes", True, 10**6, 10),
    ],
)
def test_epochs_see_as_many_samples_within_bounds(kind, card, n, epochs):
    assert epochs_by_count(15, n, 5000, kind, card=card) == epochs
