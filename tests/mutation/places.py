"""Places in a module where an error can be made, found with `ast`.

A mutant is a replacement of one piece of text. Left alone is what no test can be asked to see:
docstrings, messages and what builds them, annotations, imports, `__all__`, code for type checkers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["SILENT_CALLS", "Finder", "Function", "Mutant", "called_name", "own_nodes"]

Function = ast.FunctionDef | ast.AsyncFunctionDef
SILENT_CALLS = {"warn", "print", "debug", "info", "warning", "manual_seed_all", "synchronize"}


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
        One of `operators.OPERATORS`.
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


class Finder(ast.NodeVisitor):
    """Collect (function, operator, start, stop, new) of one module; operators are subclasses'."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = source.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.scope: list[str] = []
        self.bound: list[set[str]] = []
        self.found: list[tuple[str, str, int, int, str]] = []

    def _at(self, line: int, column: int) -> int:
        """Character of a place that `ast` counts in bytes of UTF-8."""
        text = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(text)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Characters of a node."""
        return (
            self._at(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._at(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def text(self, node: ast.AST) -> str:
        """Text of a node."""
        start, stop = self.span(node)
        return self.source[start:stop]

    def add(self, operator: str, start: int, stop: int, new: str) -> None:
        """Note a replacement."""
        if self.source[start:stop] != new:
            self.found.append((".".join(self.scope), operator, start, stop, new))

    @property
    def visible(self) -> set[str]:
        """Local names that are bound by now, of the functions around the place."""
        return set().union(*self.bound)

    # What operators are asked -------------------------------------------------------------------

    def enter(self, node: Function) -> None:
        """Look at a function as a whole."""

    def block(self, body: list[ast.stmt]) -> None:
        """Look at the statements of a block together."""

    def statement(self, statement: ast.stmt) -> None:
        """Look at a statement, before what is in it."""

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
        self.enter(node)
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

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bind(node.target)
        self._body(node.body)
        self._body(node.orelse)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars)
        self._body(node.body)

    def _body(self, body: list[ast.stmt]) -> None:
        kept = [statement for statement in body if not _is_words(statement)]
        self.block(kept)
        for statement in kept:
            self.statement(statement)
            self.visit(statement)
            if isinstance(statement, ast.Assign | ast.AnnAssign):
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

    def _bind(self, node: ast.AST) -> None:
        if self.bound:
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            self.bound[-1].update(n.id for n in names if isinstance(n.ctx, ast.Store))


def _is_words(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, "...", a message or `__all__`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    if not isinstance(statement, ast.Assign):
        return False
    names = {t.id for t in statement.targets if isinstance(t, ast.Name)}
    return bool({"__all__", "msg", "message"} & names)


def called_name(node: ast.Call) -> str:
    """Last name of what is called, or ""."""
    called = node.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef | ast.Lambda):
            yield child
            yield from own_nodes(child)
