"""Every test of array code takes `xp`; Hypothesis draws the same examples in each run of CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest
from array_api_strict import ArrayAPIStrictFlags
from hypothesis import HealthCheck, Phase, settings
from threadpoolctl import threadpool_limits

from tests.libraries import (
    IMMUTABLE,
    LIBRARIES,
    NOT_IMMUTABLE,
    NOT_MINIMAL,
    NOT_SECOND,
    SECOND,
    Library,
)

if TYPE_CHECKING:
    from tests.second_device import Transfers

# Health checks measure time, which a shared machine makes random; explaining a failure traces every
# line of it, for minutes.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

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
