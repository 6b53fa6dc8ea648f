"""Errors that are meant: another value of the same kind, a step, a case or a term left out.

They are those that people make, and that a reader overlooks: the program still runs, and most of
what it returns is right.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.mutation.names import Declared, Names, declared
from tests.mutation.places import SILENT_CALLS, Finder, called_name

__all__ = ["SEMANTIC", "SemanticFinder"]

SEMANTIC = (
    "sibling variable",
    "stale value",
    "condition changed",
    "branch dropped",
    "call removed",
    "line removed",
    "if removed",
    "arguments swapped",
    "offset",
    "constant bound",
    "one iteration",
    "factor dropped",
    "term dropped",
    "term added",
    "keyword removed",
    "entry removed",
)
COMMUTE = {"min", "max", "minimum", "maximum", "isinstance", "hypot", "gcd", "zip", "logaddexp"}
# Where an array lies, and how a message or a warning is shown, is not seen on a single CPU.
UNSEEN_KEYWORDS = {
    "device",
    "stacklevel",
    "encoding",
    "non_blocking",
    "pin_memory",
    "flush",
    "file",
}
# Of their arguments they take the shape, the kind or the place alone.
SHAPES = {"zeros_like", "ones_like", "empty_like", "array_namespace"}
CUTS = (2**10, 2**20)
Simple = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr
ROOT = Path(__file__).resolve().parents[2]


class SemanticFinder(Finder):
    """Collect the places of `SEMANTIC`."""

    def __init__(self, source: str, library: Declared | None = None) -> None:
        super().__init__(source)
        self.library = declared(ROOT) if library is None else library
        self.names: list[Names] = []
        self.added: set[int] = set()  # names in a sum of two already

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # Functions inside another see its names.
        self.names.append(self.names[0] if self.names else Names(node))
        super().visit_FunctionDef(node)
        self.names.pop()

    # Statements ---------------------------------------------------------------------------------

    def statement(self, statement: ast.stmt) -> None:
        """Leave out what the program would run without."""
        span = self.span(statement)
        if isinstance(statement, ast.AugAssign):
            self.add("line removed", *span, "pass")
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if called_name(statement.value) not in SILENT_CALLS:
                self.add("call removed", *span, "pass")
        elif isinstance(statement, ast.Assign) and self.bound:
            if all(self._stays(target) for target in statement.targets):
                self.add("line removed", *span, "pass")
        elif isinstance(statement, ast.If) and not statement.orelse:
            test = ast.unparse(statement.test)
            if "TYPE_CHECKING" not in test and "__name__" not in test:
                self.add("if removed", *span, "pass")

    def _stays(self, target: ast.expr) -> bool:
        """Whether a target has a value already."""
        if isinstance(target, ast.Tuple):
            return all(map(self._stays, target.elts))
        if isinstance(target, ast.Name):
            return target.id in self.bound[-1]
        return isinstance(target, ast.Subscript)

    def block(self, body: list[ast.stmt]) -> None:
        """Exchange two statements: one updates what the other reads."""
        for first, second in pairwise(body):
            if not (isinstance(first, Simple) and isinstance(second, Simple) and self.bound):
                continue
            stored, read = _stored(first), _read(first)
            later, reads = _stored(second), _read(second)
            meet = (stored & reads) | (later & read)
            if meet and meet <= self.bound[-1]:
                (a, b), (c, d) = self.span(first), self.span(second)
                if "\n" in self.source[b:c] and ";" not in self.source[b:c]:
                    text = self.source[c:d] + self.source[b:c] + self.source[a:b]
                    self.add("stale value", a, d, text)

    def visit_For(self, node: ast.For) -> None:
        # As lazily as before: some never end by themselves.
        text = f"dict(zip(range(1), {self.text(node.iter)})).values()"
        self.add("one iteration", *self.span(node.iter), text)
        super().visit_For(node)

    # Conditions ---------------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        start, stop = self.span(node)
        texts = [self._grouped(value) for value in node.values]
        word = " and " if isinstance(node.op, ast.And) else " or "
        for i in range(len(texts)):
            self.add("condition changed", start, stop, word.join(texts[:i] + texts[i + 1 :]))
        for value in node.values if isinstance(node.op, ast.And) else []:
            if isinstance(value, ast.Compare) and isinstance(value.left, ast.Name):
                if isinstance(value.ops[0], ast.LtE | ast.Lt | ast.GtE | ast.Gt):
                    text = f"({self.source[start:stop]} or {value.left.id} == 0)"
                    self.add("condition changed", start, stop, text)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        for kept in (node.body, node.orelse):
            self.add("branch dropped", *self.span(node), self._grouped(kept))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.add("condition changed", *self.span(test), "True")
        self.generic_visit(node)

    def _grouped(self, node: ast.expr) -> str:
        """Text of a part, so that it stays one where the whole stood."""
        text = self.text(node)
        is_whole = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return text if is_whole or isinstance(node, ast.Constant) else f"({text})"

    # Terms and names ----------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right = node.left, node.right
        text = _is_text(node)
        if not text and isinstance(node.op, ast.Add | ast.Sub):
            is_place = any(map(self._is_whole, (left, right)))
            kind = "offset" if is_place else "term dropped"
            self.add(kind, *self.span(node), self._grouped(left))
            if isinstance(node.op, ast.Add):
                self.add(kind, *self.span(node), self._grouped(right))
                self.added |= {id(left), id(right)}
        elif not text and isinstance(node.op, ast.Mult | ast.Div):
            self.add("factor dropped", *self.span(node), self._grouped(left))
            if isinstance(node.op, ast.Mult):
                self.add("factor dropped", *self.span(node), self._grouped(right))
        for side in (left, right):
            for name in self._siblings(side) if "xp" in self.visible else []:
                new = f"xp.maximum({self.text(side)}, {name})"
                self.add("sibling variable", *self.span(side), new)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not self.names or not isinstance(node.ctx, ast.Load):
            return
        names = self.names[-1]
        for name in self._siblings(node):
            is_stale = name in names.before[node.id]
            kind = "stale value" if is_stale else "sibling variable"
            self.add(kind, *self.span(node), name)
        if id(node) not in self.added:
            for name in sorted(names.added[node.id] & self.visible):
                self.add("term added", *self.span(node), f"({node.id} + {name})")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            for name in sorted(self.library.fields_like(node.attr)):
                if f"{node.value.id}.{name}" in self.source:
                    new = f"{node.value.id}.{name}"
                    self.add("sibling variable", *self.span(node), new)
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
                self._shifted(bound)
                self._cut(bound)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        if len(node.keys) > 1:
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None:
                    self._left_out("entry removed", self.span(key)[0], self.span(value)[1])
        self.generic_visit(node)

    def _siblings(self, node: ast.expr) -> list[str]:
        if not self.names or not isinstance(node, ast.Name):
            return []
        names = self.names[-1]
        kin = names.siblings[node.id] | names.before[node.id]
        return sorted((kin & self.visible) - {node.id, "self", "cls"})

    def _is_whole(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.Attribute):
            return node.attr.startswith(("first", "n_", "start"))
        if isinstance(node, ast.Call):
            return called_name(node) in ("int", "len")
        return bool(self.names) and isinstance(node, ast.Name) and node.id in self.names[-1].whole

    def _shifted(self, node: ast.expr) -> None:
        """One more and one less than a whole number."""
        for sign in "+-":
            self.add("offset", *self.span(node), f"{self._grouped(node)} {sign} 1")

    def _cut(self, node: ast.expr, cuts: Sequence[int] = CUTS) -> None:
        """A bound that only large problems feel."""
        for most in cuts:
            text = f"min({self.text(node)}, 2**{most.bit_length() - 1})"
            self.add("constant bound", *self.span(node), text)

    # Calls --------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        name = called_name(node)
        if name in SILENT_CALLS or name.endswith(("Error", "Warning")):
            return
        for keyword in node.keywords:
            self._keyword(name, keyword)
        if name in SHAPES:
            return
        for argument in node.args:
            if isinstance(argument, ast.Name) and self._is_whole(argument):
                self._shifted(argument)
                if name == "range":  # with a step, over rows; else over iterations
                    self._cut(argument, CUTS if len(node.args) == 3 else CUTS[:1])
        if name == "range" and len(node.args) == 3:
            start, stop, step = (self.text(a) for a in node.args)
            text = f"min({stop}, {start} + {step})"
            self.add("one iteration", *self.span(node.args[1]), text)
        if name not in COMMUTE:
            self._swapped(name, node.args)
        if not isinstance(node.func, ast.Name):
            self.visit(node.func)
        # `like` is a place, too.
        for child in (*node.args, *(k for k in node.keywords if k.arg not in ("like", "device"))):
            self.visit(child)

    def _keyword(self, name: str, keyword: ast.keyword) -> None:
        if keyword.arg is None or keyword.arg in (UNSEEN_KEYWORDS | {"axis", "dim"}):
            return
        if name == "zip" or not self.library.has_default(name, keyword.arg):
            return  # zip's strictness guards what is so by construction
        self._left_out("keyword removed", *self.span(keyword))

    def _left_out(self, operator: str, start: int, stop: int) -> None:
        """Leave out one of several, with the comma after it."""
        if self.source[stop : stop + 1] == ",":
            stop += 1 + (self.source[stop + 1 : stop + 2] == " ")
        self.add(operator, start, stop, "")

    def _swapped(self, name: str, arguments: list[ast.expr]) -> None:
        for i, (first, second) in enumerate(pairwise(arguments)):
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            alike = type(first) is type(second) or name in self.library.parameters
            if not starred and alike and self.library.may_swap(name, i, i + 1):
                (a, b), (c, d) = self.span(first), self.span(second)
                text = self.source[c:d] + self.source[b:c] + self.source[a:b]
                self.add("arguments swapped", a, d, text)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    is_word = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_word or isinstance(node, ast.JoinedStr)


def _stored(statement: ast.stmt) -> set[str]:
    """Names that a statement gives another value: assigned, or changed by a method in place."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            return {called.value.id}
        return set()
    return {n.id for n in ast.walk(statement) if _is_stored(n)}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _read(statement: ast.stmt) -> set[str]:
    changed = isinstance(statement, ast.AugAssign)
    return {
        n.id
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and (isinstance(n.ctx, ast.Load) or changed)
    }
