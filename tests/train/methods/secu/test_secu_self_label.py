"""What starts from a finished run: self-labeling, and a second stage of SeCu."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dualclust.algos.core.errors import MissingFileError, UsageError
from dualclust.train.config.run import RunConfig, load_config, override
from dualclust.train.loop import resume, train
from dualclust.train.methods._init_from import read_finished_run
from dualclust.train.methods.secu import SeCu
from dualclust.train.methods.self_label import SelfLabel
from dualclust.train.networks.network import build_network
from dualclust.train.networks.normalization import group_statistics
from tests.problems import unit_rows
from tests.train.methods.secu.test_secu_operations import Operations
from tests.train.printed_secu import softmax
from tests.train.runs import Interrupted, assert_same_run, interrupt_after, tiny

N, K, D, T = 60, 4, 6, 0.2


@pytest.fixture(scope="module")
def finished(source, tmp_path_factory):
    """A run of SeCu of a second."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(tiny(source), folder)
    return folder


def stage(finished, *changes):
    """Settings of self-labeling after `finished`."""
    config = load_config(finished / "config.toml")
    base = RunConfig(
        method="self_label",
        epochs=4,
        batch_size=32,
        threads=1,
        data=config.data,
        network=config.network,
        augment=config.augment,
        second=config.augment,
        evaluation=config.evaluation,
    )
    return override(
        base,
        [
            f"self_label.init_from={finished}",
            "self_label.fixed_epochs=2",
            "self_label.confidence=0.11",
            "heads.clusters=[10]",
            "loss.temperature=0.1",
            "optim.lr=0.05",
            "optim.frozen_epochs=0",
            *changes,
        ],
    )


def make(*changes):
    config = override(
        RunConfig(method="self_label"),
        [
            f"heads.clusters=[{K}]",
            f"heads.target={K}",
            f"loss.temperature={T}",
            "self_label.fixed_epochs=1",
            "network.width=2",
            "network.hidden=8",
            f"network.out_dim={D}",
            *changes,
        ],
    )
    return SelfLabel(config, build_network(config.network, (1, 8, 8)).double().train(), N)


# The step --------------------------------------------------------------------------------------


def printed(w, weak, strong, fixed, epoch, threshold):
    """Loss, labels, gradients in strong features and in unit centers; sample by sample."""
    labels, chosen, total = [], [], 0.0
    for x, y in zip(weak, fixed, strict=True):
        p = softmax(w @ x / T)
        labels.append(int(y) if epoch < 1 else int(p.argmax()))
        chosen.append(epoch < 1 or p.max() > threshold)
    count = max(sum(chosen), 1)
    dx, dw = np.zeros_like(strong), np.zeros_like(w)
    for i, (x, y) in enumerate(zip(strong, labels, strict=True)):
        if chosen[i]:
            p = softmax(w @ x / T)
            total -= math.log(p[y]) / count
            error = (p - np.eye(K)[y]) / T / count
            dx[i] = error @ w
            dw += np.outer(error, x)
    return total, labels, dx, dw, sum(chosen)


