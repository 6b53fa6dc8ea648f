"""What a step asks of the device: as many operations for ten heads as for two, no value read."""

from collections import Counter

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods.secu import SeCu
from dualclust.train.networks.network import build_network

TWO, TEN = (10, 20), tuple(range(10, 110, 10))
# Operations that make the host wait for the device, or whose result's size depends on values.
WAITING = (
    "_local_scalar_dense",
    "item",
    "nonzero",
    "unique",
    "masked_select",
    "is_nonzero",
    "equal",
)
# What reaches the dispatcher and launches no kernel: fresh memory, and views under other names.
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "detach", "_unsafe_view"}
LIMIT = 600
UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException)


class Operations(TorchDispatchMode):
    """Counts what reaches the dispatcher below autograd; `kernels` are those that do some work."""

    def __init__(self):
        super().__init__()
        self.counts, self.kernels = Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().removeprefix("aten::").partition(".")[0]
        self.counts[name] += 1
        if not function.is_view and name not in FREE:
            self.kernels[name] += 1
        return function(*args, **(kwargs or {}))

    @property
    def waiting(self):
        return {name for name in self.counts if any(word in name for word in WAITING)}


def make(clusters, n=50_000, changes=(), network="resnet18-cifar"):
    config = override(
        RunConfig(),
        [
            f"heads.clusters={list(clusters)}",
            f"heads.target={clusters[0]}",
            f"network.name={network}",
            "network.width=4",
            "network.hidden=16",
            "network.out_dim=8",
            *changes,
        ],
    )
    return SeCu(config, build_network(config.network, (3, 32, 32)).train(), n)


def operations(method, epoch, b=4):
    """Operations of features, of the whole forward pass, and of the backward pass of a step."""
    method.begin_epoch(epoch)
    ids, views = torch.arange(b), (torch.randn(b, 3, 32, 32), torch.randn(b, 3, 32, 32))
    with Operations() as features:
        method.terms(views, b)
    with Operations() as forward:
        loss = method.step(ids, views)
    with Operations() as backward:
        loss.backward()
    return features, forward, backward


VARIANTS = {
    "measured steps": [],
    "published steps": ["assignment.steps=secu-cifar"],
    "entropy": ["secu.constraint=entropy"],
    "entropy, published first pass": ["secu.constraint=entropy", "secu.first_pass=published"],
    "predictor": ["network.predictor=16"],
    "certified centers": ["secu.centers=certified"],
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("epoch", [0, 1])
def test_ten_heads_take_as_many_operations_as_two(epoch, changes):
    """On the smallest network: what heads ask for does not depend on the one below them."""
    few, many = (
        operations(make(heads, changes=changes, network="digits-cnn"), epoch)
        for heads in (TWO, TEN)
    )
    for a, b in zip(few, many, strict=True):
        assert a.counts == b.counts


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("n", [450, 50_000])  # a batch of several chunks, and of one
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_step_reads_no_value_back(epoch, n, changes):
    method = make((10, 25, 50), n, ["assignment.upper=inf", *changes], network="digits-cnn")
    assert method.capturable
    for part in operations(method, epoch, b=12):
        assert part.waiting == set()


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_step_runs_on_tensors_without_values(epoch, changes):
    method = make(TEN, changes=changes, network="digits-cnn")
    method.begin_epoch(epoch)
    with FakeTensorMode(allow_non_fake_inputs=True):
        loss = method.step(torch.arange(4), (torch.randn(4, 3, 32, 32),) * 2)
    assert loss.shape == ()


READS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool((x > 0).all()),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "mask": lambda x: x[x > 1],
}


@pytest.mark.parametrize("name", READS)
def test_the_checks_see_a_value_read_back(name):
    x = torch.arange(4.0)
    with Operations() as seen:
        READS[name](x)
    assert seen.waiting or name == "mask"  # which hides its `nonzero` inside `index`
    with FakeTensorMode(), pytest.raises(UNKNOWN):
        READS[name](torch.empty(4))


@pytest.mark.parametrize("name", ["view", "transpose", "unsqueeze", "expand", "detach", "empty"])
def test_what_launches_no_kernel_is_not_counted(name):
    x = torch.zeros(2, 3)
    free = {
        "view": lambda: x.view(6),
        "transpose": lambda: x.T,
        "unsqueeze": lambda: x[:, None],
        "expand": lambda: x[:1].expand(4, 3),
        "detach": x.detach,
        "empty": lambda: torch.empty(3),
    }
    with Operations() as seen:
        free[name]()
    assert seen.counts.total() > 0
    assert seen.kernels.total() == 0
    with Operations() as seen:
        (x + 1).clone()
    assert seen.kernels == Counter(add=1, clone=1)


def test_operations_of_a_step_with_ten_heads(capsys):
    """Views and fresh memory are no work: what is counted launches at least one kernel."""
    features, forward, backward = (part.kernels.total() for part in operations(make(TEN), 1))
    with capsys.disabled():
        print(
            f"\nten heads, resnet18-cifar: {forward + backward} operations a step "
            f"(network forward {features}, heads forward {forward - features}, "
            f"backward {backward})"
        )
    assert forward + backward <= LIMIT


def test_operations_grow_with_the_chunks_of_a_batch_alone():
    method = make(TEN, network="digits-cnn")
    method.begin_epoch(1)
    ids, views = torch.arange(12), (torch.randn(12, 3, 32, 32), torch.randn(12, 3, 32, 32))
    method.step(ids, views)  # the first pass makes room for the statistics of each view
    counts = []
    for chunk in (12, 6, 4):
        method.heads.rule = method.heads.rule._replace(chunk_size=chunk)
        with Operations() as seen:
            method.step(ids, views)
        counts.append(seen.counts.total())
    one, two, three = counts
    assert three - two == two - one
    assert 0 < two - one <= 30


CUDA = [torch.device("cuda", 0)] if torch.cuda.is_available() else []


@pytest.mark.parametrize("device", CUDA or [torch.device("cpu")], ids=str)
def test_a_step_makes_the_host_wait_nowhere(device):
    """On CUDA the driver watches; on the CPU there is nothing to wait for, but the step runs."""
    config = make(TEN).config
    method = SeCu(config, build_network(config.network, (3, 32, 32)).to(device).train(), 50_000)
    ids = torch.arange(8, device=device)
    views = tuple(torch.randn(8, 3, 32, 32, device=device) for _ in range(2))
    method.step(ids, views).backward()  # the first call sets up cuDNN
    if CUDA:
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
    try:
        method.step(ids, views).backward()
    finally:
        if CUDA:
            torch.cuda.set_sync_debug_mode("default")
