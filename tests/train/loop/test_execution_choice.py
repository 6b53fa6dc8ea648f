"""How steps run where the settings leave it open, and what is done without where it fails."""

import pytest
import torch

from dualclust.common.ranks import ALONE
from dualclust.train.config.run import ExecutionConfig, NetworkConfig
from dualclust.train.loop.execution import COMPILED_FROM, SHORT, Execution, choose_step
from dualclust.train.loop.run_folder import RunWarning
from dualclust.train.methods import METHODS
from dualclust.train.methods.base import Batch, ParameterGroup
from dualclust.train.networks.network import build_network
from tests.train.loop.test_execution_steps import CPU, Method, batches, fake_capture

SECU = {"method": METHODS["secu"], "graphs": True, "alone": True, "per_epoch": 391, "epochs": 401}


def chosen(step="auto", **changes):
    return choose_step(ExecutionConfig(step=step), **{**SECU, **changes})


@pytest.mark.parametrize(
    ("changes", "step", "why"),
    [
        ({}, "compiled-graph", "156,791 of them repay"),
        ({"epochs": 10}, "graph", "3,910 do not repay"),
        ({"graphs": False}, "eager", "the device has no graphs"),
        ({"alone": False}, "eager", "ranks add up their gradients"),
        ({"method": METHODS["graph"]}, "eager", "the method fits at once"),
        ({"method": type("M", (METHODS["secu"],), {"capturable": False})}, "eager", "on the host"),
        ({"per_epoch": SHORT - 1}, "eager", "an epoch, which captures its own graph, has 9"),
    ],
)
def test_what_is_open_is_chosen_by_device_method_and_length(changes, step, why):
    found = chosen(**changes)
    assert found.step == step
    assert why in str(found)
    # What the settings name is done, whatever it costs.
    assert chosen("compile", **changes).step == "compile"


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.by_steps])
def test_each_method_is_a_graph_where_there_are_some(name):
    assert chosen(method=METHODS[name]).step == "compiled-graph"


def test_compiling_begins_at_a_number_of_steps():
    steps = [
        chosen(per_epoch=per_epoch, epochs=COMPILED_FROM // 100).step
        for per_epoch in (SHORT - 1, SHORT, 99, 100)
    ]
    assert steps == ["eager", "graph", "graph", "compiled-graph"]


def auto(capture=None, **size):
    """An execution that has chosen for a method of this test."""
    execution = Execution(ExecutionConfig(precision="float64"), CPU, capture)
    kind = type("Kind", (Method,), {"by_steps": True})
    execution.choose(kind, alone=True, **{"per_epoch": 100, "epochs": 1, **size})
    return execution


def test_a_choice_is_told_once_and_only_where_there_was_one():
    execution = auto(fake_capture([]))
    assert execution.captured
    assert execution.tell().startswith("steps run as 'graph', since the device has graphs")
    assert execution.tell() == ""
    assert auto().tell() == ""
    assert not auto().captured


def refusing(function):
    """As CUDA: what reads a value within a capture ends it."""
    read = torch.ops.aten._local_scalar_dense.default

    class Refusing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, called, types, args=(), kwargs=None):
            if called is read:
                msg = "operation not permitted when stream is capturing"
                raise RuntimeError(msg)
            made = called(*args, **(kwargs or {}))
            return made

    before = [parameter.detach().clone() for parameter in function.parameters]
    with Refusing():
        function()
    for parameter, kept in zip(function.parameters, before, strict=True):
        parameter.data.copy_(kept)
    raise AssertionError


class Reading(Method):
    """A method whose step reads a value, and says that it does not."""

    def losses(self, batch):
        float(self.w.detach().sum())
        yield from super().losses(batch)


def test_a_step_that_cannot_be_captured_goes_on_without():
    """The same numbers as without a graph, one warning, and no second attempt."""
    ours, theirs = Reading(), Reading()
    tried = []

    def capture(function):
        tried.append(function)
        function.parameters = [ours.w, ours.center]
        return refusing(function)

    execution, plain = auto(capture), Execution(ExecutionConfig(), CPU)
    execution.tell()
    optimizers = ours.optimizer(), theirs.optimizer()
    execution.begin_epoch(ours, optimizers[0])
    with pytest.warns(
        RunWarning, match="'eager', since a graph of one failed: RuntimeError: operat"
    ):
        found = [execution.train_step(ours, optimizers[0], batch) for batch in batches()]
    expected = [plain.train_step(theirs, optimizers[1], batch) for batch in batches()]
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))
    torch.testing.assert_close(ours.w, theirs.w)
    assert len(tried) == 1
    assert not execution.captured
    assert "a graph of one failed" in execution.tell()
    asked = Execution(ExecutionConfig(step="graph", precision="float64"), CPU, capture)
    with pytest.raises(RuntimeError, match="stream is capturing"):
        [asked.train_step(ours, optimizers[0], batch) for batch in batches()]


