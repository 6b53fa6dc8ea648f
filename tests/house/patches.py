"""Which lines of the tests replace a part of the library, read from their syntax trees.

    python -m tests.house.patches [FOLDER]        prints them, file and line

A patch of the library counts whether a test gives it by `setattr`, `setitem`, `mock.patch`, a
string or an assignment. What a test replaces of Python, NumPy, torch or the environment does not
count. An object whose origin the tree does not show, such as a parameter, counts: a helper may not
hide a patch.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["OURS", "ROOT", "counted", "patched", "patches"]

ROOT = Path(__file__).parents[2]
OURS = "dualclust"
REPLACING = {"setattr", "delattr", "setitem", "delitem"}
PATCH = {"patch", "patch.object", "patch.dict", "patch.multiple"}
UNKNOWN = "?"  # counts
BINDING = (
    ast.Assign,
    ast.AnnAssign,
    ast.NamedExpr,
    ast.For,
    ast.comprehension,
    ast.withitem,
)


def dotted(node: ast.AST) -> str:
    """Names and attributes as they are written, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    before = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""


def text_of(node: ast.AST) -> str | None:
    """A string, or the first words of a formatted one."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def made(name: str) -> str:
    """What a call of this name gives."""
    return name if name == UNKNOWN else f"{name}()"


def is_file(name: str) -> bool:
    """Whether a dotted name is a module of the library."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


class Origins:
    """Where the names of a file come from: its imports, then what is made from imported names."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.names: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._add(alias.asname or whole, {whole})
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self._add(alias.asname or alias.name, {f"{node.module}.{alias.name}"})
            elif isinstance(node, ast.ClassDef):
                self._add(node.name, {"tests"})  # a class of the test's own
        binding = [node for node in nodes if isinstance(node, BINDING)]
        for left in (2, 1, 0):  # names may be made from names that are made further down
            for node in binding:
                self._bind(node, {UNKNOWN} if left else set())

    def _add(self, name: str, origins: set[str]) -> None:
        self.names.setdefault(name, set()).update(origins)

    def _bind(self, node: ast.AST, without: set[str]) -> None:
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            pairs = [(node.optional_vars, node.context_expr)]
        else:
            return
        for target, value in pairs:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    self._add(name.id, self.of(value) - without)

    def of(self, node: ast.AST) -> set[str]:
        """The dotted names that an expression may be, or be made by."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id) or {UNKNOWN}
        if isinstance(node, ast.Attribute):
            return {
                f"{name}.{node.attr}" if name != UNKNOWN else name for name in self.of(node.value)
            }
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if called.endswith("import_module") and node.args:
                text = text_of(node.args[0])
                return {UNKNOWN} if text is None else {text}
            if called in ("type", "getattr", "vars", "reload") and node.args:
                return self.of(node.args[0])
            return {"builtins"} if called == "globals" else set(map(made, self.of(node.func)))
        if isinstance(node, ast.Subscript):
            text = text_of(node.slice)
            return {text} if text is not None and text.startswith(OURS) else self.of(node.value)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return set().union(*(self.of(part) for part in node.elts))
        if isinstance(node, ast.Starred | ast.Await):
            return self.of(node.value)
        if isinstance(node, ast.IfExp):
            return self.of(node.body) | self.of(node.orelse)
        return {UNKNOWN}


def is_ours(name: str) -> bool:
    """Whether a dotted name is of the library, and no module that the library imports."""
    if name == UNKNOWN:
        return True
    if name.partition(".")[0] != OURS:
        last = name.rpartition(".")[2]  # a helper of the tests may make an object of ours
        return name.startswith("tests.") and last.endswith("()") and last[:1].islower()
    foreign = sys.stdlib_module_names | {
        "np",
        "numpy",
        "torch",
        "dist",
        "numba",
        "cuda",
        "filelock",
    }
    parts = name.split(".")
    return not any(
        part in foreign and not is_file(".".join(parts[: i + 1])) for i, part in enumerate(parts)
    )


def targets_of(node: ast.AST) -> Iterator[ast.AST]:
    """What a call replaces a part of: the object, or its dotted name as a string."""
    if not isinstance(node, ast.Call) or not node.args:
        return
    called, target = dotted(node.func), node.args[0]
    short = called.removeprefix("unittest.").removeprefix("mock.")
    if called.rpartition(".")[2] in REPLACING or short in PATCH:
        module = node.args[1] if len(node.args) > 1 else target
        yield module if dotted(target) == "sys.modules" and text_of(module) else target


def assigned_to(node: ast.AST) -> Iterator[ast.Name]:
    """The names whose attributes an assignment sets."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                yield target.value


def patched(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each patch of the library."""
    nodes = list(ast.walk(tree))
    origins = Origins(nodes)
    for node in nodes:
        found = False
        for target in targets_of(node):
            text = text_of(target)
            ours = any(map(is_ours, origins.of(target)))
            found = ours if text is None else text.partition(".")[0] == OURS
        for name in assigned_to(node):  # of an object it is no patch, of a module or class it is
            found = all(map(is_module_or_class, origins.of(name)))
        if found:
            yield node.lineno, ast.unparse(node)


def is_module_or_class(name: str) -> bool:
    last = name.rpartition(".")[2]
    is_class = last.lstrip("_")[:1].isupper() and not last.isupper() and "()" not in name
    return name != UNKNOWN and is_ours(name) and (is_file(name) or is_class)


@cache
def patches(folder: Path) -> list[tuple[Path, int, str]]:
    """File, line and text of each patch in a folder and below."""
    return [
        (path, line, text)
        for path in sorted(folder.rglob("*.py"))
        for line, text in patched(ast.parse(path.read_text(encoding="utf-8")))
    ]


def counted(folder: Path) -> Counter[str]:
    """How many patches each folder of tests has, by its path from there."""
    return Counter(path.parent.relative_to(folder).as_posix() for path, _, _ in patches(folder))


if __name__ == "__main__":
    for path, line, text in patches(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "tests"):
        print(f"{path}:{line}: {text}")
