"""Small errors that can be made in a module: every place of every kind, found with `ast`.

A mutant is a replacement of one piece of text. Left alone is what no test can be asked to see:
docstrings, messages and what builds them, annotations, imports, `__all__`, code for type checkers.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["OPERATORS", "Mutant", "is_python", "mutants"]

COMPARED = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
COMPUTED = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
CALLED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "amin": "amax",
    "amax": "amin",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
    "any": "all",
    "all": "any",
    "sum": "mean",
    "mean": "sum",
}
COMMUTE = {"min", "max", "minimum", "maximum", "isinstance", "hypot", "gcd", "zip"}
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
SILENT_CALLS = {"warn", "print", "debug", "info", "warning", "manual_seed_all", "synchronize"}

OPERATORS = (
    "comparison",
    "arithmetic",
    "constant",
    "sign",
    "and/or/not",
    "min/max",
    "axis",
    "statement removed",
    "keyword removed",
    "returned value",
    "arguments swapped",
)


@dataclass(frozen=True)
class Mutant:
    """One replacement in one module.

    Parameters
    ----------
    module : str
        Path below the repository, "algos/online/duals.py".
    function : str
        Dotted name of the function or class around the place; "" at the top of the module.
    operator : str
        One of `OPERATORS`.
    start, stop : int
        What is replaced, in characters of the module's text.
    new : str
    old_line, new_line : str
        First changed line before and after, stripped; with module, function and operator they name
        the mutant wherever its line moves.
    """

    module: str
    function: str
    operator: str
    start: int
    stop: int
    new: str
    old_line: str
    new_line: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What stays the same when lines move."""
        return self.module, self.function, self.operator, self.old_line, self.new_line

    def applied(self, source: str) -> str:
        """Return the module's text with the error in it."""
        return source[: self.start] + self.new + source[self.stop :]