@pytest.mark.parametrize("threshold", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_step_is_the_printed_one(epoch, threshold, rng):
    method = make(f"self_label.confidence={threshold}")
    method.features = lambda views: views
    raw = rng.normal(size=(K, D))
    method.centers = torch.nn.Parameter(torch.tensor(raw))
    method.fixed[0] = torch.from_numpy(rng.integers(0, K, size=N))
    method.begin_epoch(epoch)
    counted = 0
    for ids in np.split(rng.permutation(N), [1, 24]):  # a batch of one image among them
        weak, strong = unit_rows(rng.normal(size=(2, len(ids), D)))
        leaf = [torch.tensor(view, requires_grad=True) for view in (weak, strong)]
        method.centers.grad = None
        loss = method.step(torch.from_numpy(ids), tuple(leaf))
        loss.backward()
        w = unit_rows(raw)
        total, labels, dx, dw, chosen = printed(
            w, weak, strong, method.fixed[0, ids].numpy(), epoch, threshold
        )
        counted += chosen
        assert loss.item() == pytest.approx(total, rel=1e-10)
        assert leaf[0].grad is None  # the weak view only says what to learn
        np.testing.assert_allclose(leaf[1].grad.numpy(), dx, rtol=1e-8, atol=1e-13)
        turned = (dw - (dw * w).sum(1, keepdims=True) * w) / np.linalg.norm(raw, axis=1)[:, None]
        np.testing.assert_allclose(method.centers.grad.numpy(), turned, rtol=1e-8, atol=1e-13)
        if epoch >= 1:
            assert method.labels[0, ids].tolist() == labels
    assert method.report() == {"confident": pytest.approx(counted / N)}
    if threshold == 0.6 and epoch:
        assert 0 < counted < N
    assert method.counted.dtype == torch.float64


def test_an_epoch_that_was_left_goes_on_with_its_count():
    method, other = make(), make()
    method.begin_epoch(1)
    views = tuple(torch.randn(2, 12, 1, 8, 8, dtype=torch.float64).unbind())
    for first, count in ((0, 12), (12, 24)):
        method.counted.fill_(first)
        method.options = replace(method.options, confidence=0.0)
        method.step(torch.arange(12), views)
        assert float(method.counted) == count
    state = {name: deepcopy(value) for name, value in method.epoch_state().items()}
    other.load_state_dict(method.state_dict())
    other.resume_epoch(1, state)
    assert other.epoch == 1
    assert other.report() == method.report() == {"confident": 24 / N}
    method.step(torch.arange(12), views)
    other.step(torch.arange(12), views)
    a, b = (group_statistics(one.network) for one in (method, other))
    assert a
    assert a.keys() == b.keys()
    for name, tables in a.items():
        assert all(torch.equal(x, y) for x, y in zip(tables, b[name], strict=True))
    method.begin_epoch(2)
    assert float(method.counted) == 0.0


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_step_reads_no_value_back(epoch):
    method = make()
    method.begin_epoch(epoch)
    views = tuple(torch.randn(2, 12, 1, 8, 8, dtype=torch.float64).unbind())
    with Operations() as seen:
        method.step(torch.arange(12), views).backward()
    assert seen.kernels.total() > 0
    assert method.capturable
    assert seen.waiting == set()


def test_several_heads_are_refused():
    with pytest.raises(UsageError, match=r"one head, got heads.clusters=\[4, 5\]"):
        make("heads.clusters=[4, 5]")


# From a finished run ---------------------------------------------------------------------------


def test_self_labeling_starts_from_the_finished_run(finished, tmp_path):
    """At a rate of nearly 0 the labels stay those of the run; the fixed ones are them."""
    result = train(stage(finished, "optim.lr=1e-12", "epochs=1"), tmp_path / "run")
    state = read_finished_run(tmp_path / "run", "key", methods=["self_label"]).state
    before = read_finished_run(finished, "key", methods=["secu"])
    torch.testing.assert_close(
        state["centers"], F.normalize(before.state["centers"][0, :10], dim=1), rtol=0, atol=1e-6
    )
    assert state["fixed"].unique().numel() == 10
    assert result.metrics[0]["confident"] == 1.0


def test_self_labeling_learns_counts_and_resumes(finished, tmp_path):
    result = train(stage(finished), tmp_path / "whole")
    shares = [record["confident"] for record in result.metrics]
    assert shares[:2] == [1.0, 1.0]
    assert 0 < shares[2] <= 1
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]
    with pytest.raises(Interrupted):
        train(stage(finished), tmp_path / "parts", progress=interrupt_after(3))
    resume(tmp_path / "parts")
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_a_second_stage_keeps_network_and_target_head(finished, source):
    config = tiny(source, f"secu.init_from={finished}", "heads.clusters=[10]")
    network = build_network(config.network, (1, 8, 8), seed=99)
    method = SeCu(config, network, 241)

    swept = []
    method.start(lambda *args, **kwargs: swept.append(args))
    assert swept == []  # no head is left to start by k-means
    state = read_finished_run(finished, "key", methods=["secu"]).state
    for name, tensor in method.network.state_dict().items():
        assert torch.equal(tensor, state["network"][name])
    assert method.centers.shape == (1, 10, 8)
    expected = F.normalize(state["centers"][0, :10], dim=1)
    torch.testing.assert_close(method.centers.detach()[0], expected)


def test_a_head_that_the_run_has_not_starts_by_k_means(finished, source):
    config = tiny(source, f"secu.init_from={finished}", "heads.clusters=[7, 10]")
    method = SeCu(config, build_network(config.network, (1, 8, 8)), 241)
    before = method.centers.detach().clone()
    rows = F.normalize(torch.randn(241, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    method.start(lambda *args, **kwargs: rows)
    assert not torch.equal(method.centers.detach()[0, :7], before[0, :7])
    expected = read_finished_run(finished, "key", methods=["secu"]).state["centers"][0, :10]
    torch.testing.assert_close(method.centers.detach()[1], F.normalize(expected, dim=1))


def test_two_stages_by_the_loop(finished, source, tmp_path):
    config = tiny(source, f"secu.init_from={finished}", "heads.clusters=[10]", "epochs=2")
    result = train(config, tmp_path / "run")
    assert result.prediction.assignment.violation == 0


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (["self_label.init_from=nowhere"], MissingFileError, r"got '.*nowhere', which holds none"),
        (["network.hidden=17"], UsageError, r"the network differs .* copy the table \[network\]"),
        (["heads.target=9", "heads.clusters=[9]"], UsageError, r"heads have \[10, 20\]"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(
    finished, tmp_path, changes, error, words
):
    with pytest.raises(error, match=words):
        train(stage(finished, *changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_finished_is_refused(source, tmp_path):
    with pytest.raises(Interrupted):
        train(tiny(source), tmp_path / "first", progress=interrupt_after(2))
    with pytest.raises(UsageError, match=r"has had 2 of 4 epochs\. To fix this, finish it"):
        train(stage(tmp_path / "first"), tmp_path / "run")


def test_a_run_of_another_method_is_refused(finished, tmp_path):
    train(stage(finished, "epochs=1"), tmp_path / "first")
    with pytest.raises(UsageError, match=r"must be a run of secu, got .* of self_label"):
        train(stage(tmp_path / "first"), tmp_path / "run")
