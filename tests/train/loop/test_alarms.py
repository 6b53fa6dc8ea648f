"""Alarms: each planted failure is named within one epoch, and healthy runs raise none."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import torch

from dualclust.algos.core.errors import DivergedError
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.loop import Run, alarms, train
from dualclust.train.loop import run as run_module
from dualclust.train.loop.alarms import FOLLOWS
from dualclust.train.methods._priced_heads import PricedHeads
from dualclust.train.methods.secu import SeCu
from dualclust.train.report.page import SYMPTOMS
from tests.second_device import DEVICE, second_device
from tests.train.runs import tiny, tiny_recipe, write_images
from tests.train.steps import counted_steps
from tests.train.trained import METHODS

N = 131
SMALL = ["epochs=8", "evaluation.every=99", "assignment.rounding=outward"]
OWN = {
    "secu": ["heads.clusters=[10]", "network.width=4", "network.hidden=32"],
    "coke": ["heads.clusters=[10]", "network.width=4", "network.hidden=32"],
    "propos": ["heads.clusters=[10]", "network.width=4", "network.hidden=32"],
    "gatcluster": [
        "epochs=40",  # its first quarter is not judged: clusters fill slowly
        "gatcluster.sub_batch=66",
        "gatcluster.n_init=1",
        "batch_size=66",
    ],
    "mi_margin": ["network.width=4", "batch_size=66"],
}
HEALTHY = 3
"""Epochs before something is planted; the next is judged by all alarms."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Settings, states and looks of runs of all methods after some healthy epochs."""
    source, found = write_images(tmp_path_factory.mktemp("data") / "images.npz", N), {}
    for method in METHODS:
        config = override(tiny_recipe(f"{method}_digits", source), [*SMALL, *OWN[method]])
        run = Run(config, "cpu")
        run.init()
        for _ in range(HEALTHY):
            assert "alarms" not in run.run_epoch(), run.metrics
        found[method] = config, deepcopy(run.state_dict()), run.watch.looks.clone()
    return found


def again(begun, method, *changes):
    """A run of its own at the end of the healthy epochs."""
    config, state, looks = begun[method]
    run = Run(override(config, list(changes)), "cpu")
    run.load_state_dict(deepcopy(state))
    run.watch.looks.copy_(looks)
    return run


def alarms_of(run, epochs=1):
    for _ in range(epochs):
        record = run.run_epoch()
    assert set(record.get("alarms", {})) <= set(SYMPTOMS)
    return list(record.get("alarms", {}))


def networks(run):
    online = getattr(run.method, "online_network", run.method.network)
    return {run.method.network, online}


def hook(modules, change):
    for module in modules:
        module.register_forward_hook(lambda _module, _inputs, out: change(out))


def test_healthy_epochs_raise_none(begun):
    for method in ("secu", "mi_margin"):
        assert alarms_of(again(begun, method)) == [], method


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", METHODS)
def test_healthy_runs_raise_none(method, seed):
    """Twenty runs on the digits, as their recipes are."""
    config = override(read_recipe(f"{method}_digits"), [f"seed={seed}", "evaluation.every=999"])
    run = Run(config, "cpu")
    run.init()
    while run.epoch < config.epochs - 1:
        assert "alarms" not in run.run_epoch(), run.metrics[-1]


def test_ids_are_looked_at_in_every_few_steps_and_losses_in_each(begun):
    watch = again(begun, "secu").watch
    assert watch.stride == 1
    watch.stride = 3
    watch.begin()
    ids, views = torch.arange(4), torch.rand(6, 4, 1, 8, 8)
    for number in range(6):
        before = watch.looks[:4].clone(), watch.pairs.clone()
        loss = torch.tensor(float("inf") if number == 4 else 1.0)
        watch.step(number, ids, views[number], loss)
        is_look = number in (0, 3)
        assert torch.equal(watch.looks[:4], before[0]) is not is_look, number
        assert torch.equal(watch.pairs, before[1]) is not is_look, number
    assert watch.where_bad() == " at step 5"


# What is planted is named ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_a_hundred_times_too_large(begun, method, monkeypatch):
    monkeypatch.setattr(alarms, "settled", lambda _: 2)
    right = run_module.learning_rate
    monkeypatch.setattr(run_module, "learning_rate", lambda *a, **more: 100 * right(*a, **more))
    assert alarms_of(again(begun, method))[:1] == ["exploding weights"]


