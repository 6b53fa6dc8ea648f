"""Sub-batches of batch normalization, what a step asks of the device, and runs from end to end."""

import copy

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dualclust.algos.core.errors import UsageError
from dualclust.cli.train import read_recipe
from dualclust.common.ranks import ALONE, Ranks
from dualclust.train.config.run import ExecutionConfig
from dualclust.train.loop import Run, resume, train
from dualclust.train.loop.execution import Execution
from dualclust.train.methods.propos._passes import SubBatches, in_sub_batches
from dualclust.train.networks.network import build_network
from dualclust.train.networks.normalization import BatchNorm, merge_groups
from tests.train.methods.secu.test_secu_operations import Operations
from tests.train.runs import (
    Interrupted,
    assert_same_run,
    interrupt_after,
    tiny_recipe,
    write_images,
)
from tests.train.state.test_distributed import run_ranks
from tests.train.tape import capture

ALL = [
    "propos.queue=40",
    "propos.resample=true",
    "propos.ema_schedule=cosine",
    "propos.reassign=2",
    "propos.batch_norm=shuffled",
    "propos.noise=sphere",
]


def tiny(source, *changes):
    return tiny_recipe(
        "propos_digits",
        source,
        "network.width=2",
        "network.hidden=16",
        "network.out_dim=8",
        "network.predictor=16",
        *changes,
    )


def network(dtype=torch.float64):
    made = build_network(read_recipe("propos_digits").network, (1, 8, 8))
    return made.to(dtype).train()


# Sub-batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sub_batches_are_passes_of_their_own(count):
    """Features of each, and running statistics as two passes over whole batches would leave."""
    net = network()
    plain, views = copy.deepcopy(net), torch.randn(2, 12, 1, 8, 8, dtype=torch.float64)
    found = in_sub_batches(net, net, views, count)
    size, means = 12 // count, []
    for v in range(2):
        for j in range(count):
            rows = slice(j * size, (j + 1) * size)
            torch.testing.assert_close(found[v, rows], plain(views[v, rows]))
            means.append(plain.encoder[0](views[v, rows]).mean((0, 2, 3)))
    merge_groups(net)
    layer = next(layer for layer in net.modules() if isinstance(layer, BatchNorm))
    expected = (1 - 0.9**2) * torch.stack(means).mean(0)
    torch.testing.assert_close(layer.running_mean, expected)
    assert layer.momentum == pytest.approx(0.1)


def test_the_target_sees_another_order_and_returns_this_one():
    net = network()
    passes = SubBatches(ALONE, [net], count=2, batch_size=12, key=3)
    views = torch.randn(2, 12, 1, 8, 8, dtype=torch.float64)
    step = torch.tensor(5)
    seen = []
    hook = net.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    found = passes.target(net, views, 12, step)
    hook.remove()
    # Rows of a pass are interleaved: image i of view v in sub-batch j is row (i * 2 + v) * 2 + j.
    images = seen[0].unflatten(0, (6, 2, 2)).movedim(0, 2).flatten(1, 2)
    order = [int((views[0] == image).flatten(1).all(1).nonzero()) for image in images[0]]
    assert sorted(order) == list(range(12)) != order
    expected = in_sub_batches(net, net, views[:, order], 2)
    torch.testing.assert_close(found[:, order], expected)
    assert torch.equal(found, passes.target(net, views, 12, step))
    assert not torch.allclose(found, passes.target(net, views, 12, step + 1))
    assert not torch.allclose(found, passes.online(net, views, 12))


@pytest.mark.parametrize(
    ("ranks", "module", "message"),
    [
        (Ranks(0, 3), network, "multiple of the number of ranks, 3"),
        (ALONE, lambda: nn.Sequential(nn.BatchNorm2d(3)), "has PyTorch's own"),
    ],
)
def test_sub_batches_that_cannot_be(ranks, module, message):
    with pytest.raises(UsageError, match=message):
        SubBatches(ranks, [module()], count=4, batch_size=16, key=0)


def test_shuffled_epochs_have_whole_batches(source):
    run = Run(tiny(source, "propos.batch_norm=shuffled", "batch_size=32"), "cpu")
    batches = [run.loader.batches(epoch, run.method.order(epoch)) for epoch in (0, 1)]
    assert [len(ids) for ids in batches[0]] == [32] * 7  # of 241 images
    assert run.method.total_steps == 7 * run.config.epochs
    assert len(torch.cat(batches[0]).unique()) == 7 * 32
    assert not torch.equal(torch.cat(batches[0]), torch.cat(batches[1]))
    plain = Run(tiny(source), "cpu")
    assert plain.method.total_steps == len(plain.loader.batches(0)) * plain.config.epochs


