"""The watch of one rank, with its connections in the test's hands."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from dualclust.algos.core.errors import DualclustError
from dualclust.common import watch
from dualclust.common.ranks import ALONE, RankLostError, Ranks
from dualclust.common.watch import GOODBYE, HELLO, PROBES, WORD, watched
from tests.thread_ranks import on_threads

LONG = 20.0


def test_the_times_that_are_promised():
    assert (watch.GRACE, watch.PATIENCE) == (10, 60)
    idle, between, count = (PROBES[f"TCP_KEEP{name}"] for name in ("IDLE", "INTVL", "CNT"))
    assert (idle, idle + between * count) == (5, 20)
    assert GOODBYE == -1  # no rank


# What the block does with the watch --------------------------------------------------------------


class Recorded:
    """A watch that hears of rank 2, if `hears`, while it is waited for."""

    def __init__(self, hears: bool) -> None:
        self.hears, self.lost, self.heard = hears, None, self
        self.log: list[object] = []

    def __call__(self, ranks: Ranks, ends_process: bool, how: Callable[[], str]) -> Recorded:
        self.log.append((ranks.rank, ends_process))
        return self

    def wait(self, seconds: float) -> None:
        self.log.append(("waits", seconds))
        self.lost = 2 if self.hears else None

    def leave(self, *, orderly: bool) -> None:
        self.log.append(("leaves", orderly))


@pytest.mark.parametrize(
    ("error", "hears", "says", "left"),
    [
        (None, False, None, [True]),
        (ZeroDivisionError("own"), False, "^own$", [True]),
        (KeyboardInterrupt("own"), False, "^own$", [False]),
        (RankLostError("exchange"), False, "^exchange$", [False]),
        (RankLostError("exchange"), True, "^lost rank 2: .*To fix this, look at its log", [True]),
    ],
)
def test_how_the_block_ends_is_how_the_rank_leaves(monkeypatch, error, hears, says, left):
    fake = Recorded(hears)
    monkeypatch.setattr(watch, "_Watch", fake)

    def block() -> None:
        with watched(Ranks(1, 3)):
            if error is not None:
                raise error

    if error is None:
        block()
    else:
        with pytest.raises(type(error), match=says):
            block()
    waits = [("waits", watch.GRACE)] if isinstance(error, RankLostError) else []
    assert fake.log == [(1, True), *waits, *(("leaves", orderly) for orderly in left)]


def test_one_rank_alone_makes_no_watch():
    before = threading.enumerate()
    with watched(ALONE):
        assert threading.enumerate() == before


def test_two_ranks_watch_each_other():
    pytest.importorskip("torch")

    def work(ranks):
        with watched(ranks, ends_process=False):
            found = [t.daemon for t in threading.enumerate() if t.name == "dualclust-watch"]
            ranks.meeting.barrier.wait()
        return found

    for found in on_threads(2, work):
        assert found
        assert all(found)  # none keeps a process alive


# The thread that listens -------------------------------------------------------------------------


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Codes with which the process would have ended."""
    found: list[int] = []
    monkeypatch.setattr(watch.os, "_exit", found.append)
    return found


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch):
    """Start the watch of rank 0 of 3; returns it and the far ends of ranks 1 and 2."""
    opened: list[socket.socket] = []

    def start(*, ends_process: bool, grace: float):
        pairs = {rank: socket.socketpair() for rank in (1, 2)}
        far = {rank: pair[1] for rank, pair in pairs.items()}
        for end in far.values():
            end.settimeout(LONG)
        opened.extend(end for pair in pairs.values() for end in pair)
        monkeypatch.setattr(watch, "_accept_all", lambda ranks: {r: p[0] for r, p in pairs.items()})
        monkeypatch.setattr(watch, "GRACE", grace)
        return watch._Watch(Ranks(0, 3), ends_process, lambda: "begin again"), far

    yield start
    for end in opened:
        end.close()


def said(end: socket.socket) -> list[int]:
    """All that a rank said until it closed the connection."""
    content = b""
    while part := end.recv(64):
        content += part
    return [word for (word,) in WORD.iter_unpack(content)]


def test_when_all_have_said_goodbye_the_thread_ends(begin, exits):
    found, far = begin(ends_process=True, grace=LONG)
    far[1].sendall(WORD.pack(GOODBYE))
    far[1].close()
    far[2].sendall(WORD.pack(GOODBYE))
    found.thread.join(LONG)
    assert not found.thread.is_alive()
    assert found.lost is None
    assert not found.heard.is_set()
    found.leave(orderly=True)
    assert said(far[2]) == [GOODBYE]
    assert exits == []


