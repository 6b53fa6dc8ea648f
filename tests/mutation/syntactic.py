"""Errors of one sign: another comparison, operation, constant, axis or returned value."""

from __future__ import annotations

import ast

from tests.mutation.places import SILENT_CALLS, Finder, Function, called_name, own_nodes

__all__ = ["SYNTACTIC", "SyntacticFinder"]

SYNTACTIC = (
    "comparison",
    "arithmetic",
    "constant",
    "sign",
    "and/or/not",
    "min/max",
    "axis",
    "returned value",
)
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
AXES = (("0", "1"), ("1", "0"), ("-1", "0"), ("-2", "-1"), ("2", "1"))


class SyntacticFinder(Finder):
    """Collect the places of `SYNTACTIC`."""

    def enter(self, node: Function) -> None:
        """Return nothing, or the first argument as it came in."""
        arguments = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
        for child in own_nodes(node):
            if isinstance(child, ast.Return) and child.value is not None:
                span = self.span(child.value)
                self.add("returned value", *span, "None")
                if arguments and not isinstance(child.value, ast.Tuple):
                    self.add("returned value", *span, arguments[0])

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            start, stop = self.span(left)[1], self.span(right)[0]
            between = self.source[start:stop]
            for new in COMPARED[type(operation)]:
                if "\n" not in between and "(" not in between and ")" not in between:
                    self.add("comparison", start, stop, f" {new} ")
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if type(node.op) in COMPUTED and not text:
            old, new = COMPUTED[type(node.op)]
            start, stop = self.span(node.left)[1], self.span(node.right)[0]
            between = self.source[start:stop]
            if between.count(old) == 1 and "#" not in between:
                self.add("arithmetic", start, stop, between.replace(old, new))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in COMPUTED:
            old, new = COMPUTED[type(node.op)]
            start, stop = self.span(node.target)[1], self.span(node.value)[0]
            between = self.source[start:stop]
            self.add("arithmetic", start, stop, between.replace(f"{old}=", f"{new}="))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, span = node.value, self.span(node)
        if isinstance(value, bool):
            self.add("constant", *span, str(not value))
        elif isinstance(value, int):
            for new in (value + 1, value - 1):
                self.add("constant", *span, str(new) if new >= 0 else f"({new})")
        elif isinstance(value, float):
            for new in (2.0 * value, 0.5 * value) if value else (1.0,):
                self.add("constant", *span, repr(new))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, _ = self.span(node)
        inner, _ = self.span(node.operand)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.add("sign", start, inner, self.source[start:inner].replace("-", "", 1))
        elif isinstance(node.op, ast.Not | ast.Invert):
            mark = "not " if isinstance(node.op, ast.Not) else "~"
            text = self.source[start:inner].replace(mark, "", 1)
            self.add("and/or/not", start, inner, text)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            start, stop = self.span(left)[1], self.span(right)[0]
            between = self.source[start:stop]
            if between.count(old) == 1:
                self.add("and/or/not", start, stop, between.replace(old, new))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = called_name(node)
        if name in SILENT_CALLS or name.endswith(("Error", "Warning")):
            return
        _, stop = self.span(node.func)
        axes = any(k.arg in ("axis", "dim") for k in node.keywords)
        if name in CALLED and (name not in ("sum", "mean") or axes):
            self.add("min/max", stop - len(name), stop, CALLED[name])
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ("axis", "dim"):
            self.visit(node.value)
            return
        value = ast.unparse(node.value)
        for old, new in AXES:
            if value == old:
                self.add("axis", *self.span(node), f"{node.arg}={new}")
