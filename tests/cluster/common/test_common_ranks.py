"""Shards, exchanges and the launcher's environment; torch's exchanges are faked in one process."""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager, nullcontext
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

from dualclust.algos.core.errors import UsageError  # noqa: E402
from dualclust.common import ranks as module  # noqa: E402
from dualclust.common.devices import KINDS, Kind  # noqa: E402
from dualclust.common.ranks import (  # noqa: E402
    ALONE,
    Launch,
    RankLostError,
    Ranks,
    join_ranks,
    local_world_size,
    read_launch,
    run_token,
)
from tests.thread_ranks import on_threads  # noqa: E402


def test_a_rank_is_alone_by_default():
    assert (ALONE.rank, ALONE.world_size, ALONE.device, ALONE.host) == (0, 1, "cpu", "127.0.0.1")
    assert [Ranks(rank, 3).first for rank in range(3)] == [True, False, False]
    alone, found = Ranks(), torch.ones(2)
    assert alone.gather(found, 2) is found
    alone.sum_([found])  # nothing is sent, nobody is waited for
    alone.wait()
    alone.leave()
    assert found.tolist() == [1, 1]


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 24])
def test_shards_are_whole_units_the_longer_ones_first(n, world, unit):
    """By dealing out units: the first ranks get one more where they do not divide."""
    units = [list(range(n))[i : i + unit] for i in range(0, n, unit)]
    each, extra = len(units) // world, len(units) % world
    at = 0
    for rank in range(world):
        count = each + 1 if rank < extra else each
        rows = [row for part in units[at : at + count] for row in part]
        start, stop = Ranks(rank, world).shard(n, unit=unit)
        assert list(range(start, stop)) == rows
        assert start <= stop
        assert Ranks(0, world).shard(n, rank, unit=unit) == (start, stop)
        at += count
    assert unit == 4 or [Ranks(r, world).shard(n) for r in range(world)] == [
        Ranks(r, world).shard(n, unit=1) for r in range(world)
    ]


# Exchanges -------------------------------------------------------------------------------------


class Meeting(Ranks):
    """A thread among several, whose messages torch would send: here they meet at a barrier."""

    def __init__(self, threads) -> None:
        super().__init__(threads.rank, threads.world_size)
        self.meeting, self.shapes = threads.meeting, []

    def _all_gather(self, parts, own) -> None:
        slots, barrier = self.meeting.slots, self.meeting.barrier
        slots[self.rank] = own
        barrier.wait()
        self.shapes.append(tuple(own.shape))
        for part, sent in zip(parts, slots, strict=True):
            part.copy_(sent)
        barrier.wait()


def test_rows_of_all_ranks_are_joined_in_their_order():
    lengths = (2, 3, 1)
    rows = [torch.full((n, 2, 4), float(rank + 1)) for rank, n in enumerate(lengths)]

    def work(threads):
        ranks = Meeting(threads)
        joined = ranks.join(rows[ranks.rank], lengths)
        nothing = ranks.join(torch.empty(0, 5, dtype=torch.int64), [0, 0, 0])
        assert nothing.shape == (0, 5)
        assert nothing.dtype == torch.int64
        assert ranks.shapes == [(3, 2, 4)]  # one message of equal lengths, and none for no rows
        return joined

    for joined in on_threads(3, work):
        assert torch.equal(joined, torch.cat(rows))


def test_no_row_of_more_than_a_million_is_lost():
    rows = torch.arange(1_030), torch.arange(2**20 + 5)

    def work(threads):
        return Meeting(threads).join(rows[threads.rank], [len(own) for own in rows])

    for joined in on_threads(2, work):
        assert torch.equal(joined, torch.cat(rows))


@pytest.mark.parametrize("world", [2, 3])
def test_flags_and_texts_of_all_ranks(world):
    """A flag of one rank is enough, and texts differ in length."""
    texts = [b"1", "größer".encode(), b"\0\xff"][:world]

    def work(threads):
        ranks = Meeting(threads)
        flags = [ranks.any(ranks.rank == 1), ranks.any(False), ranks.any(True)]
        return flags, ranks.exchange(texts[ranks.rank])

    assert on_threads(world, work) == [([True, False, True], texts)] * world


