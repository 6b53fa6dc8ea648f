"""Messages name what a reader can import: a name of the front door, or a whole dotted path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name, walk_packages

import pytest

import dualclust
from dualclust import algos

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for layer in ("algos", "backends", "train", "dualclust")
    for path in sorted((ROOT / layer).rglob("*.py"))
]
GROUPS = [
    import_module(found.name)
    for found in walk_packages(algos.__path__, "dualclust.algos.")
    if found.ispkg
]
# Words such as "kmeans" are also English or arguments: only what nothing else looks like.
PUBLIC = {
    name
    for group in GROUPS
    for name in group.__all__
    if "_" in name.strip("_") or re.search(r"[a-z][A-Z]", name)
}


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that are no documentation."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            if id(node) not in documentation:
                yield node.value


def resolves(path: str) -> bool:
    """Whether a dotted path leads to something, as `import` and dots would."""
    try:
        resolve_name(path)
    except AttributeError:
        return False
    except ImportError as error:  # a library that is not installed here says nothing about the name
        return not (error.name or "dualclust").startswith("dualclust")
    return True


def unreachable(tree: ast.AST, arguments: frozenset[str] = frozenset()) -> list[str]:
    """Return the names in texts that a reader could not import as they stand."""
    known = PUBLIC - set(dualclust.__all__) - arguments
    wrong = []
    for text in texts(tree):
        for word in re.findall(r"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", text):
            if word.startswith("dualclust."):
                if not resolves(word):
                    wrong.append(word)
            elif word.rpartition(".")[2] in known:
                wrong.append(word)
    return wrong


def arguments(trees: list[ast.Module]) -> frozenset[str]:
    """Return every name of an argument: a message about it means the argument."""
    found = (n.args for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return frozenset(a.arg for args in found for a in (*args.args, *args.kwonlyargs))


def test_messages_name_what_can_be_imported() -> None:
    pytest.importorskip("torch")  # names of `train` are looked up, too
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    known = arguments(trees)
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path, tree in zip(FILES, trees, strict=True)
        if (found := unreachable(tree, known))
    }
    assert wrong == {}


def test_the_check_can_fail() -> None:
    def found(text: str) -> list[str]:
        return unreachable(ast.parse(f"msg = {text!r}"))

    assert found("begin with init_sums") == ["init_sums"]
    assert found("take core.project_sphere(x)") == ["core.project_sphere"]
    assert found("take dualclust.algos.clustering.init_sum(k)") == [
        "dualclust.algos.clustering.init_sum"
    ]
    assert found("begin with dualclust.algos.clustering.init_sums, or init_state(bounds)") == []
