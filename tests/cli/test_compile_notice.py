"""The line about compiling: once, after a second of it, on a terminal alone."""

import io
from contextlib import contextmanager

import pytest

from dualclust.backends import numba_compilation
from dualclust.cli import compile_notice


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def compiling(monkeypatch):
    """A compiler that has taken so many seconds before each of its functions."""

    def install(*seconds):
        @contextmanager
        def watched(notify):
            for so_far in seconds:
                notify("some_kernel", so_far)
            yield

        monkeypatch.setattr(numba_compilation, "watched", watched)

    return install


def told(stream):
    with compile_notice.announced_compilation(stream):
        pass
    return stream.getvalue()


def test_one_line_after_a_second(compiling):
    compiling(0.0, 0.9, 1.1, 5.0)
    assert told(Terminal()) == f"{compile_notice.KEPT}\n"


def test_nothing_before_and_nothing_where_nobody_waits(compiling):
    compiling(0.0, 0.9)
    assert told(Terminal()) == ""
    compiling(5.0)
    assert told(io.StringIO()) == ""


def test_a_cache_that_cannot_be_written_is_named(compiling, monkeypatch):
    compiling(5.0)
    monkeypatch.setitem(numba_compilation.ENTRY, "cache", False)
    assert told(Terminal()) == f"{compile_notice.NOT_KEPT}\n"