@pytest.mark.parametrize("word", [None, 5, 0])
def test_who_ends_without_a_word_is_told_to_all_others(begin, exits, word):
    """And so is the rank that a peer names."""
    found, far = begin(ends_process=False, grace=0.05)
    if word is None:
        far[2].close()
    else:
        far[2].sendall(WORD.pack(word))
    assert found.heard.wait(LONG)
    lost = 2 if word is None else word
    assert found.lost == lost
    found.thread.join(LONG)
    found.leave(orderly=False)
    assert said(far[1]) == [lost]
    assert exits == []


def test_a_process_that_does_not_fail_by_itself_is_ended(begin, exits, capsys):
    found, far = begin(ends_process=True, grace=0.05)
    far[1].close()
    found.thread.join(LONG)
    assert exits == [RankLostError.exit_code] == [DualclustError.exit_code]
    assert capsys.readouterr().err.startswith("dualclust: error: lost rank 1: ")
    found.leave(orderly=True)
    assert said(far[2]) == [1, GOODBYE]


def test_a_process_that_fails_by_itself_in_time_is_not_ended(begin, exits):
    found, far = begin(ends_process=True, grace=LONG)
    far[1].close()
    assert found.heard.wait(LONG)
    found.leave(orderly=True)
    assert not found.thread.is_alive()
    assert exits == []


@pytest.mark.parametrize("orderly", [True, False])
def test_leaving_stops_the_thread_and_then_closes_the_connections(begin, exits, orderly):
    """The end of its own connections is no death; goodbye is said only if all is well."""
    found, far = begin(ends_process=True, grace=2.0)
    real, joined = found.thread, []

    def join(seconds: float) -> None:
        joined.append((seconds, [peer.fileno() >= 0 for peer in found.peers.values()]))
        real.join(seconds)

    found.thread = SimpleNamespace(join=join)
    found.leave(orderly=orderly)
    assert joined == [(2.0, [True, True])]
    assert not real.is_alive()
    assert [peer.fileno() for peer in found.peers.values()] == [-1, -1]
    assert [said(end) for end in far.values()] == [[GOODBYE] if orderly else []] * 2
    assert found.lost is None
    assert exits == []


def test_a_word_that_is_cut_short_is_none():
    here, there = socket.socketpair()
    there.sendall(WORD.pack(7) + WORD.pack(GOODBYE) + b"cut")
    there.close()
    assert [watch._word(here) for _ in range(3)] == [7, GOODBYE, None]
    here.close()
    assert watch._word(here) is None


# How the connections come about ------------------------------------------------------------------


class Peer:
    """A connection that has said `content`, or fails."""

    def __init__(self, content: bytes | OSError) -> None:
        self.content, self.log = content, []

    def recv(self, size: int, flags: int) -> bytes:
        assert self.log == [("timeout", watch.PATIENCE)]
        assert (size, flags) == (HELLO.size, socket.MSG_WAITALL)
        if isinstance(self.content, OSError):
            raise self.content
        return self.content[:size]

    def settimeout(self, seconds: float | None) -> None:
        self.log.append(("timeout", seconds))

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.log.append((level, name, value))

    def sendall(self, content: bytes) -> None:
        self.log.append(("sends", content))

    def close(self) -> None:
        self.log.append("closed")