def test_one_rank_sends_nothing():
    """There is nobody to send to: no group of processes was begun."""
    assert ALONE.any(True) is True
    assert ALONE.any(False) is False
    assert ALONE.exchange(b"text") == [b"text"]


@pytest.mark.parametrize("dim", [None, 0, 1, 2])
def test_gathered_rows_and_their_gradients(dim):
    axis = dim or 0
    whole = torch.arange(5 * 5 * 5.0).reshape(5, 5, 5)
    weight = whole.flip(axis) + 1

    def work(threads):
        ranks = Meeting(threads)
        start, stop = ranks.shard(5)
        own = whole.narrow(axis, start, stop - start).clone().requires_grad_()
        found = ranks.gather(own, 5) if dim is None else ranks.gather(own, 5, dim)
        assert torch.equal(found, whole)
        (grad,) = torch.autograd.grad((found * weight).sum(), own)
        assert torch.equal(grad, weight.narrow(axis, start, stop - start))

    for world in (2, 3):
        on_threads(world, work)


def test_an_exchange_that_fails_is_a_lost_rank(monkeypatch):
    def fail(parts, own):
        msg = "connection closed\nby peer"
        raise RuntimeError(msg)

    monkeypatch.setattr(dist, "all_gather", fail)
    with pytest.raises(RankLostError, match=r"^lost a rank: connection closed$"):
        Ranks(0, 2).join(torch.ones(1), [1, 1])


def test_messages_are_those_of_torch(monkeypatch):
    log = []

    def all_gather(parts, own):
        log.append("gather")
        for factor, part in enumerate(parts, start=1):
            part.copy_(own * factor)

    monkeypatch.setattr(dist, "all_gather", all_gather)
    monkeypatch.setattr(dist, "barrier", lambda: log.append("barrier"))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: log.append("destroy"))
    ranks = Ranks(0, 2)
    assert ranks.join(torch.tensor([5.0]), [1, 1]).tolist() == [5, 10]
    ranks.wait()
    ranks.leave()
    assert log == ["gather", "barrier", "destroy"]


def test_sums_are_in_place_and_one_message_a_dtype(monkeypatch):
    sent = []

    def all_reduce(flat):  # as if the other rank had ten times as much
        sent.append((flat.dtype, flat.shape))
        flat.mul_(11)

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    a = torch.arange(6.0).reshape(2, 3)
    b, c = torch.tensor([1, 2, 3]), torch.tensor(4.0)
    d = torch.arange(4.0).reshape(2, 2).T  # not contiguous
    before = [x.clone() for x in (a, b, c, d)]
    Ranks(0, 2).sum_(x for x in (a, b, c, d))
    for found, old in zip((a, b, c, d), before, strict=True):
        assert torch.equal(found, 11 * old)
    assert sent == [(torch.float32, (11,)), (torch.int64, (3,))]
    used, frozen = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    used.grad = torch.tensor([1.0, 2.0])
    Ranks(0, 2).sum_gradients([used, frozen])
    assert used.grad.tolist() == [11, 22]
    assert frozen.grad is None


# The launcher ----------------------------------------------------------------------------------

LAUNCHED = {
    "WORLD_SIZE": "3",
    "RANK": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "first.example",
    "MASTER_PORT": "1",
    "LOCAL_WORLD_SIZE": "2",
}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_what_the_launcher_says(launched):
    assert read_launch() == Launch(rank=2, world_size=3, local_rank=1)
    assert local_world_size() == 2
    for text in ("0", "1"):
        launched.setenv("WORLD_SIZE", text)
        assert read_launch() is None
    launched.setenv("WORLD_SIZE", "2")
    assert read_launch() == Launch(2, 2, 1)
    launched.setenv("LOCAL_WORLD_SIZE", "0")
    assert local_world_size() == 1
    launched.delenv("LOCAL_WORLD_SIZE")
    assert local_world_size() == 1
    launched.delenv("WORLD_SIZE")
    assert read_launch() is None
    launched.setenv("WORLD_SIZE", "2")
    launched.delenv("LOCAL_RANK")
    launched.delenv("MASTER_PORT")
    with pytest.raises(UsageError, match="WORLD_SIZE=2, but LOCAL_RANK, MASTER_PORT is not set"):
        read_launch()
    launched.setenv("LOCAL_WORLD_SIZE", "-2")
    with pytest.raises(UsageError, match="LOCAL_WORLD_SIZE must be a whole number, got '-2'"):
        local_world_size()


