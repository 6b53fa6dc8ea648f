"""What the names in a function hold, as far as its text says: which could be taken for another."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutation.places import Function, called_name

__all__ = ["Declared", "Names", "declared"]

# Their value is of the kind of their arguments.
ALIKE = {"abs", "astype", "clip", "float", "int", "max", "maximum", "min", "minimum", "where"}
SCORES = ("block", "product", "score", "value")
ADDED = ("price", "offset", "shift")
Operation = ast.BinOp | ast.Compare | ast.Call


class Names:
    """Names of a function and of those inside it.

    Attributes
    ----------
    siblings : dict of str to set of str
        Names of the same kind: added, subtracted or compared with each other, or parameters of the
        same annotation.
    before : dict of str to set of str
        Names that a name was computed from by an operation that keeps the kind.
    added : dict of str to set of str
        Names that are added to a name somewhere, or prices that go into a call with scores.
    whole : set of str
        Names of whole numbers.
    """

    def __init__(self, node: Function) -> None:
        self.siblings: dict[str, set[str]] = defaultdict(set)
        self.before: dict[str, set[str]] = defaultdict(set)
        self.added: dict[str, set[str]] = defaultdict(set)
        self.whole: set[str] = set()
        self._kinds: dict[str, set[str]] = {}
        for child in ast.walk(node):
            if isinstance(child, Function):
                self._parameters(child)
            elif isinstance(child, ast.BinOp | ast.Compare):
                self._together(_operands(child))
                if isinstance(child, ast.BinOp) and isinstance(child.op, ast.Add):
                    self._sum(child)
            elif isinstance(child, ast.Assign) and len(child.targets) == 1:
                self._assigned(child.targets[0], child.value)
            elif isinstance(child, ast.AnnAssign) and ast.unparse(child.annotation) == "int":
                self.whole.update(_stored(child.target))
            elif isinstance(child, ast.For):
                self._counted(child)
            elif isinstance(child, ast.Call):
                self._priced(child)
        for kind in self._kinds.values():
            for name in kind:
                self.siblings[name] |= kind - {name}

    def _parameters(self, node: Function) -> None:
        kinds: dict[str, set[str]] = defaultdict(set)
        for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if a.annotation is not None:
                kinds[ast.unparse(a.annotation)].add(a.arg)
        self.whole |= kinds["int"]
        for kind in kinds.values():
            for name in kind:
                self.siblings[name] |= kind - {name}

    def _together(self, names: set[str]) -> None:
        """All of one kind, with all that they are of one kind with already."""
        joined = names.union(*(self._kinds.get(name, set()) for name in names))
        if len(names) > 1:
            self._kinds |= dict.fromkeys(joined, joined)

    def _sum(self, node: ast.BinOp) -> None:
        left, right = node.left, node.right
        if isinstance(left, ast.Name) and isinstance(right, ast.Name):
            self.added[left.id].add(right.id)
            self.added[right.id].add(left.id)

    def _priced(self, node: ast.Call) -> None:
        names = [a.id for a in node.args if isinstance(a, ast.Name)]
        for name in names:
            if name.startswith(SCORES):
                self.added[name] |= {n for n in names if n.startswith(ADDED)}

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        called = called_name(value) if isinstance(value, ast.Call) else ""
        if isinstance(target, ast.Tuple):
            if called in ("check_shape", "divmod") or ast.unparse(value).endswith(".shape"):
                self.whole.update(_stored(target))
            return
        if not isinstance(target, ast.Name):
            return
        number = isinstance(value, ast.Constant) and type(value.value) is int
        size = isinstance(value, ast.Subscript) and ast.unparse(value.value).endswith(".shape")
        if number or size or called in ("len", "int"):
            self.whole.add(target.id)
        kept = isinstance(value, ast.BinOp) or called in ALIKE
        before = _operands(value) if isinstance(value, Operation) and kept else set()
        self.before[target.id] |= before - {target.id}
        if isinstance(value, ast.BinOp) or called in ALIKE:
            self._together(before | {target.id})

    def _counted(self, node: ast.For) -> None:
        called = called_name(node.iter) if isinstance(node.iter, ast.Call) else ""
        if called in ("range", "row_blocks", "blocks"):
            self.whole.update(_stored(node.target))
        elif called == "enumerate" and isinstance(node.target, ast.Tuple):
            self.whole.update(_stored(node.target.elts[0]))


def _operands(node: ast.AST) -> set[str]:
    """Names that are operands of an operation, or arguments of what keeps the kind."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Subscript):
        return _operands(node.value)
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        parts = [node.left, node.right]
    elif isinstance(node, ast.BinOp):
        parts = [node.left]
    elif isinstance(node, ast.Compare):
        if not isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
            parts = [node.left, *node.comparators]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    elif isinstance(node, ast.Call) and called_name(node) in ALIKE:
        parts = node.args[1:] if called_name(node) == "where" else node.args
        parts = parts[:1] if called_name(node) in ("astype", "clip") else parts
    return set().union(*map(_operands, parts))


def _stored(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


@dataclass(frozen=True, eq=False)
class Declared:
    """Parameters of the functions, and fields of the records, of the library.

    Attributes
    ----------
    parameters : dict of str to list of dict of str to (str, bool)
        By the last name of a function or class, of each that has this name: annotations of what is
        passed, in order, and whether it has a default.
    """

    parameters: dict[str, list[dict[str, tuple[str, bool]]]]

    def has_default(self, function: str, keyword: str) -> bool:
        """Whether a keyword may be left out, as far as is known."""
        known = self.parameters.get(function, [])
        return not known or any(p.get(keyword, ("", True))[1] for p in known)

    def may_swap(self, function: str, i: int, j: int) -> bool:
        """Whether two positional arguments are of one type, as far as is known."""
        for parameters in self.parameters.get(function, []):
            types = [annotation for annotation, _ in parameters.values()]
            if max(i, j) < len(types) and types[i] != types[j]:
                return False
        return True

    @cache  # noqa: B019
    def fields_like(self, field: str) -> set[str]:
        """Fields of the same annotation in a record that has this field."""
        found = set()
        for name, several in self.parameters.items():
            for fields in several if name[:1].isupper() else []:
                if field in fields:
                    found |= {f for f, (kind, _) in fields.items() if kind == fields[field][0]}
        return found - {field}


@cache
def declared(root: Path) -> Declared:
    """Read all modules of the library."""
    found: dict[str, list[dict[str, tuple[str, bool]]]] = defaultdict(list)
    for folder in ("algos", "backends", "train", "dualclust"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, Function):
                    found[node.name].append(_of_function(node))
                elif isinstance(node, ast.ClassDef):
                    found[node.name].append(_of_class(node))
    return Declared(dict(found))


def _of_function(node: Function) -> dict[str, tuple[str, bool]]:
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    with_default = positional[len(positional) - len(args.defaults) :]
    with_default += [a for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
    return {
        a.arg: (ast.unparse(a.annotation) if a.annotation else "", a in with_default)
        for a in (*positional, *args.kwonlyargs)
        if a.arg not in ("self", "cls")
    }


def _of_class(node: ast.ClassDef) -> dict[str, tuple[str, bool]]:
    for child in node.body:
        if isinstance(child, Function) and child.name == "__init__":
            return _of_function(child)
    return {
        child.target.id: (ast.unparse(child.annotation), child.value is not None)
        for child in node.body
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
    }
