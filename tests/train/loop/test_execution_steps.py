"""How steps are computed: what is prepared and converted, and when a step is captured."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import ExecutionConfig
from dualclust.train.loop.execution import Execution
from dualclust.train.methods.base import Batch, ParameterGroup

CPU = torch.device("cpu")


class Network(torch.nn.Module):
    """A network that records what it is told."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(2, 3, 3)
        self.autocast, self.blocks, self.compiled = None, False, []

    def compile_with(self, backend, *, or_plain):
        self.compiled.append((backend, or_plain))


def prepared(**options):
    network = Network().eval()
    assert Execution(ExecutionConfig(**options), CPU).prepare(network) is network
    assert network.training
    weight = network.convolution.weight
    last = weight.is_contiguous(memory_format=torch.channels_last)
    return weight.dtype, network.autocast, network.blocks, last, network.compiled


def test_a_network_is_prepared_as_the_settings_say():
    plain = torch.float32, None, False, False, []
    assert prepared() == plain
    assert prepared(precision="float64") == (torch.float64, *plain[1:])
    assert prepared(precision="bfloat16") == (torch.float32, torch.bfloat16, *plain[2:])
    assert prepared(channels_last=True) == (torch.float32, None, True, True, [])
    assert prepared(step="compile") == (*plain[:-1], [("inductor", False)])


def test_images_are_converted_and_rows_have_no_channels():
    images, rows = torch.rand(2, 3, 4, 5), torch.rand(2, 3)
    for last in (False, True):
        execution = Execution(ExecutionConfig(channels_last=last, precision="float64"), CPU)
        found = execution.convert(images)
        assert found.dtype == torch.float64
        assert found.is_contiguous(memory_format=torch.channels_last) == last
        assert torch.equal(found, images.double())
        assert torch.equal(execution.convert(rows), rows.double())


class Method:
    """Two losses of a batch that move a parameter by its gradient, and one that never learns."""

    capturable, may_read = True, True
    config = SimpleNamespace(method="of this test")

    def __init__(self, world_size=1):
        self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
        self.center = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.idle = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        self.summed, self.steps = [], torch.zeros((), dtype=torch.int64)
        self.ranks = SimpleNamespace(world_size=world_size, sum_gradients=self.sum_gradients)

    def parameter_groups(self):
        return [
            ParameterGroup([self.w, self.idle]),
            ParameterGroup([self.center], local=False),
        ]

    def sum_gradients(self, params):
        names = {id(self.w): "w", id(self.center): "center", id(self.idle): "idle"}
        self.summed.append([names[id(p)] for p in params])

    def losses(self, batch):
        x = batch.views[0].sum(0) * batch.ids.sum() + batch.draws[0]
        yield ((self.w * x).sum() + self.center.sum() * 0.5).float()
        yield (self.w * self.w).sum()

    def after_step(self):
        self.steps += 1

    def optimizer(self):
        tables = [{"params": group.params, "lr": 0.01} for group in self.parameter_groups()]
        return torch.optim.SGD(tables, momentum=0.5, weight_decay=0.1)


def fake_capture(log):
    """What a graph does: the function does not run before the first replay."""

    def capture(function):
        result = torch.zeros((), dtype=torch.float64)

        def replay():
            log.append("replay")
            result.copy_(function())

        log.append("capture")
        return SimpleNamespace(replay=replay), result

    return capture


def batches():
    """Batches of two lengths in turns."""
    generator = torch.Generator().manual_seed(0)
    for i in range(10):
        n = 3 if i % 2 else 4
        view = torch.rand(n, 2, generator=generator, dtype=torch.float64)
        yield Batch(torch.arange(i, i + n), (view,), (torch.tensor(float(i)),))


def test_an_eager_step():
    """By hand: two gradient steps with momentum; the mean of the two losses."""
    method = Method()
    batch = Batch(torch.tensor([1, 2]), (torch.ones(2, 2).double(),), (torch.tensor(0.5),))
    execution = Execution(ExecutionConfig(), CPU)
    loss = execution.train_step(method, method.optimizer(), batch)
    x = 2 * 3 + 0.5
    w, v = torch.tensor([1.0, 2.0]).double(), 0.0
    first = (w * x).sum()
    v = x + 0.1 * w
    w = w - 0.01 * v
    second = (w * w).sum()
    v = 0.5 * v + 2 * w + 0.1 * w
    torch.testing.assert_close(method.w.detach(), w - 0.01 * v)
    torch.testing.assert_close(loss, (first + second) / 2)
    assert loss.dtype == torch.float64
    assert not loss.requires_grad
    assert method.idle.tolist() == [1, 1]  # not even decay: it has no gradient
    # The center has one in the first loss alone; decay and momentum do not go on in the second.
    assert method.center.tolist() == pytest.approx([-0.005] * 2)
    assert method.summed == [["w", "idle"]] * 2
    assert method.steps == 2