class _Finder(ast.NodeVisitor):
    """Collect (operator, start, stop, new) of one module, with the function around each."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0]
        for line in source.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.lines = source.split("\n")
        self.scope: list[str] = []
        self.bound: list[set[str]] = []
        self.found: list[tuple[str, str, int, int, str]] = []

    def _at(self, line: int, column: int) -> int:
        """Character of a place that `ast` counts in bytes of UTF-8."""
        text = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(text)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._at(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._at(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _text(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self.source[start:stop]

    def _add(self, operator: str, start: int, stop: int, new: str) -> None:
        if self.source[start:stop] != new:
            self.found.append((".".join(self.scope), operator, start, stop, new))

    # What is left alone -------------------------------------------------------------------------

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages."""

    def visit_Import(self, node: ast.Import) -> None:
        """No code."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """No code."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Messages, mostly."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Of what the program knows anyway."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation."""

    # Scopes -------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if any("overload" in ast.unparse(d) for d in node.decorator_list):
            return
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self.scope.append(node.name)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.bound.append({a.arg for a in arguments})
        self._returns(node, [a.arg for a in node.args.args if a.arg not in ("self", "cls")])
        self._body(node.body)
        self.bound.pop()
        self.scope.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        self._body(node.body)
        self.scope.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test):
            return
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring, or "..."
            if isinstance(statement, ast.Assign):
                names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
                if {"__all__", "msg", "message"} & set(names):
                    continue
            self._removal(statement)
            self.visit(statement)
            self._bind(statement)

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._body(value)
            else:
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, ast.AST):
                        self.visit(item)

    def _bind(self, statement: ast.stmt) -> None:
        if self.bound and isinstance(statement, ast.Assign):
            for node in ast.walk(ast.Module([statement], [])):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.bound[-1].add(node.id)

    # The operators ------------------------------------------------------------------------------

    def _removal(self, statement: ast.stmt) -> None:
        """Statements that the program would run without."""
        removable = isinstance(statement, ast.AugAssign)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            removable = name not in SILENT_CALLS
        elif isinstance(statement, ast.Assign) and self.bound:
            targets = statement.targets
            removable = all(
                (isinstance(t, ast.Name) and t.id in self.bound[-1]) or isinstance(t, ast.Subscript)
                for t in targets
            )
        elif isinstance(statement, ast.If):
            test = ast.unparse(statement.test)
            removable = not statement.orelse and "TYPE_CHECKING" not in test
            removable = removable and "__name__" not in test
        if removable:
            self._add("statement removed", *self._span(statement), "pass")

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            start, stop = self._span(left)[1], self._span(right)[0]
            between = self.source[start:stop]
            for new in COMPARED[type(operation)]:
                if "\n" not in between and "(" not in between and ")" not in between:
                    self._add("comparison", start, stop, f" {new} ")
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if type(node.op) in COMPUTED and not text:
            old, new = COMPUTED[type(node.op)]
            start, stop = self._span(node.left)[1], self._span(node.right)[0]
            between = self.source[start:stop]
            if between.count(old) == 1 and "#" not in between:
                self._add("arithmetic", start, stop, between.replace(old, new))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in COMPUTED:
            old, new = COMPUTED[type(node.op)]
            start, stop = self._span(node.target)[1], self._span(node.value)[0]
            between = self.source[start:stop]
            self._add("arithmetic", start, stop, between.replace(f"{old}=", f"{new}="))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, span = node.value, self._span(node)
        if isinstance(value, bool):
            self._add("constant", *span, str(not value))
        elif isinstance(value, int):
            for new in (value + 1, value - 1):
                self._add("constant", *span, str(new) if new >= 0 else f"({new})")
        elif isinstance(value, float):
            for new in (2.0 * value, 0.5 * value) if value else (1.0,):
                self._add("constant", *span, repr(new))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, _ = self._span(node)
        inner, _ = self._span(node.operand)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._add("sign", start, inner, self.source[start:inner].replace("-", "", 1))
        elif isinstance(node.op, ast.Not | ast.Invert):
            mark = "not " if isinstance(node.op, ast.Not) else "~"
            text = self.source[start:inner].replace(mark, "", 1)
            self._add("and/or/not", start, inner, text)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            start, stop = self._span(left)[1], self._span(right)[0]
            between = self.source[start:stop]
            if between.count(old) == 1:
                self._add("and/or/not", start, stop, between.replace(old, new))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in SILENT_CALLS or name.endswith(("Error", "Warning")):
            return
        _, stop = self._span(called)
        axes = any(k.arg in ("axis", "dim") for k in node.keywords)
        if name in CALLED and (name not in ("sum", "mean") or axes):
            self._add("min/max", stop - len(name), stop, CALLED[name])
        for keyword in node.keywords:
            self._keyword(keyword)
        if len(node.args) >= 2 and name not in COMMUTE:
            first, second = node.args[:2]
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            if not starred:
                (a, b), (c, d) = self._span(first), self._span(second)
                text = self.source[c:d] + self.source[b:c] + self.source[a:b]
                self._add("arguments swapped", a, d, text)
        self.generic_visit(node)

    def _keyword(self, keyword: ast.keyword) -> None:
        start, stop = self._span(keyword)
        if keyword.arg is None or keyword.arg in UNSEEN_KEYWORDS:
            return
        if keyword.arg in ("axis", "dim"):
            value = ast.unparse(keyword.value)
            for old, new in (("0", "1"), ("1", "0"), ("-1", "0"), ("-2", "-1"), ("2", "1")):
                if value == old:
                    self._add("axis", start, stop, f"{keyword.arg}={new}")
            return
        if self.source[stop : stop + 1] == ",":
            stop += 1
            if self.source[stop : stop + 1] == " ":
                stop += 1
        self._add("keyword removed", start, stop, "")

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ("axis", "dim"):  # `_keyword` has them
            self.visit(node.value)

    def _returns(self, node: ast.FunctionDef, arguments: list[str]) -> None:
        """Return nothing, or the first argument as it came in."""
        for child in _own_statements(node):
            if isinstance(child, ast.Return) and child.value is not None:
                span = self._span(child.value)
                self._add("returned value", *span, "None")
                if arguments and not isinstance(child.value, ast.Tuple):
                    self._add("returned value", *span, arguments[0])


def _own_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from _own_statements(child)


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of the text; a few may be no Python (`is_python`)."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    lines, found = source.split("\n"), {}
    for function, operator, start, stop, new in finder.found:
        line = bisect_right(finder.starts, start) - 1
        end = bisect_right(finder.starts, stop) - 1
        tail = lines[end][stop - finder.starts[end] :]
        changed = (lines[line][: start - finder.starts[line]] + new + tail).split("\n")[0]
        found[start, stop, new] = Mutant(
            module, function, operator, start, stop, new, lines[line].strip(), changed.strip()
        )
    return [found[place] for place in sorted(found)]


def is_python(text: str) -> bool:
    """Whether a module's text compiles."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
