"""A random order keeps files together, leaves no test out and is repeated by its seed."""

from itertools import groupby
from types import SimpleNamespace

from tests.shuffle import shuffled

NAMES = [f"tests/test_{file}.py::test_{i}" for file in "abcdef" for i in range(9)]
ITEMS = [SimpleNamespace(nodeid=name) for name in NAMES]


def order(seed: int, items: list[SimpleNamespace] = ITEMS) -> list[str]:
    return [item.nodeid for item in shuffled(items, seed)]


def test_all_tests_are_there_and_files_stay_together() -> None:
    found = order(0)
    assert sorted(found) == NAMES != found
    files = [file for file, _ in groupby(name.partition("::")[0] for name in found)]
    assert len(files) == 6
    assert files != sorted(files)
    inside = [name for name in found if name.startswith(files[0])]
    assert inside != sorted(inside)


def test_a_seed_repeats_its_order_however_the_tests_were_collected() -> None:
    assert order(1) == order(1, ITEMS[::-1]) != order(2)
