"""The suite runs without a network: a connection to anything but this machine is an error.

`block` replaces what Python connects with, for the process that calls it. What a C library opens by
itself is not seen; of those that the library loads, torch's store for ranks is one, on loopback.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

__all__ = ["NetworkUsedError", "block"]

NAMES = frozenset({"", "localhost", "ip6-localhost", "localhost.localdomain", "0.0.0.0", "::"})


class NetworkUsedError(AssertionError):
    """A test, or the library, wanted to leave this machine."""


def block() -> None:
    """Let sockets of this process reach this machine alone."""
    if getattr(socket, "_blocked_for_tests", False):
        return
    own, connect, connect_ex = socket.getaddrinfo, socket.socket.connect, socket.socket.connect_ex

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        _check(host)
        return own(host, *args, **options)

    def connected(self: socket.socket, address: Any) -> None:
        _check_address(self, address)
        connect(self, address)

    def connected_ex(self: socket.socket, address: Any) -> int:
        _check_address(self, address)
        return connect_ex(self, address)

    socket.getaddrinfo = getaddrinfo
    socket.socket.connect = connected  # type: ignore[method-assign]
    socket.socket.connect_ex = connected_ex  # type: ignore[method-assign]
    socket._blocked_for_tests = True  # type: ignore[attr-defined]


def _check_address(found: socket.socket, address: Any) -> None:
    if found.family in (socket.AF_INET, socket.AF_INET6):
        _check(address[0])


def _check(host: Any) -> None:
    text = host.decode() if isinstance(host, bytes) else str(host or "")
    if text in NAMES or text == socket.gethostname():
        return
    try:
        if ipaddress.ip_address(text).is_loopback:
            return
    except ValueError:
        pass
    msg = f"a connection to {text!r}: the suite and the library run without a network"
    raise NetworkUsedError(msg)