class Learning(Method):
    """Two steps on what a network makes of a view."""

    def __init__(self, network):
        super().__init__()
        self.network, self.ranks = network, ALONE

    def parameter_groups(self):
        return [ParameterGroup(list(self.network.parameters()))]

    def losses(self, batch):
        for _ in range(2):
            yield self.network(batch.views[0]).square().sum()


def learning(step, capture=None, steps=2, kind=Execution):
    torch.compiler.reset()
    network = build_network(NetworkConfig(width=2, hidden=4, out_dim=4), (1, 8, 8))
    execution = kind(ExecutionConfig(step=step), CPU, capture)
    if step == "auto":
        kind = type("Kind", (Method,), {"by_steps": True})
        execution.choose(kind, alone=True, per_epoch=COMPILED_FROM, epochs=1)
    method = Learning(execution.prepare(network))
    optimizer = method.optimizer()
    rows = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    batch = Batch(torch.arange(6), (rows,), (torch.tensor(0.0),))
    losses = [float(execution.train_step(method, optimizer, batch)) for _ in range(steps)]
    return execution, losses, network.state_dict()


class Broken(Execution):
    """With a compiler that fails whatever it gets."""

    @staticmethod
    def backend(graph, inputs):
        msg = "no such instruction\non this card"
        raise RuntimeError(msg)


def test_a_network_that_cannot_be_compiled_goes_on_without():
    """The same numbers, parameters and statistics as eagerly, and one warning."""
    _, expected, weights = learning("eager", steps=3)
    failed = "'graph', since compiling the network failed: BackendCompilerFailed"
    with pytest.warns(RunWarning, match=failed) as said:
        execution, losses, found = learning("auto", fake_capture([]), steps=3, kind=Broken)
    assert len(said) == 1
    assert losses == expected
    for name, value in weights.items():
        assert torch.equal(found[name], value), name
    assert execution.captured
    assert "no such instruction" in execution.tell()
    with pytest.raises(RuntimeError, match="no such instruction"):
        learning("compile", kind=Broken)


@pytest.mark.slow(reason="PyTorch's own compiler is loaded")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's compiler
def test_without_a_compiler_of_the_machine_a_step_goes_on_without(monkeypatch, tmp_path):
    """PyTorch's own looks for one of C++ and finds none."""
    _, expected, _ = learning("eager")
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (str(tmp_path / "no-compiler"),))
    monkeypatch.setattr("torch._inductor.config.force_disable_caches", True)
    with pytest.warns(RunWarning, match="'graph', since compiling the network failed: "):
        _, losses, _ = learning("auto", fake_capture([]))
    assert losses == expected


def test_passes_in_training_of_one_length_are_compiled():
    seen = []

    def backend(graph, inputs):
        seen.append([len(x) for x in inputs if x.ndim == 4 and x.shape[1:] == (1, 8, 8)])
        return graph.forward

    torch.compiler.reset()
    network = build_network(NetworkConfig(width=2, hidden=4, out_dim=4), (1, 8, 8))
    network.compile_with(backend)
    rows = torch.rand(6, 1, 8, 8)
    network.eval()(rows)
    network.train()
    for length in (5, 6, 4, 5):
        network(rows[:length])
    assert seen == [[5]]


# -- convolutions


def test_convolutions_search_on_cuda_alone_and_what_was_set_comes_back():
    cudnn = torch.backends.cudnn

    def within(step, device, *, deterministic=False):
        cudnn.deterministic = deterministic
        try:
            with Execution(ExecutionConfig(step=step), torch.device(device)).searching():
                return cudnn.benchmark
        finally:
            cudnn.deterministic = False
            assert not cudnn.benchmark

    assert within("graph", "cuda")
    assert within("compile", "cuda:1")
    assert not within("compile", "cpu")
    assert not within("eager", "cuda")
    assert not within("graph", "cuda", deterministic=True)
    with (
        pytest.raises(ZeroDivisionError),
        Execution(ExecutionConfig(step="graph"), torch.device("cuda")).searching(),
    ):
        1 / 0  # noqa: B018
    assert not cudnn.benchmark
