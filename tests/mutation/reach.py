"""Which tests can run a function: what it is named in, and what that is named in, up to a test.

No coverage is measured, so it costs seconds. A test counts if there is a chain of names from it to
the function: names are resolved by imports; a class stands for all its methods; a name that cannot
be resolved for all functions of that name. A test that starts processes, or imports by a computed
name, counts for all. So a test that is left out has no way to the function, and only tests that
could have no effect are.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Reach", "reach_of"]

PARTS = ("algos", "backends", "train", "dualclust", "proofs", "tests")
LINKED = ("algos", "backends", "train", "proofs")
"""Packages of `dualclust` that are folders beside it."""

EVERYTHING = {"subprocess", "multiprocessing", "import_module", "fork", "Popen", "globals"}
"""Names by which a test can run what it does not name."""

BODY = ""
"""Name of what a module runs when it is imported."""

JUDGE = {"tests/judged.py", "tests/judge_calls.py"}
"""They see what tests call by themselves."""

Symbol = tuple[str, str]
"""A module's path and a name at its top level."""


class _Module(NamedTuple):
    path: str
    defined: dict[str, list[ast.AST]]
    imported: dict[str, Symbol]


class Reach:
    """The names of a repository, and which of them name which.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = dict(self._read())
        self.by_name: dict[str, set[Symbol]] = defaultdict(set)
        for module in self.modules.values():
            for name in module.defined:
                self.by_name[name].add((module.path, name))
        self.kernels = {s for s in self._all() if "kernel" in self._decorators(s)}
        self.named_by: dict[Symbol, set[Symbol]] = defaultdict(set)
        self.free: set[Symbol] = set()
        for module in self.modules.values():
            for name, nodes in module.defined.items():
                for used in self._used(module, name, nodes):
                    self.named_by[used].add((module.path, name))
        self.collected = {symbol for symbol in self._all() if self._is_test(*symbol)}
        for module in self.modules.values():  # a million nodes, which nobody asks any more
            for nodes in module.defined.values():
                nodes.clear()

    def tests(self, module: str, function: str) -> list[str]:
        """Test functions that can run a function or class, or any of a module if it is empty."""
        names = self.modules[module].defined
        top = function.partition(".")[0]
        begin = {(module, top)} if top in names else {(module, name) for name in names}
        seen, waiting = set(begin), deque(begin)
        while waiting:
            for found in self.named_by[waiting.popleft()] - seen:
                seen.add(found)
                waiting.append(found)
        free, again = set(self.free), deque(self.free)
        while again:  # a helper that starts processes makes its callers free
            for found in self.named_by[again.popleft()] - free:
                if found[0].startswith("tests/"):
                    free.add(found)
                    again.append(found)
        return sorted(f"{path}::{name}" for path, name in (seen | free) & self.collected)

    def _is_test(self, path: str, name: str) -> bool:
        """Whether pytest collects it: functions and classes, no constants such as TESTED."""
        kinds = {"test": ast.FunctionDef, "Test": ast.ClassDef}.items()
        nodes = self.modules[path].defined[name]
        is_named = Path(path).name.startswith("test_")
        return is_named and any(
            name.startswith(prefix) and any(isinstance(node, kind) for node in nodes)
            for prefix, kind in kinds
        )

    def _read(self) -> Iterator[tuple[str, _Module]]:
        for part in PARTS:
            for path in sorted((self.root / part).rglob("*.py")):
                name = path.relative_to(self.root).as_posix()
                if not name.startswith(tuple(f"dualclust/{link}/" for link in LINKED)):
                    tree = ast.parse(path.read_text(encoding="utf-8"))
                    yield name, _Module(name, _defined(tree), self._imported(name, tree))

    def _all(self) -> Iterator[Symbol]:
        return ((m.path, name) for m in self.modules.values() for name in m.defined)

    def _decorators(self, symbol: Symbol) -> set[str]:
        nodes = self.modules[symbol[0]].defined[symbol[1]]
        lists = (getattr(node, "decorator_list", []) for node in nodes)
        return {
            n.id for each in lists for d in each for n in ast.walk(d) if isinstance(n, ast.Name)
        }

    @cache  # noqa: B019
    def _file(self, dotted: str) -> str | None:
        """Path of a module by its name; None if it is not ours."""
        parts = dotted.split(".")
        if len(parts) > 1 and parts[0] == "dualclust" and parts[1] in LINKED:
            parts = parts[1:]
        for path in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
            if parts[0] in PARTS and (self.root / path).is_file():
                return path
        return None

    def _imported(self, path: str, tree: ast.AST) -> dict[str, Symbol]:
        """What imports anywhere in a module bind; a module as the symbol of its body."""
        where = path.removesuffix(".py").removesuffix("/__init__").split("/")
        package = where if path.endswith("__init__.py") else where[:-1]
        if package and package[0] in LINKED:
            package = ["dualclust", *package]
        found: dict[str, Symbol] = {}
        for node in _statements(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    if file := self._file(whole):
                        found[alias.asname or whole] = file, BODY
            elif isinstance(node, ast.ImportFrom):
                up = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*up, *([node.module] if node.module else [])])
                for alias in node.names:
                    bound = alias.asname or alias.name
                    if file := self._file(f"{base}.{alias.name}"):
                        found[bound] = file, BODY
                    elif file := self._file(base):
                        found[bound] = file, alias.name
        return found

    def _resolved(self, symbol: Symbol, depth: int = 0) -> set[Symbol]:
        """Where a name is defined, through the modules that only pass it on."""
        path, name = symbol
        module = self.modules.get(path)
        if module is None or depth > 20:
            return set()
        if name in module.defined:
            return {symbol}
        if name in module.imported:
            return self._resolved(module.imported[name], depth + 1)
        below = path.replace("__init__.py", f"{name}.py")
        if below != path and below in self.modules:
            return {(below, BODY)}
        return self.by_name.get(name, set())

    def _used(self, module: _Module, name: str, nodes: list[ast.AST]) -> set[Symbol]:
        """What a name of a module names."""
        if module.path in JUDGE:
            return set()
        found: set[Symbol] = {(module.path, BODY)}
        if module.path.endswith("methods/__init__.py"):  # they import what lies beside them
            beside = module.path.removesuffix("__init__.py")
            found |= {symbol for symbol in self._all() if symbol[0].startswith(beside)}
        if (module.path, name) in self.kernels:
            found |= {s for s in self.by_name[name] if s[0].startswith("backends/")}
        inside = [node for outer in nodes for node in ast.walk(outer)]
        for node in inside:
            if isinstance(node, ast.Name) and node.id in module.defined:
                found.add((module.path, node.id))
            elif isinstance(node, ast.Name) and node.id in module.imported:
                found |= self._resolved(module.imported[node.id])
            elif isinstance(node, ast.Attribute):
                path = self._module_of(module, node.value)
                found |= self._resolved((path, node.attr)) if path else set()
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= self._said(node.value)
        if module.path.startswith("tests/"):
            found |= self._fixtures(module, nodes)
            words = {getattr(node, "id", None) or getattr(node, "attr", None) for node in inside}
            if words & EVERYTHING:
                self.free.add((module.path, name))
            if words & {"KERNELS", "TABLE"}:  # of `backends`: any kernel, by its name
                found |= self.kernels
        return found

    def _said(self, text: str) -> set[Symbol]:
        """What a string names, as "dualclust.algos.core.reads.read"."""
        words = text.split(".")
        if words[0] != "dualclust" or not re.fullmatch(r"[\w.]+", text):
            return set()
        for i in range(len(words), 0, -1):
            if file := self._file(".".join(words[:i])):
                return self._resolved((file, words[i])) if i < len(words) else {(file, BODY)}
        return set()

    def _module_of(self, module: _Module, node: ast.AST) -> str | None:
        """Path of the module that an expression names, as ``dc.torch``; None for another."""
        if isinstance(node, ast.Name) and node.id not in module.defined:
            path, name = module.imported.get(node.id, ("", "?"))
            return path if name == BODY else None
        if isinstance(node, ast.Attribute):
            package = self._module_of(module, node.value)
            if package and package.endswith("__init__.py"):
                folder = package.removesuffix("__init__.py")
                for path in (f"{folder}{node.attr}.py", f"{folder}{node.attr}/__init__.py"):
                    links = path.removeprefix("dualclust/")
                    for one in (path, links):
                        if one in self.modules:
                            return one
        return None

    def _fixtures(self, module: _Module, nodes: list[ast.AST]) -> set[Symbol]:
        """Fixtures that a test asks for by the names of its arguments, or gets anyway."""
        places = [module, *self._conftests(Path(module.path).parent)]
        found = {(place.path, name) for place in places for name in self._unasked(place.path)}
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                asked = {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
                marks = (c for d in node.decorator_list for c in ast.walk(d))
                asked |= {str(c.value) for c in marks if isinstance(c, ast.Constant)}
                found |= {(p.path, n) for p in places for n in asked & p.defined.keys()}
        return found

    @cache  # noqa: B019
    def _conftests(self, folder: Path) -> list[_Module]:
        paths = ((up / "conftest.py").as_posix() for up in (folder, *folder.parents))
        return [self.modules[path] for path in paths if path in self.modules]

    @cache  # noqa: B019
    def _unasked(self, path: str) -> list[str]:
        """What every test of a module gets: its marks, and fixtures that need no asking."""
        module = self.modules[path]
        return [
            name
            for name in module.defined
            if name == "pytestmark" or "autouse" in self._keywords(module, name)
        ]

    @staticmethod
    def _keywords(module: _Module, name: str) -> set[str]:
        lists = (getattr(node, "decorator_list", []) for node in module.defined[name])
        every = (n for each in lists for d in each for n in ast.walk(d))
        return {n.arg or "" for n in every if isinstance(n, ast.keyword)}


def _defined(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """What a module defines at its top level, also inside of ``if`` and ``try``."""
    found: dict[str, list[ast.AST]] = defaultdict(list)
    found[BODY] = []
    waiting: deque[ast.stmt] = deque(tree.body)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name].append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [_target(node)]
            for target in targets:
                names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
                for name in names if "__all__" not in names else []:
                    found[name].append(node)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            for field in ("body", "orelse", "finalbody"):
                waiting.extend(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                waiting.extend(handler.body)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            found[BODY].append(node)
    return found


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements at any depth, without the expressions in them, which are most of a tree."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from _statements(child)


def _target(node: ast.AST) -> ast.expr:
    target: ast.expr = getattr(node, "target", None) or node.name  # type: ignore[attr-defined]
    return target


@cache
def reach_of(root: Path) -> Reach:
    """The names of a repository, read once."""
    collects = gc.isenabled()
    gc.disable()  # it would look at all nodes again and again, for as long as all the rest takes
    try:
        return Reach(root)
    finally:
        if collects:
            gc.enable()
