"""Every test of array code takes `xp`; Hypothesis draws the same examples in each run of CI."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from _pytest.assertion import rewrite
from _pytest.doctest import DoctestModule
from array_api_strict import ArrayAPIStrictFlags
from hypothesis import HealthCheck, Phase, settings
from threadpoolctl import threadpool_limits

from tests import judged
from tests.examples import PROFILE
from tests.libraries import (
    FORMULAS,
    IMMUTABLE,
    LIBRARIES,
    NOT_IMMUTABLE,
    NOT_MINIMAL,
    NOT_SECOND,
    ONCE,
    SAMPLED,
    SECOND,
    WRITABLE,
    Library,
)
from tests.no_network import block

if TYPE_CHECKING:
    from tests.second_device import Transfers

# Health checks measure time, which a shared machine makes random; explaining a failure traces every
# line of it, for minutes. `make slow` runs what properties see with "long".
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=50,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("ci"), max_examples=200)
settings.register_profile("nightly", settings.get_profile("long"), derandomize=False)
settings.load_profile(PROFILE)
block()
judged.install()

# OpenBLAS takes no more threads from its variable than there are cores; asked in the process, it
# does. A row of tests/machines has four on any machine.
if threads := os.environ.get("OPENBLAS_NUM_THREADS"):
    threadpool_limits(int(threads), user_api="blas")


ROWS = [*LIBRARIES, *SECOND, *IMMUTABLE]


def second_device_of(library: Library) -> AbstractContextManager[object]:
    """Return the second device, if a row is on it."""
    if library not in SECOND:
        return nullcontext()
    from tests.second_device import second_device

    return second_device()


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a fresh checkout, let each worker rewrite its share of the tests: else each rewrites all.

    It takes a third of the collection; what pytest finds rewritten in its cache it only loads.
    """
    config, count = session.config, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    whole = {Path(given).name for given in config.args} == set(config.getini("testpaths"))
    state = config.stash.get(rewrite.assertstate_key, None)  # None with --assert=plain
    if count == 1 or not whole or sys.dont_write_bytecode or state is None:
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[number::count]:
        folder = rewrite.get_cache_dir(path)
        pyc = folder / (path.stem + rewrite.PYC_TAIL)
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, pyc) is None:
            with suppress(SyntaxError, ValueError):  # which the collection shows, with the file
                source, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, source, pyc)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules and tests are made, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()  # no gc.freeze(): planted errors find what runs by gc.get_referrers()
        gc.set_threshold(5_000, 10, 20)  # each look at all of that took a third of a second


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctests in files of tests: that they have none takes long to find out."""
    files = yield
    tests = file_path.name.startswith("test_")
    return [file for file in files if not (tests and isinstance(file, DoctestModule))]


# Scope "module": Hypothesis refuses fixtures that are made once per test function.
@pytest.fixture(
    params=[*LIBRARIES, *SECOND, *IMMUTABLE], ids=lambda library: library.name, scope="module"
)
def xp(request: pytest.FixtureRequest) -> Iterator[Library]:
    library: Library = request.param
    with ArrayAPIStrictFlags(**library.flags), second_device_of(library):
        yield library
    if library in IMMUTABLE:
        sys.modules["jax"].clear_caches()  # compiled operations of a module take up to a gigabyte


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a row does not run, or runs only with `make slow`, as `tests.libraries` says."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        row = None if callspec is None else callspec.params.get("xp")
        if not isinstance(row, Library):
            continue
        left_out = NOT_MINIMAL if row.flags else {}
        left_out = NOT_IMMUTABLE if row in IMMUTABLE else NOT_SECOND if row in SECOND else left_out
        for start, (mark, reason) in left_out.items():
            if item.nodeid.startswith(start):
                item.add_marker(getattr(pytest.mark, mark)(reason=reason))
    leave_combinations(items)


def leave_combinations(items: list[pytest.Item]) -> None:
    """Mark as slow, on the rows `SAMPLED`, what has no value of a parameter that is new."""
    seen: dict[tuple[str, str], set[tuple[str, int]]] = {}
    rows = [(item, getattr(item, "callspec", None)) for item in items]
    found = [(item, callspec, callspec.params.get("xp")) for item, callspec in rows if callspec]
    frozen = {item.nodeid.partition("[")[0] for item, _, row in found if is_frozen(row)}
    for item, callspec, row in found:
        if row not in SAMPLED or item.get_closest_marker("slow"):
            continue
        test = item.nodeid.partition("[")[0], row.name
        if row in WRITABLE and test[0] not in frozen:
            continue
        values = {(name, i) for name, i in callspec.indices.items() if name != "xp"}
        given = row in WRITABLE and hasattr(getattr(item, "obj", None), "is_hypothesis_test")
        once = row in ONCE or item.nodeid.startswith(FORMULAS)
        if given or (test in seen and (once or values <= seen[test])):
            item.add_marker(pytest.mark.slow(reason="other rows run all combinations"))
        seen[test] = seen.get(test, set()) | values


def is_frozen(row: object) -> bool:
    """Whether a parameter is the row whose arrays cannot be written."""
    return isinstance(row, Library) and row.readonly


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    """What crosses between the host and the second device, which is active during the test."""
    from tests.second_device import second_device

    with second_device() as found:
        yield found


@pytest.fixture
def rng() -> np.random.Generator:
    """Numbers that do not depend on which tests ran before."""
    return np.random.default_rng(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Judge what the library returns, unless a test says why it cannot be read once more."""
    mark = item.get_closest_marker("unjudged")
    with judged.unjudged("" if mark is None else mark.kwargs["reason"]):
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of pytest-xdist send how it has judged results."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["judged"] = judged.lines()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Add what a worker has judged."""
    judged.add(getattr(node, "workeroutput", {}).get("judged", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how results were judged."""
    terminalreporter.section("results of the library, as tests.judge has judged them")
    terminalreporter.write_line(judged.text())
