"""Constants and defaults of a package as text, for the files that pin them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

__all__ = ["inner_defaults", "numbers"]


def numbers(package: ModuleType, leave: Sequence[str] = ()) -> str:
    """Return a line for each constant of a package that holds a number.

    Parameters
    ----------
    package : module
    leave : sequence of str. Parts of the package that are left out, such as ``"config"``.
    """
    lines = []
    for name, module in modules(package, leave):
        for target in constants(module):
            value = getattr(module, target)
            if counts(value) and plain(value):
                lines.append(f"{name}.{target} = {plain(value)}")
    return "\n".join(sorted(lines)) + "\n"


def inner_defaults(package: ModuleType, leave: Sequence[str] = ()) -> str:
    """Return a line for each function, class and method that has a plain default, private or not.

    Parameters
    ----------
    package, leave : as of `numbers`.
    """
    lines = []
    for name, module in modules(package, leave):
        for path, function in functions(module):
            given = [
                f"{p.name}={plain(p.default)}"
                for p in inspect.signature(function).parameters.values()
                if p.default is not p.empty and plain(p.default)
            ]
            if given:
                lines.append(f"{name}.{path}({', '.join(given)})")
    return "\n".join(sorted(lines)) + "\n"


def modules(package: ModuleType, leave: Sequence[str]) -> Iterator[tuple[str, ModuleType]]:
    """Modules of a package by their path below it."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        name = found.name.removeprefix(f"{package.__name__}.")
        if not found.ispkg and not name.startswith(tuple(f"{part}." for part in leave)):
            yield name, importlib.import_module(found.name)


def constants(module: ModuleType) -> Iterator[str]:
    """Names in capitals that a module assigns."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in ast.walk(node):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    if target.id.isupper():
                        yield target.id


def functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions that a module defines, and those of its classes."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__:
            continue
        if isinstance(value, FunctionType):
            yield name, value
        if inspect.isclass(value):
            for inner, method in vars(value).items():
                function = getattr(method, "__func__", method)
                written = isinstance(function, FunctionType) and not inner.startswith("__")
                if written or inner == "__call__":
                    yield f"{name}.{inner}", function
            if not issubclass(value, Exception):
                yield name, value  # as it is made: by its own `__init__`, or from its fields


def counts(value: object) -> bool:
    """Whether there is a number in a value."""
    if isinstance(value, dict):
        return any(map(counts, (*value.keys(), *value.values())))
    if isinstance(value, tuple | list):
        return any(map(counts, value))
    return isinstance(value, int | float)


def plain(value: object) -> str:
    """Text of a value that is made of numbers, words and nothing else; empty of another."""
    if type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, dict):
        pairs = [(plain(k), plain(v)) for k, v in value.items()]
        whole = all(k and v for k, v in pairs)
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}" if whole else ""
    if isinstance(value, tuple | list):
        parts = ["None" if one is None else plain(one) for one in value]
        return "(" + ", ".join(parts) + ")" if all(parts) else ""
    return ""
