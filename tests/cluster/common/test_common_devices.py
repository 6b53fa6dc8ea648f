"""What kinds of devices differ in: the table of the module, and what CUDA is asked, by a fake."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from dualclust.common import devices  # noqa: E402
from dualclust.common.devices import KINDS, Copies, Kind, generator, kind_of  # noqa: E402

GPU = torch.device("cuda", 1)


def test_the_table_of_kinds():
    rows = {
        name: (kind.reads_are_free, kind.fused, kind.graphs)
        for name in ("cpu", "cuda", "meta")
        for kind in [kind_of(name)]
    }
    assert rows == {
        "cpu": (True, False, False),
        "cuda": (False, True, True),
        "meta": (False, False, False),
    }
    assert kind_of(torch.device("cuda:1")) is KINDS["cuda"]
    assert kind_of("cpu").available()
    assert kind_of("meta").available()
    assert type(kind_of("meta")) is Kind


def test_the_host_says_what_its_processor_can_do():
    found = kind_of("cpu").processor(torch.device("cpu"))
    assert found == torch.backends.cpu.get_cpu_capability()
    assert isinstance(found, str)


def test_a_generator_draws_what_its_seed_says():
    expected = torch.rand(5, generator=torch.Generator().manual_seed(2**40 + 3))
    found = generator("cpu", 2**40 + 3)
    assert torch.equal(torch.rand(5, generator=found), expected)
    assert generator("cpu", 7).initial_seed() == 7


def test_products_are_as_precise_as_they_are_asked_to_be(monkeypatch):
    """With None in the precision of their arguments, also where a lower one was asked around."""
    host, a = torch.device("cpu"), torch.ones(2, 2)
    with kind_of(host).autocast(host, torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        with kind_of(host).autocast(host, None):
            assert (a @ a).dtype == torch.float32
    assert not isinstance(kind_of(host).autocast(host, None), nullcontext)
    # A type of device that has no lower precision to leave.
    monkeypatch.setattr(torch.amp, "is_autocast_available", lambda name: name != "meta")
    assert isinstance(kind_of("meta").autocast(torch.device("meta"), None), nullcontext)


def test_copies_of_other_devices_wait_until_the_step_asks():
    kind = kind_of("meta")
    copies = kind.copies(torch.device("meta"))
    rows = torch.ones(2), torch.ones(3)
    sent = copies.send(rows)
    assert sent.rows is rows
    assert sent.event is None
    received = copies.receive(sent)
    assert [x.device.type for x in received] == ["meta", "meta"]
    assert [x.shape for x in received] == [(2,), (3,)]
    assert kind.free_memory(torch.device("meta")) is None
    kind.select(torch.device("meta"))
    with pytest.raises(NotImplementedError, match="no graphs"):
        kind.capture(lambda: None)


class FakeCuda:
    """CUDA's functions that the module calls, each of which says that it was."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.now: object = "the step's"
        fake = self

        class Event:
            def record(self, stream: object) -> None:
                fake.log.append(("record", stream))

            def synchronize(self) -> None:
                fake.log.append("copied")

        class Stream:
            def __init__(self, device: object) -> None:
                self.device = device

            def wait_event(self, event: object) -> None:
                fake.log.append(("wait", event))

        self.Event, self.Stream, self.step = Event, Stream, Stream(GPU)
        self.CUDAGraph = lambda: SimpleNamespace(replay=lambda: self.log.append("replay"))

    def is_available(self) -> bool:
        return False

    def set_device(self, device: object) -> None:
        self.log.append(("device", device))

    def mem_get_info(self, device: object) -> tuple[int, int]:
        return (5, 9) if device == GPU else (0, 0)

    def get_device_name(self, device: object) -> str:
        return "a card" if device == GPU else "another"

    def current_stream(self, device: object = GPU) -> object:
        assert device == GPU
        return self.step

    @contextmanager
    def stream(self, stream: object):
        self.now = stream
        yield
        self.now = "the step's"

    @contextmanager
    def graph(self, graph: object, *, capture_error_mode: str):
        self.log.append(("records", graph, capture_error_mode))
        yield
        self.log.append("recorded")

    def set_stream(self, stream: object) -> None:
        self.log.append(("goes on", stream))


class FakeRows:
    """A tensor of the host that says where it goes."""

    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def pin_memory(self) -> FakeRows:
        return FakeRows(self.cuda, f"pinned {self.name}")

    def to(self, device: object, *, non_blocking: bool = False) -> FakeRows:
        self.cuda.log.append((self.name, device, non_blocking, self.cuda.now))
        return FakeRows(self.cuda, f"moved {self.name}")

    def record_stream(self, stream: object) -> None:
        self.cuda.log.append((self.name, stream))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(devices, "torch", SimpleNamespace(cuda=fake))
    return fake


def test_what_cuda_is_asked(cuda):
    kind = KINDS["cuda"]
    assert kind.available() is False
    assert kind.free_memory(GPU) == 5
    assert kind.processor(GPU) == "a card"
    kind.select(GPU)
    assert cuda.log == [("device", GPU)]


def test_a_captured_function_is_called_while_it_is_recorded(cuda):
    def step() -> str:
        cuda.log.append("step")
        return "result"

    graph, result = KINDS["cuda"].capture(step)
    assert result == "result"
    graph.replay()
    # What a thread that reads ahead asks of the device does not end it.
    recorded = [("records", graph, "thread_local"), "step", "recorded"]
    assert cuda.log == [*recorded, ("goes on", cuda.step), "replay"]


def test_what_cannot_be_recorded_leaves_the_stream_of_the_step(cuda):
    """PyTorch stays on the stream of the graph."""
    with pytest.raises(ZeroDivisionError):
        KINDS["cuda"].capture(lambda: 1 / 0)
    assert cuda.log == [("records", cuda.log[0][1], "thread_local"), ("goes on", cuda.step)]


def test_copies_to_cuda_take_a_stream_of_their_own(cuda):
    """They are done before the pinned memory goes, and their memory before the step that reads."""
    copies = KINDS["cuda"].copies(GPU)
    assert isinstance(copies, Copies)
    sent = copies.send((FakeRows(cuda, "a"), FakeRows(cuda, "b")))
    stream = copies.stream
    assert stream.device == GPU
    assert cuda.log == [
        ("pinned a", GPU, True, stream),
        ("pinned b", GPU, True, stream),
        ("record", stream),
        "copied",
    ]
    cuda.log.clear()
    received = copies.receive(sent)
    assert [rows.name for rows in received] == ["moved pinned a", "moved pinned b"]
    assert cuda.log == [("wait", sent.event), *((rows.name, cuda.step) for rows in received)]