@pytest.fixture
def group(launched: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What a process group is asked; it answers as rank 7 of 9."""
    log: list[tuple[object, ...]] = []

    def init(backend: str, **options: object) -> None:
        log.append((backend, options))

    def broadcast(tensor: torch.Tensor, src: int) -> None:
        log.append((tensor.tolist(), str(tensor.device), src))

    launched.setattr(dist, "is_initialized", lambda: False)
    launched.setattr(dist, "init_process_group", init)
    launched.setattr(dist, "broadcast", broadcast)
    launched.setattr(dist, "get_rank", lambda: 7)
    launched.setattr(dist, "get_world_size", lambda: 9)
    launched.setattr(module, "_token", "")
    launched.setattr(module.secrets, "randbits", lambda bits: 2**bits - 1)
    return log


def test_ranks_join_and_share_a_token(group):
    joined = join_ranks()
    assert (joined.rank, joined.world_size) == (7, 9)
    assert (joined.device, joined.host) == ("cpu", "first.example")
    options = {"rank": 2, "world_size": 3, "timeout": timedelta(minutes=10)}
    assert group == [("gloo", options), ([2**63 - 1], "cpu", 0)]
    assert run_token() == "7" + 15 * "f"
    assert inspect.signature(join_ranks).parameters["device"].default == "cpu"


def test_ranks_of_gpus_take_that_of_their_number_on_the_machine(group, launched):
    selected, shared = [], []

    class Gpu(Kind):
        def select(self, device: torch.device) -> None:
            selected.append(str(device))

    launched.setitem(KINDS, "cuda", Gpu())
    launched.setattr(module, "_share_token", shared.append)
    assert join_ranks("cuda", timeout=5.0).device == "cuda:1"
    assert selected == shared == ["cuda:1"]
    assert [backend for backend, _ in group] == ["nccl"]
    assert group[0][1]["timeout"] == timedelta(seconds=5)


def test_a_group_that_somebody_else_has_made_is_used(group, launched):
    launched.setattr(dist, "is_initialized", lambda: True)
    assert join_ranks().rank == 7
    assert group == []
    assert run_token() == ""


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_ranks_that_do_not_come_are_lost(group, launched, error):
    def fail(backend, **options):
        msg = "timed out\nand much more"
        raise error(msg)

    launched.setattr(dist, "init_process_group", fail)
    with pytest.raises(RankLostError, match=r"^rank 2 of 3 found no others: timed out$"):
        join_ranks()


def test_joining_ends_when_twice_the_time_and_some_grace_have_passed(group, launched):
    asked = []

    @contextmanager
    def ended_after(*given):
        asked.append(given)
        yield
        asked.append([entry[0] for entry in group])

    launched.setattr(module, "_ended_after", ended_after)
    join_ranks(timeout=5.0)
    assert asked == [(20.0, "rank 2 of 3 found no others"), ["gloo", [2**63 - 1]]]


def test_a_block_that_takes_too_long_ends_the_process(launched, capsys):
    ended, codes = threading.Event(), []

    def leave(code: int) -> None:
        codes.append(code)
        ended.set()

    launched.setattr(module.os, "_exit", leave)
    with module._ended_after(0.01, "rank 2 of 3"):
        assert ended.wait(20)
    assert codes == [RankLostError.exit_code]
    assert capsys.readouterr().err == (
        "dualclust: error: rank 2 of 3: who listens at first.example, port 1 does not answer. "
        "To fix this, start the ranks with another MASTER_PORT\n"
    )


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_a_block_that_ends_in_time_is_left_alone(launched, error):
    codes = []
    launched.setattr(module.os, "_exit", codes.append)
    with nullcontext() if error is None else pytest.raises(error), module._ended_after(60, "x"):
        (thread,) = (t for t in threading.enumerate() if t.name == "dualclust-join")
        assert thread.daemon  # it keeps no process alive
        if error is not None:
            raise error
    thread.join(20)
    assert not thread.is_alive()
    assert codes == []


def test_one_process_joins_nobody(launched):
    launched.setenv("WORLD_SIZE", "1")
    alone = join_ranks("cuda:3")
    assert (alone.rank, alone.world_size, alone.device) == (0, 1, "cuda:3")
