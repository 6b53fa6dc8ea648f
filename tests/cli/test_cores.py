"""How many threads a run takes, for loads, cores and variables as they are given."""

from __future__ import annotations

import os

import pytest

from dualclust.common.cores import Cores, cores_here, cores_to_use


@pytest.mark.parametrize(
    ("allowed", "in_all", "load", "count"),
    [
        (2, 2, 0.0, 2),
        (2, 2, 0.49, 2),  # a shell, and this program starting
        (2, 2, 0.51, 1),
        (2, 2, 8.0, 1),
        (16, 16, 4.2, 12),
        (16, 16, 40.0, 1),
        (4, 16, 10.0, 4),  # the others have twelve of their own
        (4, 16, 14.0, 2),
        (1, 64, 0.0, 1),
    ],
)
def test_others_keep_their_cores(allowed, in_all, load, count) -> None:
    found = cores_to_use(allowed, in_all=in_all, load=load)
    assert found.threads == count
    assert bool(found.reason) == (count < allowed)


@pytest.mark.parametrize(("asked", "count"), [("1", 1), ("3", 3), (" 2 ", 2), ("2,1", 2)])
def test_the_variable_of_openmp_is_respected(asked, count) -> None:
    for load in (0.0, 9.0):
        assert cores_to_use(4, in_all=4, load=load, asked=asked) == Cores(count, "OMP_NUM_THREADS")


@pytest.mark.parametrize("asked", ["", "0", "-2", "many"])
def test_a_variable_that_names_no_number_is_none(asked) -> None:
    assert cores_to_use(4, in_all=4, load=0.0, asked=asked) == Cores(4)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_this_machine_as_it_is(monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    assert cores_here().threads == len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores_here() == Cores(1)
    finally:
        os.sched_setaffinity(0, before)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert cores_here().threads == 7
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    assert cores_here().threads == 1
