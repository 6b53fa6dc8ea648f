"""Defaults and constants of `algos` are what `defaults.txt` says.

A changed default changes every result of those who do not name the argument, and a changed constant
the bits, the time or the accuracy that were measured with it: it is changed here, too, and told in
CHANGELOG.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from dualclust import algos

STORED = Path(__file__).with_name("defaults.txt")
PLAIN = (bool, int, float, str, tuple)


def callables() -> Iterator[tuple[str, Any]]:
    """What the modules define, exported or not, with its path below `algos`; and methods."""
    for module in modules():
        for name, value in vars(module).items():
            if callable(value) and getattr(value, "__module__", "") == module.__name__:
                yield f"{short(module)}.{name}", value
                for method, function in vars(value).items() if inspect.isclass(value) else ():
                    function = getattr(function, "__func__", function)
                    if inspect.isfunction(function) and not method.startswith("__"):
                        yield f"{short(module)}.{name}.{method}", function


def constants() -> Iterator[tuple[str, object]]:
    """What the modules assign to names in capitals, exported or not."""
    for module in modules():
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Assign):
                for target in ast.walk(node):
                    if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                        if target.id.isupper():
                            yield f"{short(module)}.{target.id}", getattr(module, target.id)


def changes(record: Any) -> str:
    """A record by the fields that are not those of its class."""
    given = {f.name: getattr(record, f.name) for f in fields(record)}
    named = [f"{f.name}={given[f.name]!r}" for f in fields(record) if given[f.name] != f.default]
    return f"{type(record).__name__}({', '.join(named)})"


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(algos.__path__, f"{algos.__name__}."):
        if not found.ispkg:
            yield importlib.import_module(found.name)


def short(module: ModuleType) -> str:
    return module.__name__.removeprefix("dualclust.algos.")


def defaults() -> str:
    """A line for each constant, and for each callable with a default that is a plain value."""
    lines = [f"{name} = {value!r}" for name, value in constants() if isinstance(value, PLAIN)]
    lines += [f"{name} = {changes(value)}" for name, value in constants() if is_dataclass(value)]
    for name, value in callables():
        # What an enumeration may be called with changes from one Python to the next.
        if not (inspect.isclass(value) and issubclass(value, (Exception, Enum))):
            given = [
                f"{p.name}={p.default!r}"
                for p in inspect.signature(value).parameters.values()
                if isinstance(p.default, PLAIN)
            ]
            if given:
                lines.append(f"{name}({', '.join(given)})")
    return "\n".join(sorted(lines)) + "\n"


def test_defaults_are_those_that_are_written_down() -> None:
    assert defaults() == STORED.read_text(encoding="utf-8")


def test_a_changed_default_is_seen(monkeypatch) -> None:
    from dualclust.algos.pseudo_labels.solver import pseudo_labels

    monkeypatch.setitem(pseudo_labels.__kwdefaults__, "tol", 1e-9)
    changed = set(defaults().splitlines()) - set(STORED.read_text(encoding="utf-8").splitlines())
    assert [line.partition("(")[0] for line in changed] == ["pseudo_labels.solver.pseudo_labels"]


def test_a_changed_constant_is_seen(monkeypatch) -> None:
    monkeypatch.setattr("dualclust.algos.pseudo_labels._newton.CAUTION", 0.1)
    changed = set(defaults().splitlines()) - set(STORED.read_text(encoding="utf-8").splitlines())
    assert changed == {"pseudo_labels._newton.CAUTION = 0.1"}
