"""What a public module of `algos` exports, its group exports too: tab completion finds it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ALGOS = Path(__file__).parents[2] / "algos"
GROUPS = sorted(path.parent for path in ALGOS.rglob("__init__.py") if path.parent != ALGOS)

# Modules that other groups build on and that solve nothing for a user.
INNER = {"core/checks", "core/error_free", "core/exact_sums", "core/precision", "core/reads"}
# Parts that another module of `algos` needs, or that only a reader of the source looks up.
PARTS = {
    "baselines/comparison": {"level_prices", "record", "table", "target_shares"},
    "clustering/lloyd": {"check_arguments", "nearest_labels", "share_changed"},
    "clustering/start": {"power_of_two", "sample_rows"},
    "core/directions": {"directions_of"},
    "online/assignment": {
        "check_arguments",
        "check_stream_bounds",
        "raise_not_finite",
        "remaining_samples",
    },
    "pseudo_labels/energy": {"check_problem", "detached"},
    "scores/blocks": {"BLOCK_ENTRIES", "DEVICE_ENTRIES", "FEWEST_ROWS", "MOST_DEVICE_ROWS"},
    "scores/statistics": {"PART_ROWS", "lead", "scores_at"},
    "scores/turns": {"TURN_ROWS"},
    "selection/choice": {"drawn_sample"},
    "selection/result": {"Parts", "prices_lost", "result_of", "standard_error"},
}


def exported(path: Path) -> set[str]:
    """Names in `__all__` of a module; none if it has no such list."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                return set(ast.literal_eval(node.value))
    return set()


def unexported(group: Path) -> dict[str, set[str]]:
    """Names by module that a group hides."""
    shown = exported(group / "__init__.py")
    modules = {path.relative_to(ALGOS).with_suffix("").as_posix(): path for path in group.glob("*")}
    public = {name: path for name, path in modules.items() if path.suffix == ".py"}
    hidden = {
        name: exported(path) - shown
        for name, path in public.items()
        if not path.name.startswith("_") and name not in INNER
    }
    return {name: names for name, names in hidden.items() if names}


@pytest.mark.parametrize("group", GROUPS, ids=lambda path: path.relative_to(ALGOS).as_posix())
def test_a_group_exports_what_its_modules_do(group):
    assert unexported(group) == {
        name: names for name, names in PARTS.items() if (ALGOS / name).parent == group
    }


def test_a_name_that_is_left_out_is_found(tmp_path, monkeypatch):
    group = tmp_path / "group"
    group.mkdir()
    (group / "__init__.py").write_text('__all__ = ["a"]\n')
    (group / "module.py").write_text('__all__ = ["a", "b"]\n')
    (group / "_inner.py").write_text('__all__ = ["c"]\n')
    monkeypatch.setattr("tests.house.test_exports.ALGOS", tmp_path)
    assert unexported(group) == {"group/module": {"b"}}
