"""Ranks notice within seconds that another has died, whatever they are doing.

An exchange fails at once where the process at its other end has died, but a rank may be far from
its next exchange: a pass over a thousand million rows takes minutes. And a machine that loses its
power closes no connection. So each rank holds one connection to the first for nothing but this:

1. A thread waits on it. Its end without a goodbye is the death of the process behind it; the
   system's own probes (`PROBES`) find machines that have gone.
2. The first rank tells all others which rank it was.
3. The main thread normally fails in an exchange of its own by then, and names the rank. Where it
   has not after `GRACE` seconds, the thread prints the message and ends the process: files appear
   only when they are complete (`files`), so nothing is damaged.

The first rank is reached at the address that the launcher gave to all (``MASTER_ADDR``).
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .ranks import RankLostError, Ranks

__all__ = ["GRACE", "watched"]

GRACE = 10.0
"""Seconds that a rank has to fail by itself once another has died."""

PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds without a word, and between probes, and probes without an answer: 20 s in all."""

PATIENCE = 60.0
"""Seconds to connect, and seconds in which a dead rank becomes known after a failed exchange."""

HELLO, WORD = struct.Struct("<QQq"), struct.Struct("<q")
GOODBYE = -1


@contextmanager
def watched(
    ranks: Ranks,
    *,
    ends_process: bool = True,
    told: bool = True,
    how: Callable[[], str] = lambda: "start again",
) -> Iterator[None]:
    """Notice the death of another rank inside the block.

    Parameters
    ----------
    ranks : Ranks
    ends_process : bool
        Whether to end this process if its main thread does not fail in time: not inside a worker
        that does other work too.
    told : bool
        Whether a rank that fails tells all others why before it leaves the block, as those of
        `cluster.exchange` do; where it does not, its end is a loss to them.
    how : callable
        Returns how the work goes on, for the message, once a rank has died.

    Raises
    ------
    RankLostError
        Instead of that of an exchange, with the rank that died.
    """
    if ranks.world_size == 1:
        yield
        return
    watch = _Watch(ranks, ends_process, how)
    try:
        yield
    except RankLostError as error:
        watch.heard.wait(GRACE)
        if watch.lost is None:
            watch.leave(orderly=False)
            raise
        watch.leave(orderly=True)
        raise RankLostError(_message(watch.lost, how())) from error
    except BaseException as error:
        # An interruption has been told to nobody.
        watch.leave(orderly=told and isinstance(error, Exception))
        raise
    watch.leave(orderly=True)


def _message(rank: int, how: str) -> str:
    return (
        f"lost rank {rank}: its process or its machine has ended (killed, or out of memory?). "
        f"To fix this, look at its log, and {how}"
    )


class _Watch:
    """The connections of this rank that say who lives, and the thread that listens to them."""

    def __init__(self, ranks: Ranks, ends_process: bool, how: Callable[[], str]) -> None:
        self.ends_process, self.how = ends_process, how
        self.lost: int | None = None
        self.heard, self.left = threading.Event(), threading.Event()
        self.sending = threading.Lock()
        self.peers = _accept_all(ranks) if ranks.first else _reach_first(ranks)
        self.thread = threading.Thread(target=self._listen, daemon=True, name="dualclust-watch")
        self.thread.start()

    def leave(self, *, orderly: bool) -> None:
        """Say goodbye, unless this rank ends in trouble; close the connections."""
        self.left.set()
        if orderly:
            self._tell(GOODBYE)
        for peer in self.peers.values():
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self.thread.join(GRACE)
        for peer in self.peers.values():
            peer.close()

    def _tell(self, word: int) -> None:
        with self.sending:
            for peer in self.peers.values():
                with suppress(OSError):  # those who have left already
                    peer.sendall(WORD.pack(word))

    def _listen(self) -> None:
        """Wait for goodbyes; return when all have come, or with the first that does not."""
        with selectors.DefaultSelector() as selector:
            for rank, peer in self.peers.items():
                selector.register(peer, selectors.EVENT_READ, rank)
            while selector.get_map() and not self.left.is_set():
                for key, _ in selector.select():
                    word = _word(self.peers[key.data])
                    if word == GOODBYE:
                        selector.unregister(key.fileobj)
                    elif not self.left.is_set():
                        self._has_lost(key.data if word is None else word)
                        return

    def _has_lost(self, rank: int) -> None:
        """Say which rank has died, and see to it that this one ends."""
        self.lost = rank
        self._tell(rank)
        self.heard.set()
        if self.ends_process and not self.left.wait(GRACE):
            print(f"dualclust: error: {_message(rank, self.how())}", file=sys.stderr, flush=True)
            os._exit(RankLostError.exit_code)


def _word(peer: socket.socket) -> int | None:
    """Return what a rank says; None if it has died."""
    try:
        content = peer.recv(WORD.size, socket.MSG_WAITALL)
    except OSError:
        return None
    return int(WORD.unpack(content)[0]) if len(content) == WORD.size else None


def _accept_all(ranks: Ranks) -> dict[int, socket.socket]:
    """Wait, as the first rank, until all others have connected."""
    family, address = _resolved(ranks.host)
    # Loopback stays loopback; elsewhere the address may be a name that others know us by.
    here = address if ipaddress.ip_address(address).is_loopback else ""
    with socket.create_server((here, 0), family=family, backlog=ranks.world_size) as server:
        token = secrets.randbits(63)
        _told(ranks, [server.getsockname()[1], token])
        server.settimeout(PATIENCE)
        peers: dict[int, socket.socket] = {}
        while len(peers) < ranks.world_size - 1:
            try:
                peer, _ = server.accept()
            except TimeoutError as error:
                missing = sorted({*range(1, ranks.world_size)} - {*peers})
                msg = f"rank {missing[0]} did not connect to the first rank within {PATIENCE:.0f} s"
                raise RankLostError(msg) from error
            peer.settimeout(PATIENCE)
            with suppress(OSError):
                content = peer.recv(HELLO.size, socket.MSG_WAITALL)
                if len(content) == HELLO.size and HELLO.unpack(content)[0] == token:
                    peers[int(HELLO.unpack(content)[2])] = _probed(peer)
                    continue
            peer.close()
    return peers


def _reach_first(ranks: Ranks) -> dict[int, socket.socket]:
    """Connect, as another rank, to the first."""
    port, token = _told(ranks, [ranks.rank] * 2)  # of which the first rank's two are read
    try:
        peer = socket.create_connection((ranks.host, port), timeout=PATIENCE)
        peer.sendall(HELLO.pack(token, ranks.world_size, ranks.rank))
    except OSError as error:
        msg = (
            f"rank {ranks.rank} does not reach the first rank at {ranks.host}, port {port}: "
            f"{error.strerror or error}. To fix this, let the ranks reach each other on all ports"
        )
        raise RankLostError(msg) from error
    return {0: _probed(peer)}


def _told(ranks: Ranks, numbers: list[int]) -> list[int]:
    """Return the numbers of the first rank."""
    import torch

    own = torch.tensor([numbers], device=ranks.device)
    found: list[int] = ranks.join(own, [1] * ranks.world_size)[0].tolist()
    return found


def _resolved(host: str) -> tuple[socket.AddressFamily, str]:
    family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    return family, str(address[0]).partition("%")[0]


def _probed(peer: socket.socket) -> socket.socket:
    """Let the system ask the other end whether it is there."""
    peer.settimeout(None)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):  # not every system has all three
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return peer