def test_a_step_is_captured_after_two_of_its_length():
    method, log = Method(), []
    execution = Execution(
        ExecutionConfig(step="graph", precision="float64"), CPU, fake_capture(log)
    )
    eager, plain = Method(), Execution(ExecutionConfig(), CPU)
    ours, theirs = method.optimizer(), eager.optimizer()
    for epoch in range(2):
        execution.begin_epoch(method, ours)
        plain.begin_epoch(eager, theirs)
        expected = [plain.train_step(eager, theirs, batch) for batch in batches()]
        found = [execution.train_step(method, ours, batch) for batch in batches()]
        torch.testing.assert_close(torch.stack(found), torch.stack(expected))
        torch.testing.assert_close(method.w, eager.w)
        replays = ["capture", "replay"] * 2 + ["replay"] * 4
        assert log == (1 + epoch) * replays  # anew in each epoch
        assert method.steps == eager.steps == 20 * (epoch + 1)
    assert (method.may_read, eager.may_read) == (False, True)


def test_a_graph_reads_its_rate_on_the_device():
    method = Method()
    for precision, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        optimizer = method.optimizer()
        options = ExecutionConfig(step="graph", precision=precision)
        Execution(options, CPU, fake_capture([])).begin_epoch(method, optimizer)
        for group in optimizer.param_groups:
            assert group["lr"].dtype == dtype
            assert float(group["lr"]) == pytest.approx(0.01)
            assert group["capturable"] is True
    # Optimizers that step in one kernel take no other rate than float32, as CUDA says.
    optimizer = method.optimizer()
    optimizer.param_groups[0]["fused"] = True
    Execution(options, CPU, fake_capture([])).begin_epoch(method, optimizer)
    dtypes = [group["lr"].dtype for group in optimizer.param_groups]
    assert dtypes == [torch.float32, torch.float64]
    optimizer = method.optimizer()
    Execution(ExecutionConfig(), CPU).begin_epoch(method, optimizer)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.01]


@pytest.mark.parametrize(
    ("capturable", "world_size", "why"),
    [(False, 1, "its step decides on the host"), (True, 2, "it has ranks")],
)
def test_a_step_that_cannot_be_a_graph_says_why(capturable, world_size, why):
    method = Method(world_size)
    method.capturable = capturable
    execution = Execution(ExecutionConfig(step="graph"), CPU, fake_capture([]))
    with pytest.raises(UsageError, match=f"cannot hold this run of 'of this test': {why}"):
        execution.begin_epoch(method, method.optimizer())


def test_a_function_of_tensors_is_captured_once_for_each_name_and_shape():
    log = []
    execution = Execution(
        ExecutionConfig(step="graph", precision="float64"), CPU, fake_capture(log)
    )
    for i in range(5):
        for name, factor in (("twice", 2.0), ("thrice", 3.0)):
            x = torch.tensor(float(i), dtype=torch.float64)
            found = execution.apply(name, lambda x, factor=factor: factor * x, [x])
            assert float(found) == factor * i
            assert float(x) == i
    assert log == ["capture", "replay"] * 2 + ["replay"] * 4
    execution.begin_epoch(Method(), Method().optimizer())
    assert len(execution.others.known) == 2  # they belong to no epoch
    eager = Execution(ExecutionConfig(), CPU)
    assert [eager.apply("twice", lambda x: x + 1, [torch.ones(1)]).item() for _ in "abc"] == [2] * 3


def test_another_dtype_is_another_graph():
    execution = Execution(ExecutionConfig(step="graph"), CPU, fake_capture([]))
    for dtype in (torch.float32, torch.float64) * 4:
        x = torch.tensor(0.1, dtype=dtype)
        execution.apply("itself", lambda x: x * 1, [x])
    assert len(execution.others.known) == 2


def test_what_was_captured_is_not_what_the_next_call_overwrites():
    execution = Execution(ExecutionConfig(step="graph", precision="float64"), CPU, fake_capture([]))
    numbers = [torch.tensor(float(i), dtype=torch.float64) for i in range(6)]
    found = [execution.apply("itself", lambda x: x * 1, [x]) for x in numbers]
    assert found == numbers


def test_a_compiled_graph_is_both():
    with pytest.raises(UsageError, match="'compiled-graph' needs a CUDA device"):
        Execution(ExecutionConfig(step="compiled-graph"), CPU)
    execution = Execution(ExecutionConfig(step="compiled-graph"), CPU, fake_capture([]))
    assert execution.captured
    network = Network()
    execution.prepare(network)
    assert network.compiled == [("inductor", False)]
    assert not Execution(ExecutionConfig(step="compile"), CPU).captured
