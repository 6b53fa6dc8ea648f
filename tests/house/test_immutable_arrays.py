"""No array is written in place in algos/: JAX's are immutable, and a caller's are the caller's.

The check reads the source. An assignment to items (``x[i] = ...``) or an augmented one (``x += y``,
which NumPy does in place) is allowed where the function shows that x is a Python number, list or
dict; `out=`, and methods that write, are not allowed at all. What the source does not show is held
by the rows `numpy:readonly` and `jax:cpu` of tests/libraries.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLAIN_CALLS = {
    "bool",
    "dict",
    "float",
    "int",
    "len",
    "list",
    "max",
    "min",
    "round",
    "sorted",
    "sum",
}
PLAIN_TYPES = {"None", "bool", "dict", "float", "int", "list", "defaultdict", "Fraction"}
WRITING = {"fill_", "copy_", "zero_", "index_add_", "scatter_", "itemset", "put", "partition"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Binding = tuple[str, ast.expr | None, ast.expr | None]


class Names(NamedTuple):
    """What the package's other modules show: constants, fields of records, results of functions."""

    plain: frozenset[str] = frozenset()
    results: Mapping[str, ast.expr] = MappingProxyType({})


def scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Each module, class and function, with the scopes around it, itself first."""

    def walk(node: ast.AST, around: list[ast.AST]) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            around = [node, *around]
            yield node, around
        for child in ast.iter_child_nodes(node):
            yield from walk(child, around)

    return walk(tree, [])


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.ClassDef | Function):
            yield from own_nodes(child)


def bindings(scope: ast.AST, names: Names) -> Iterator[Binding]:
    """(name, its value, its annotation) wherever the scope binds a name or ``self.name``."""
    if isinstance(scope, Function):
        for arg in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
            yield arg.arg, None, arg.annotation
    for node in own_nodes(scope):
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node.value, node.annotation
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from pairs(target, node.value, names)


def pairs(target: ast.expr, value: ast.expr, names: Names) -> Iterator[Binding]:
    """The names of one target, each with its part of the value or of its annotation."""
    kind = None
    if isinstance(value, ast.Call):
        kind = names.results.get(ast.unparse(value.func))
    if not isinstance(target, ast.Tuple):
        yield ast.unparse(target), value, kind
    elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
        for part, own in zip(target.elts, value.elts, strict=True):
            yield from pairs(part, own, names)
    elif isinstance(kind, ast.Subscript) and isinstance(kind.slice, ast.Tuple):
        for part, own in zip(target.elts, kind.slice.elts, strict=False):
            yield ast.unparse(part), None, own


def is_plain(  # noqa: C901  one case for each kind of node
    value: ast.expr | None, annotation: ast.expr | None, known: Set[str]
) -> bool:
    """Whether a value, or its annotation, is a Python number or container."""
    if annotation is not None:
        parts = ast.unparse(annotation).split(" | ")
        return {part.partition("[")[0].rpartition(".")[2] for part in parts} <= PLAIN_TYPES
    match value:
        case ast.Constant(value=bool() | int() | float() | str()):
            return True
        case ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return True
        case ast.Call(func=ast.Name(id="abs"), args=[argument]):
            return is_plain(argument, None, known)
        case ast.Call(func=ast.Name(id=name)):
            return name in PLAIN_CALLS or f"{name}()" in known
        case ast.Call(func=ast.Attribute(attr=name)):
            return name == "tolist"
        case ast.BinOp(left=ast.List()):  # [0.0] * n
            return True
        case ast.BinOp(left=left, right=right):
            return is_plain(left, None, known) and is_plain(right, None, known)
        case ast.UnaryOp(operand=operand):
            return is_plain(operand, None, known)
        case ast.IfExp(body=body, orelse=other):
            return is_plain(body, None, known) and is_plain(other, None, known)
        case ast.Attribute(attr=name):
            return name in known or ast.unparse(value) in known
        case ast.Name(id=name):
            return name in known
        case _:
            return False


def shown_by(sources: Iterable[str]) -> Names:
    """Constants, fields and results that are plain wherever the package defines the name."""
    results: dict[str, ast.expr] = {}
    constants, fields, arrays = set(), set(), set()
    for tree in map(ast.parse, sources):
        for scope, around in scopes(tree):
            if isinstance(scope, Function) and len(around) == 2 and scope.returns is not None:
                results[scope.name] = scope.returns
                if is_plain(None, scope.returns, set()):
                    constants.add(f"{scope.name}()")
            for name, value, kind in bindings(scope, Names()):
                if (
                    isinstance(scope, ast.Module)
                    and name.isupper()
                    and is_plain(value, kind, set())
                ):
                    constants.add(name)
                if isinstance(scope, ast.ClassDef):
                    (fields if is_plain(value, kind, set()) else arrays).add(name)
    return Names(frozenset(constants | (fields - arrays)), results)


def plain_names(around: list[ast.AST], names: Names) -> Set[str]:
    """Names that the scopes around a node show to be Python numbers or containers."""
    known: Set[str] = names.plain
    for scope in reversed(around):
        found = list(bindings(scope, names))
        if isinstance(scope, ast.ClassDef):  # attributes, annotated or made in a method
            methods = [node for node in scope.body if isinstance(node, Function)]
            found += [(f"self.{name}", value, kind) for name, value, kind in found]
            found += [b for m in methods for b in bindings(m, names) if b[0][:5] == "self."]
        for _ in range(3):  # names that are made of each other
            known = known | {name for name, value, kind in found if is_plain(value, kind, known)}
    return known


def violations(source: str, names: Names) -> list[str]:
    """Every write in place, as 'line: text'."""
    found = []
    for scope, around in scopes(ast.parse(source)):
        known = plain_names(around, names)
        for node in own_nodes(scope):
            if not isinstance(node, ast.stmt | ast.expr):
                continue
            writes = any(ast.unparse(root(target)) not in known for target in written(node))
            if isinstance(node, ast.Call):
                writes = any(keyword.arg == "out" for keyword in node.keywords)
                writes |= isinstance(node.func, ast.Attribute) and node.func.attr in WRITING
            if writes:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def root(target: ast.expr) -> ast.expr:
    """What is indexed, perhaps several times."""
    return root(target.value) if isinstance(target, ast.Subscript) else target


def written(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement changes in place."""
    if isinstance(node, ast.AugAssign):
        yield node.target
    for target in node.targets if isinstance(node, ast.Assign) else ():
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        yield from (part for part in parts if isinstance(part, ast.Subscript))


