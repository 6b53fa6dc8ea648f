"""The warm process: each run of tests sees the files as they stand, and ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.warm import Warm

pytestmark = pytest.mark.slow  # of a tool beside the library: `make slow`

TESTS = """\
import os
import pytest
from shelf import ITEM

def test_item():
    assert ITEM == 1

def test_no_end():
    while True:
        pass

def test_death():
    os.kill(os.getpid(), 6)

def test_waits():
    import time
    time.sleep(1e6)
"""
SEVERAL = """\
import time
import pytest

@pytest.mark.parametrize("i", range(4))
def test_works(i):
    end = time.process_time() + 0.7
    while time.process_time() < end:
        pass
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warm, Path]]:
    root = tmp_path_factory.mktemp("tree")
    (root / "test_shelf.py").write_text(TESTS, encoding="utf-8")
    (root / "shelf.py").write_text("ITEM = 1\n", encoding="utf-8")
    made = Warm(root, loaded=("no_such_module", "json"))
    yield made, root
    made.close()


def test_a_changed_module_is_seen_and_so_is_its_repair(warm: tuple[Warm, Path]) -> None:
    runs, root = warm
    name = "test_shelf.py::test_item"
    for text, expected in (
        ("ITEM = 1\n", 0),
        ("ITEM = 2\n", 1),
        ("ITEM =\n", 4),
        ("ITEM = 1\n", 0),
    ):
        (root / "shelf.py").write_text(text, encoding="utf-8")
        code, printed = runs.run([name], 60)
        assert code == expected, printed
        assert ("FAILED test_" in printed or "ERROR test_" in printed) is (expected != 0), printed


def test_what_does_not_end_is_ended(warm: tuple[Warm, Path]) -> None:
    runs, root = warm
    (root / "shelf.py").write_text("ITEM = 1\n", encoding="utf-8")
    assert runs.run(["test_shelf.py::test_no_end"], 1)[0] == -signal.SIGPROF
    assert runs.run(["test_shelf.py::test_death"], 60)[0] == -signal.SIGABRT
    assert runs.run(["test_shelf.py::test_item"], 60)[0] == 0
    (root / "shelf.py").write_text("while True:\n    pass\n", encoding="utf-8")
    assert runs.run(["test_shelf.py::test_item"], 1)[0] == -signal.SIGPROF


def test_the_limit_is_of_each_test(warm: tuple[Warm, Path]) -> None:
    runs, root = warm
    (root / "test_several.py").write_text(SEVERAL, encoding="utf-8")
    code, printed = runs.run(["test_several.py"], 2)
    assert code == 0, printed


def test_waiting_ends_too(warm: tuple[Warm, Path]) -> None:
    _, root = warm
    runs = Warm(root, loaded=(), wall_seconds=2.0)
    (root / "shelf.py").write_text("ITEM = 1\n", encoding="utf-8")
    assert runs.run(["test_shelf.py::test_waits"], 60)[0] == -signal.SIGALRM
    runs.close()


def test_an_ended_process_is_said(tmp_path: Path) -> None:
    runs = Warm(tmp_path, loaded=("antigravity_that_is_not_there",))
    runs._process.kill()
    runs._process.wait()
    with pytest.raises(RuntimeError, match=r"has ended with -9"):
        runs.run([], 1)
    runs.close()
