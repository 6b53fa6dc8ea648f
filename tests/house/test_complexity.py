"""No function and no module is too long, but for those whose reason stands here.

How many branches a function may have is a rule of the linter (C901, pyproject.toml).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("algos", "backends", "train", "proofs", "dualclust")
LINKS = {"algos", "backends", "train", "proofs"}

MOST_LINES = 60

REASONS = {}
"""Functions that may be longer: "file:function", and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines(function: Function, source: list[str]) -> int:
    """Lines of the body that hold code: no docstring, no comment, no blank line."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    text = source[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in text if line.strip() and not line.strip().startswith("#"))


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    """Name and node of every function of a module, methods and inner ones included."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                full = f"{name}.{child.name}".lstrip(".")
                if isinstance(child, Function):
                    yield full, child
                yield from walk(child, full)
            else:
                yield from walk(child, name)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def modules() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            where = path.relative_to(ROOT).parts
            if folder != "dualclust" or where[1] not in LINKS:
                yield path


def long_functions() -> dict[str, int]:
    """Lines of the functions above the limit."""
    found = {}
    for path in modules():
        source = path.read_text(encoding="utf-8").splitlines()
        for name, node in functions(path):
            if (length := lines(node, source)) > MOST_LINES:
                found[f"{path.relative_to(ROOT).as_posix()}:{name}"] = length
    return found


def test_every_long_function_has_its_reason() -> None:
    assert set(long_functions()) == set(REASONS)


def test_no_module_and_no_test_is_longer_than_400_lines() -> None:
    paths = [*modules(), *(ROOT / "tests").rglob("*.py")]
    long = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in paths}
    assert {name: n for name, n in long.items() if n > 400} == {}


def test_lines_are_counted() -> None:
    text = (
        'def f():\n    """Words.\n\n    More."""\n    # a comment\n\n    x = (\n        1\n    )\n'
    )
    [function] = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert lines(function, text.splitlines()) == 3
