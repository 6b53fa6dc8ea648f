"""A changed text of one function, class or constant, and the code that it compiles to.

Nothing here touches the running program: `live_code` swaps what this module compiles.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...algos.core.errors import InvalidValueError

__all__ = ["Edit", "Place", "edit", "find", "functions_below", "nested_code"]

ROOT = __package__.partition(".")[0]
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Place(NamedTuple):
    """Where a dotted name below the package is defined.

    Attributes
    ----------
    module : str
        Full dotted name of the module.
    name : str
        Within the module: "f", "Class.method", "outer.inner".
    path : Path
        The module's file.
    """

    module: str
    name: str
    path: Path


class Edit(NamedTuple):
    """A place with its text before and after.

    Attributes
    ----------
    place : Place
    old, new : ast node
        The definition, before and after.
    old_source, new_source : str
        The whole module, before and after.
    """

    place: Place
    old: Definition
    new: Definition
    old_source: str
    new_source: str


def find(target: str) -> Place:
    """Return where ``dualclust.<target>`` is defined, without importing its module.

    Raises
    ------
    InvalidValueError
        If no prefix of the name is a module, or the name is a module itself.
    """
    parts = target.split(".")
    module, path = ROOT, None
    while parts:
        try:
            spec = find_spec(f"{module}.{parts[0]}")
        except ModuleNotFoundError:  # what stands before is a module, not a package
            spec = None
        if spec is None or spec.origin is None:
            break
        module, path = spec.name, Path(spec.origin)
        parts.pop(0)
    if path is None or not parts:
        msg = (
            f"target must name a function, a class or a constant of a module below {ROOT}, got"
            f" {target!r}. To fix this, write it like 'algos.online.duals.update_duals'"
        )
        raise InvalidValueError(msg)
    return Place(module, ".".join(parts), path)


def edit(target: str, old: str, new: str) -> Edit:
    """Replace `old` by `new` in the text of ``dualclust.<target>``.

    Parameters
    ----------
    target : str
        A function, method, class or constant, dotted, below the package.
    old : str
        Occurs exactly once in the target's text (decorators and docstring included).
    new : str

    Raises
    ------
    InvalidValueError
        If the target has no text, `old` does not occur exactly once in it, or the change changes
        nothing: a word of a docstring, say.
    SyntaxError
        If the changed module does not compile.
    """
    place = find(target)
    source = place.path.read_text(encoding="utf-8")
    before = _definition(ast.parse(source), place.name)
    if before is None:
        msg = f"target must exist, got {target!r}: {place.module} defines no {place.name}"
        raise InvalidValueError(msg)
    start, stop = _extent(source, before)
    times = source.count(old, start, stop) if old else 0
    if times != 1:
        msg = (
            f"old must occur exactly once in the source of {target}, {old!r} occurs {times} times."
            " To fix this, copy more of the line, or what the line says now"
        )
        raise InvalidValueError(msg)
    at = source.index(old, start, stop)
    changed = source[:at] + new + source[at + len(old) :]
    after = _definition(ast.parse(changed), place.name)
    if after is None or _meaning(after) == _meaning(before):
        msg = f"new must change what {target} does and keep its name, got {new!r} for {old!r}"
        raise InvalidValueError(msg)
    return Edit(place, before, after, source, changed)


def nested_code(source: str, path: str, name: str) -> dict[str, list[types.CodeType]]:
    """Compile a module; return the code objects of `name` and of all below, by qualified name.

    Several of one name, lambdas for instance, come in the order of the text.
    """
    found: dict[str, list[types.CodeType]] = {}

    def walk(code: types.CodeType) -> None:
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                plain = constant.co_qualname.replace(".<locals>", "")
                if plain == name or plain.startswith(f"{name}."):
                    found.setdefault(plain, []).append(constant)
                walk(constant)

    walk(compile(source, path, "exec", dont_inherit=True))
    return found


def functions_below(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the qualified name and node of every function in a tree, inner ones included."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            full = f"{name}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef):
                yield full, child
            yield from functions_below(child, full)
        else:
            yield from functions_below(child, name)


def _definition(tree: ast.AST, name: str) -> Definition | None:
    """Return the last definition of a dotted name, since overloads come before it."""
    first, _, rest = name.partition(".")
    found: Definition | None = None
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            if child.name == first:
                found = (_definition(child, rest) or found) if rest else child
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            names = [t.id for t in targets if isinstance(t, ast.Name)]
            if not rest and first in names and child.value is not None:
                found = child
        else:
            found = _definition(child, name) or found
    return found


def _extent(source: str, node: Definition) -> tuple[int, int]:
    """Return where a definition begins and ends in the source, in characters."""
    lines = [f"{line}\n" for line in source.split("\n")]
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    start = sum(map(len, lines[: first - 1]))
    return start, start + sum(map(len, lines[first - 1 : node.end_lineno]))


def _meaning(node: ast.AST) -> str:
    """Return the text of a definition without its docstrings."""

    class Bare(ast.NodeTransformer):
        def visit_Expr(self, expression: ast.Expr) -> ast.AST:
            if isinstance(expression.value, ast.Constant) and expression.value.value is not ...:
                return ast.Pass()
            return expression

    return ast.dump(Bare().visit(ast.parse(ast.unparse(node))))


def load(place: Place) -> types.ModuleType:
    """Import the module of a place."""
    return import_module(place.module)
