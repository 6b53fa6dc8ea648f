"""Real processes that run a task while something happens to them.

They are forks of a process that has loaded the library and run each task once, so that a fault
costs a tenth of a second. Only processes that were forked here are ever signaled.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from dualclust.cli.main import main
from tests.faults.tasks import without_pictures

__all__ = ["LIMIT", "Child", "Ended", "free_port", "start", "start_ranks"]

LIMIT = 300.0
"""Seconds after which a process counts as hanging: a hundred times what one takes."""


class Ended(NamedTuple):
    """How a process has ended.

    Attributes
    ----------
    code : int. Its exit code; minus the signal that ended it; None where it was hanging.
    said : str. Standard output and standard error.
    """

    code: int | None
    said: str


class Child:
    """A process that was forked here."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self.code: int | None = None

    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._poll(0) is None

    def send(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.lives():
            os.kill(self.pid, number)

    def wait(self, limit: float = LIMIT) -> Ended:
        """Wait until it has ended; one that does not is killed, and its code is None."""
        until = time.monotonic() + limit
        while self.lives() and time.monotonic() < until:
            time.sleep(0.002)
        hangs = self.code is None
        if hangs:
            os.kill(self.pid, signal.SIGKILL)
            self._poll(1)
        said = self.log.read_text(errors="replace") if self.log.is_file() else ""
        return Ended(None if hangs else self.code, said)

    def is_stopped(self) -> bool:
        """Whether it has come to a SIGSTOP."""
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def _poll(self, wait: int) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code


def start(
    arguments: Sequence[str],
    log: Path,
    *,
    during: Callable[[], AbstractContextManager[Any]] = nullcontext,
    env: dict[str, str] | None = None,
) -> Child:
    """Fork a process that runs the command ``dualclust`` inside a context.

    Parameters
    ----------
    arguments : sequence of str
    log : Path. Gets what it prints.
    during : callable. Makes the context.
    env : dict, optional. Variables of its environment.
    """
    pid = os.fork()
    if pid:
        return Child(pid, log)
    code = 99
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(handle, stream)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", closefd=False)
        os.environ.update(env or {})
        with without_pictures(), during():
            code = main(list(arguments))
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start_ranks(
    commands: Sequence[Sequence[str]],
    log: Path,
    *,
    during: Callable[[int], AbstractContextManager[Any]] = lambda rank: nullcontext(),
    port: int | None = None,
) -> list[Child]:
    """Fork ranks that meet on the loopback interface, each with a command of its own."""
    port = free_port() if port is None else port
    common = {
        "WORLD_SIZE": str(len(commands)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return [
        start(
            command,
            log.with_name(f"{log.name}{rank}"),
            during=lambda rank=rank: during(rank),  # type: ignore[misc]
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, command in enumerate(commands)
    ]


def free_port() -> int:
    """Return a port of the loopback interface that nobody uses."""
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return int(here.getsockname()[1])
