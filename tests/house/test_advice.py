"""No message of the library tells anybody to remove something: doing so could cost them data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DANGEROUS = re.compile(
    r"(?<!--)\b(remove|delete|erase|overwrite|clear|rm) (?!the table\b)", re.IGNORECASE
)
FILES = [
    p for root in ("algos", "backends", "train", "proofs") for p in (ROOT / root).rglob("*.py")
]
FILES += (
    p for name in ("cli", "cluster", "common") for p in (ROOT / "dualclust" / name).rglob("*.py")
)
FILES += (ROOT / "dualclust").glob("*.py")


def advice(tree: ast.AST) -> list[str]:
    """Texts of a module that are not docstrings and advise to remove something."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings
    ]
    return [text for text in texts if DANGEROUS.search(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_message_advises_to_remove(path: Path) -> None:
    assert not advice(ast.parse(path.read_text()))


def test_the_check_can_fail() -> None:
    found = advice(ast.parse("def f(x):\n    'Remove it.'\n    msg = f'{x} exists, or remove it'"))
    assert found == [" exists, or remove it"]
    assert not advice(ast.parse("msg = 'To fix this, remove the table, or set method=3'"))
