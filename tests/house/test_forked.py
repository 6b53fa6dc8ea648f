"""A program of a test exits as it would by `python -c`, and one that hangs is killed."""

from __future__ import annotations

import functools
import os
import select
import signal
from collections.abc import Iterator

import pytest

from tests import forked
from tests.forked import run_program

HANGS = """
import os, signal, sys, time
kept = os.open(sys.argv[1], os.O_WRONLY)
os.kill(int(sys.argv[2]), signal.SIGUSR1)
time.sleep(60)
"""


class InterruptedByUserError(BaseException):
    """What the signal raises, as Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture(autouse=True, scope="module")
def own_server() -> Iterator[None]:
    """Another process than that of other tests, which has loaded nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "LOADED", ())
        patch.setattr(forked, "_server", functools.cache(forked._server.__wrapped__))
        yield
        forked._end(forked._server())


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [("", 0, ""), ("3", 3, ""), ("'too few'", 1, "too few\n"), ("''", 1, "\n"), ("[]", 1, "[]\n")],
)
def test_a_program_exits_as_python_does(given, code, said) -> None:
    done = run_program(f"import sys; print('out'); sys.exit({given})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", said)


def test_a_call_that_is_interrupted_leaves_no_answer_and_no_program(tmp_path) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedByUserError

    before = signal.signal(signal.SIGUSR1, interrupt)
    path = tmp_path / "held"
    os.mkfifo(path)
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(InterruptedByUserError):
            run_program(HANGS, str(path), str(os.getpid()))
        assert select.select([held], [], [], 30)[0] == [held]  # nobody holds the other end
        assert os.read(held, 1) == b""
    finally:
        os.close(held)
        signal.signal(signal.SIGUSR1, before)
    assert run_program("raise SystemExit(5)").returncode == 5
