"""The groups of train/: who imports whom, nothing lazily, and names that tab completion finds."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.house.test_layering import imports

TRAIN = Path(__file__).resolve().parents[2] / "train"
# Each imports those of earlier lines alone; the two of a line do not know each other.
ORDER = (
    ("config", "state"),
    ("augment",),
    ("data", "networks"),
    ("report", "models"),
    ("methods",),
    ("loop",),
    ("own_data",),
    ("comparison",),
)
FLOOR = {group: floor for floor, groups in enumerate(ORDER) for group in groups}


def edges(root: Path) -> list[tuple[str, str, str]]:
    """Every import between two groups: file and line, importing group, imported group."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if len(parts) == 1:
            continue
        for level, name, line, _ in imports(path):
            target = [*parts[: len(parts) - level], *name.split(".")]
            if 0 < level <= len(parts) and target[0] != parts[0]:
                found.append((f"{path.relative_to(root)}:{line}", parts[0], target[0]))
    return found


def upward(root: Path) -> list[str]:
    """The imports that do not go down, lazy ones and those for type checkers too."""
    return [where for where, of, to in edges(root) if FLOOR[to] >= FLOOR[of]]


def test_every_group_has_a_floor() -> None:
    groups = {path.name for path in TRAIN.iterdir() if list(path.glob("*.py"))} - {"recipes"}
    assert groups == set(FLOOR)


def test_groups_import_downward() -> None:
    assert upward(TRAIN) == []
    assert len(edges(TRAIN)) > 50


@pytest.mark.parametrize(
    "text",
    [
        "from ..loop import run",
        "def f():\n    from ..loop import run",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..loop import run",
        "from ..loop.run import Run",
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "x.py").write_text(f"from ..config import run\n{text}\n")
    [found] = upward(tmp_path)
    assert found.startswith("methods/x.py:")


@pytest.mark.parametrize("group", FLOOR)
def test_a_group_says_what_it_solves_and_exports_names(group: str) -> None:
    module = import_module(f"dualclust.train.{group}")
    assert 3 <= len((module.__doc__ or "").strip().splitlines()) <= 8
    assert module.__all__
    folder = {path.stem for path in (TRAIN / group).glob("*.py")}
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name not in folder, f"{name} hides the module of that name"