RANKS = {"global-each": 2, "shuffled-each": 4, "shuffled-joint": 2}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Runs of 61 images by one process and by several, of each mode."""
    source = write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)
    runs = {}
    for name, world in RANKS.items():
        mode, together = name.split("-")
        config = tiny(
            source,
            *ALL,
            f"propos.batch_norm={mode}",
            f"propos.view_norm={together}",
            "epochs=1",
            "optim.warmup_epochs=0",
            "batch_size=16",
            "execution.precision=float64",
        )
        runs[name] = config, (1, world)
    return run_ranks(tmp_path_factory.mktemp("ranks"), runs)


@pytest.mark.parametrize("run", RANKS)
def test_ranks_are_one_process(run, ended):
    """Labels and order equal, all of the state to 1e-6 in float64."""
    found = ended[run].arrays()
    one = found[1, 0]
    assert any("target.encoder" in name and "running_mean" in name for name in one)
    for (count, rank), arrays in found.items():
        for name, expected in one.items():
            where = f"{name} of rank {rank} of {count}"
            if np.issubdtype(expected.dtype, np.integer):
                np.testing.assert_array_equal(arrays[name], expected, err_msg=where)
            else:
                np.testing.assert_allclose(
                    arrays[name], expected, rtol=1e-6, atol=1e-8, err_msg=where
                )


# The device -------------------------------------------------------------------------------------


def prepared(source, *changes):
    run = Run(tiny(source, "optim.warmup_epochs=0", *changes), "cpu")
    run.init()
    run.method.begin_epoch(0, run.loader.apply_to_all)
    ids = torch.arange(32)
    return run, ids, tuple(run.loader.view(ids, 0, 0, v) for v in (0, 1))


@pytest.mark.parametrize("changes", [[], ALL], ids=["recipe", "all options"])
def test_a_step_reads_no_value_back(source, changes):
    run, ids, views = prepared(source, *changes)
    with Operations() as seen:
        run.method.step(ids, views).backward()
        run.method.after_step()
    assert run.method.capturable
    assert seen.waiting == set()
    assert seen.counts.total() > 100


def test_a_step_runs_on_tensors_without_values(source):
    run, ids, views = prepared(source, "propos.batch_norm=shuffled")
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = tuple(torch.empty(view.shape) for view in views)
        loss = run.method.step(torch.empty(ids.shape, dtype=torch.int64), fake)
    assert loss.shape == ()


def test_a_captured_step_is_the_eager_one(source):
    """Noise, orders, average, queue and warm-up move on in a graph as they do without one.

    The rate is constant within an epoch: PyTorch's SGD on the CPU would read a tensor's value.
    """
    rates = ["optim.schedule=constant", "optim.frozen_epochs=1", "optim.warmup_epochs=0"]
    settings = [*ALL, *rates, "execution.precision=float64", "epochs=2"]
    losses, states = [], []
    for graph in (False, True):
        run = Run(tiny(source, *settings), "cpu")
        if graph:
            options = ExecutionConfig(step="graph", precision="float64")
            run.execution = Execution(options, torch.device("cpu"), capture)
        losses.append([run.run_epoch()["loss"] for _ in range(2)])
        states.append(run.method.state_dict())
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)
    assert torch.equal(states[0]["labels"], states[1]["labels"])
    assert torch.equal(states[0]["steps"], states[1]["steps"])
    for key in ("online", "target", "queue"):
        for name, value in states[0][key].items():
            torch.testing.assert_close(states[1][key][name], value, rtol=1e-7, atol=1e-9)


def test_a_compiled_network_has_a_compiled_target(source, monkeypatch):
    monkeypatch.setattr(Execution, "backend", "aot_eager")
    run = Run(tiny(source, "execution.step=compile"), "cpu")
    for net in (run.method.online_network, run.method.target_network):
        assert net._compiled_call_impl is not None


# Runs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(tiny(source, *ALL), folder)
    return folder


@pytest.mark.parametrize("epoch", [2, *(pytest.param(e, marks=pytest.mark.slow) for e in (1, 3))])
def test_a_resumed_run_is_the_run(source, straight, tmp_path, epoch):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(source, *ALL), folder, progress=interrupt_after(epoch))
    resume(folder)
    assert_same_run(folder, straight)


def test_what_a_run_leaves_is_the_target_network(source, straight):
    weights = safetensors.torch.load_file(straight / "weights.safetensors")
    run = Run(tiny(source, *ALL), "cpu")
    run.method.network.load_state_dict(weights, strict=True)
    assert not any("predictor" in name for name in weights)