@pytest.mark.parametrize("method", METHODS)
def test_constant_features(begun, method):
    run = again(begun, method)
    hook([network.encoder for network in networks(run)], lambda out: 0 * out + 1)
    assert alarms_of(run) == ["constant features"]


@pytest.mark.parametrize("method", METHODS)
def test_a_dead_head(begun, method):
    run = again(begun, method)
    heads = {
        "gatcluster": [run.method.network.predictor],
        "mi_margin": [getattr(run.method, "head", None)],
    }.get(method, [network.projector for network in networks(run)])
    hook(heads, lambda out: 0 * out + torch.arange(out.shape[-1]).to(out) / 10)
    assert alarms_of(run) == ["dead head"]


@pytest.mark.parametrize("method", ["secu", "gatcluster"])
def test_one_cluster(begun, method, monkeypatch):
    run = again(begun, method)
    if method == "secu":
        monkeypatch.setattr(
            PricedHeads, "assign", lambda self, s, p=None: torch.zeros(s.shape[:2]).long()
        )
    else:
        monkeypatch.setattr(alarms, "settled", lambda _: 2)
        first = 8.0 * torch.eye(10)[0]
        hook([run.method.network.predictor], lambda out: out + first)
    assert "one cluster" in alarms_of(run)


def test_a_cluster_that_stays_empty(begun):
    run = again(begun, "coke", "assignment.lower=0.0", "assignment.upper=inf")
    run.method.heads.padding[0, 0, 3] = -1e3
    assert alarms_of(run) == []  # it may come back
    assert alarms_of(run) == ["empty clusters"]


@pytest.mark.parametrize("method", ["secu", "coke"])
def test_prices_that_no_score_outweighs(begun, method):
    run = again(begun, method)
    run.method.heads.duals.lower[0, 0] = 50.0
    assert "saturated prices" in alarms_of(run)


@pytest.mark.parametrize("method", ["secu", "mi_margin"])
def test_a_loss_that_stays_at_ln_k(begun, method):
    if method == "secu":
        run = again(begun, method, "loss.temperature=1000.0")
    else:
        run = again(begun, method)
        hook([run.method.head], lambda out: 0.002 * out)
    assert alarms_of(run) == ["uniform predictions"]


@pytest.mark.parametrize("method", METHODS)
def test_ids_of_other_samples(begun, method, monkeypatch):
    run = again(begun, method)
    views = run.loader.views

    def shuffled(*rest, **more):
        for ids, images in views(*rest, **more):
            yield ids.flip(0), images

    monkeypatch.setattr(run.loader, "views", shuffled)
    assert alarms_of(run) == ["shuffled ids"]


def test_a_loss_that_is_no_number(tmp_path, monkeypatch):
    """The error, metrics.jsonl and the page say where; the checkpoint has whole epochs alone."""
    source, right = write_images(tmp_path / "images.npz", 65), SeCu.step
    calls = []

    def step(self, *rest):
        calls.append(rest)
        return right(self, *rest) * (float("nan") if len(calls) == 4 else 1.0)

    monkeypatch.setattr(SeCu, "step", step)
    with pytest.raises(DivergedError, match=r"the loss became nan in epoch 2 at step 2\. To fix"):
        train(tiny(source, "heads.clusters=[10]", "batch_size=33"), tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["alarms"] == {
        "not finite": "The loss became nan in epoch 2 at step 2"
    }
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Stopped in epoch 2 of 4" in page
    assert SYMPTOMS["not finite"].remedy.split(";")[0] in page


# How ---------------------------------------------------------------------------------------------


def test_steps_read_nothing_for_alarms_and_an_epoch_once(tmp_path):
    """On the second device, as everything else in a step; beside the figures of an epoch."""
    source = write_images(tmp_path / "images.npz", 97)
    found = []
    for batch in (49, 25):
        with second_device() as transfers, counted_steps(transfers) as steps:
            run = Run(tiny(source, "heads.clusters=[10]", f"batch_size={batch}"), str(DEVICE))
            run.init()
            run.run_epoch()
        steps.assert_nothing_crossed()
        lines = [n for line, n in transfers.reads.items() if "loop/alarms.py" in line]
        found.append(sum(lines))
    assert found == [1, 1]


def test_every_alarm_is_explained():
    named = set(FOLLOWS) | {name for names in FOLLOWS.values() for name in names}
    assert named | {"not finite", "shuffled ids"} == set(SYMPTOMS)
    assert all(text.endswith(".") for symptom in SYMPTOMS.values() for text in symptom)