def test_no_array_is_written_in_place() -> None:
    sources = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "algos").rglob("*.py"))
    }
    names = shown_by(sources.values())
    assert [f"{p}:{line}" for p, s in sources.items() for line in violations(s, names)] == []


@pytest.mark.parametrize(
    "line",
    [
        "x[i] = 1.0",
        "x[i, :] += y",
        "x += y",
        "total = xp.zeros(3)\n    total += x",
        "a, x[0] = 1, 2",
        "xp.exp(x, out=x)",
        "x.fill_(0.0)",
        "out = xp.empty(3)\n    out[:] = x",
        "n = x.shape\n    n += 1",
    ],
)
def test_a_planted_write_is_found(line: str) -> None:
    assert len(violations(f"def f(xp, x, y, i):\n    {line}\n", Names())) == 1


@pytest.mark.parametrize(
    "line",
    [
        "x = x + y",
        "total = 0.0\n    total += float(x)",
        "kept = [0] * 3\n    kept[i] += 1",
        "table = {}\n    table[i] = x",
        "a, b = [1.0], 0\n    a[b], b = 2, 3",
        "n += 1",
        "x = float(x)\n    x /= 2",
    ],
)
def test_numbers_and_lists_may_change(line: str) -> None:
    assert violations(f"def f(xp, x, y, i, n: int = 0):\n    {line}\n", Names()) == []


def test_other_modules_show_what_is_plain() -> None:
    names = shown_by(
        [
            "WIDER = 2.0\ndef worth(x) -> tuple[float, Array]: ...",
            "class A(NamedTuple):\n    n: int\n    rows: Array\n",
            "class B(NamedTuple):\n    rows: int\n",
        ]
    )
    head = "def f(x, y):\n    "
    assert violations(head + "a, b = worth(x)\n    a += y", names) == []
    assert violations(head + "a = x.n * WIDER\n    a += y", names) == []
    assert len(violations(head + "a, b = worth(x)\n    b += y", names)) == 1
    assert len(violations(head + "a = x.rows\n    a += y", names)) == 1
