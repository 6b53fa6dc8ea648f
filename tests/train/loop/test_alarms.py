"""Alarms: each planted failure is named within one epoch, and healthy runs raise none."""

from __future__ import annotations

import json
import math
from copy import deepcopy

import pytest
import torch

from dualclust.algos.core.errors import DivergedError
from dualclust.train.config.run import override
from dualclust.train.loop import Run, alarms, train
from dualclust.train.loop import run as run_module
from dualclust.train.loop.loader import Loader
from dualclust.train.report.page import SYMPTOMS
from tests.train.runs import tiny_recipe
from tests.train.trained import METHODS

SMALL = {
    "secu": ["heads.clusters=[10]", "network.width=4"],
    "coke": ["heads.clusters=[10]", "network.width=4"],
    "propos": ["heads.clusters=[10]", "network.width=4"],
    "gatcluster": ["gatcluster.sub_batch=60", "gatcluster.n_init=1", "batch_size=120"],
    "mi_margin": ["network.width=4"],
}
HEALTHY = 3  # epochs before something is planted; the last is the first that is judged


@pytest.fixture(scope="module")
def begun(source):
    """Settings and states of runs of all methods after some healthy epochs."""
    found = {}
    for method in METHODS:
        config = tiny_recipe(f"{method}_digits", source, "epochs=8", "evaluation.every=99")
        config = override(config, SMALL[method])
        run = Run(config, "cpu")
        run.init()
        for _ in range(HEALTHY):
            assert "alarms" not in run.run_epoch(), run.metrics
        found[method] = config, deepcopy(run.state_dict()), run.watch.looks.clone()
    return found


def again(begun, method):
    """A run of its own at the end of the healthy epochs."""
    config, state, looks = begun[method]
    run = Run(config, "cpu")
    run.load_state_dict(deepcopy(state))
    run.watch.looks.copy_(looks)
    return run


def alarm_of(run, *, epochs=1):
    for _ in range(epochs):
        record = run.run_epoch()
    return record.get("alarms", {})


@pytest.mark.parametrize("method", METHODS)
def test_healthy_epochs_raise_none(begun, method):
    assert alarm_of(again(begun, method), epochs=2) == {}


# What is planted is named ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_a_hundred_times_too_large(begun, method, monkeypatch):
    right = run_module.learning_rate
    monkeypatch.setattr(
        run_module, "learning_rate", lambda *rest, **more: 100 * right(*rest, **more)
    )
    try:
        found = list(alarm_of(again(begun, method)))
    except DivergedError as error:
        found = ["not finite"]
        assert "in epoch 4" in str(error)
    print(method, found)
    assert set(found) & {"exploding weights", "not finite", "constant features"}