KEPT = [
    ("timeout", None),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in PROBES.items()
        if hasattr(socket, name)
    ),
]
TOKEN = 2**63 - 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A server that accepts `peers`, and how it was made; what the first rank tells is `told`."""
    found = SimpleNamespace(peers=[], made=[], told=[], timeouts=[])

    class Server:
        def __enter__(self) -> Server:
            return self

        def __exit__(self, *error: object) -> None:
            found.made.append("closed")

        def getsockname(self) -> tuple[str, int]:
            return ("here", 4711)

        def settimeout(self, seconds: float) -> None:
            found.timeouts.append(seconds)

        def accept(self) -> tuple[Peer, str]:
            assert found.timeouts == [watch.PATIENCE]
            assert found.told == [[4711, TOKEN]]
            if not found.peers:
                raise TimeoutError
            return found.peers.pop(0), "address"

    def make(address: object, **options: object) -> Server:
        found.made.append((address, options))
        return Server()

    monkeypatch.setattr(socket, "create_server", make)
    monkeypatch.setattr(watch, "_told", lambda ranks, numbers: found.told.append(numbers))
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    return found


def test_the_first_rank_takes_the_others_and_sends_strangers_away(server):
    one, two = (Peer(HELLO.pack(TOKEN, 3, rank)) for rank in (1, 2))
    strangers = [
        Peer(HELLO.pack(TOKEN - 1, 3, 1)),
        Peer(HELLO.pack(TOKEN, 3, 1)[:-1]),
        Peer(b""),
        Peer(TimeoutError()),
        Peer(b"GET / HTTP/1.0\r\n\r\n        "),
    ]
    late = Peer(b"")
    server.peers += [strangers[0], two, *strangers[1:], one, late]
    assert watch._accept_all(Ranks(0, 3)) == {1: one, 2: two}
    for stranger in strangers:
        assert stranger.log == [("timeout", watch.PATIENCE), "closed"]
    for peer in (one, two):
        assert peer.log == [("timeout", watch.PATIENCE), *KEPT]
    assert server.peers == [late]
    options = {"family": socket.AF_INET, "backlog": 3}
    assert server.made == [(("127.0.0.1", 0), options), "closed"]


@pytest.mark.parametrize(("came", "missing"), [((3, 1), 2), ((2,), 1), ((2, 1), 3)])
def test_a_rank_that_does_not_connect_is_named(server, came, missing):
    server.peers += [Peer(HELLO.pack(TOKEN, 4, rank)) for rank in came]
    with pytest.raises(RankLostError, match=rf"^rank {missing} did not connect .* within 60 s$"):
        watch._accept_all(Ranks(0, 4))
    assert server.made[-1] == "closed"


def test_others_reach_the_first_rank_by_any_of_its_addresses(server, monkeypatch):
    monkeypatch.setattr(watch, "_resolved", lambda host: (socket.AF_INET6, "2001:db8::1"))
    server.peers += [Peer(HELLO.pack(TOKEN, 2, 1))]
    watch._accept_all(Ranks(0, 2, host="first.example"))
    assert server.made[0] == (("", 0), {"family": socket.AF_INET6, "backlog": 2})


def test_a_name_is_resolved_without_the_number_of_the_interface(monkeypatch):
    asked = []

    def resolve(host: str, port: object, **options: object) -> list[tuple[object, ...]]:
        asked.append((host, port, options))
        rest = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6, *rest, ("fe80::1%eth0", 0, 0, 2)),
            (socket.AF_INET, *rest, ("10.0.0.1", 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert watch._resolved("first.example") == (socket.AF_INET6, "fe80::1")
    assert asked == [("first.example", None, {"type": socket.SOCK_STREAM})]


def test_another_rank_says_who_it_is(monkeypatch):
    peer, asked = Peer(b""), []

    def connect(address: tuple[str, int], timeout: float | None = None) -> Peer:
        asked.append((address, timeout))
        return peer

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(watch, "_told", lambda ranks, numbers: [4711, TOKEN])
    assert watch._reach_first(Ranks(2, 5, host="first.example")) == {0: peer}
    assert asked == [(("first.example", 4711), watch.PATIENCE)]
    assert peer.log == [("sends", HELLO.pack(TOKEN, 5, 2)), *KEPT]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (TimeoutError("late"), "late"),
    ],
)
def test_a_first_rank_that_cannot_be_reached_is_named(monkeypatch, error, says):
    def connect(address: tuple[str, int], timeout: float | None = None) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(watch, "_told", lambda ranks, numbers: [4711, TOKEN])
    with pytest.raises(RankLostError, match=f"rank 2 does .* at 127.0.0.1, port 4711: {says}"):
        watch._reach_first(Ranks(2, 5))


def test_all_ranks_know_what_the_first_says():
    pytest.importorskip("torch")

    def work(ranks):
        return watch._told(ranks, [2**62 + 1 + ranks.rank, 5])

    assert on_threads(3, work) == [[2**62 + 1, 5]] * 3


def test_a_system_without_a_probe_is_not_asked_for_it(monkeypatch):
    monkeypatch.setattr(watch, "PROBES", {"TCP_NO_SUCH_PROBE": 1})
    peer = Peer(b"")
    assert watch._probed(peer) is peer
    assert peer.log == KEPT[:2]
    assert os.name != "posix" or len(KEPT) > 2
