"""Run the suite in a random order, which a seed repeats: no test may rest on one before it.

    python -m pytest -p tests.shuffle --shuffle 3

Files change places, and tests within a file; a file stays together, for what its tests share.
"""

from __future__ import annotations

import random
from itertools import groupby

import pytest

__all__ = ["shuffled"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the seed."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="random order of files and tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each process of a run collects the same order, since all have the seed."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        items[:] = shuffled(items, seed)


def shuffled(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Files in random order, and in each of them its tests."""
    drawn = random.Random(seed)
    together = groupby(sorted(items, key=_file), key=_file)
    files = [sorted(tests, key=lambda test: test.nodeid) for _, tests in together]
    drawn.shuffle(files)
    for tests in files:
        drawn.shuffle(tests)
    return [test for tests in files for test in tests]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
