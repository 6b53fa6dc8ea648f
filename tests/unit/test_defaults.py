"""Defaults and public constants of `algos` are what `defaults.txt` says.

A changed default changes every result of those who do not name the argument: it is changed here,
too, and told in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from dualclust import algos

STORED = Path(__file__).with_name("defaults.txt")
PLAIN = (bool, int, float, str, tuple)


def public() -> Iterator[tuple[str, object]]:
    """What the modules of `algos` define and export, with its path below `algos`."""
    for found in pkgutil.walk_packages(algos.__path__, f"{algos.__name__}."):
        module = importlib.import_module(found.name)
        for name in getattr(module, "__all__", ()) if not found.ispkg else ():
            value = getattr(module, name)
            if getattr(value, "__module__", found.name) == found.name:
                yield f"{found.name.removeprefix('dualclust.algos.')}.{name}", value


def defaults() -> str:
    """A line for each constant, and for each callable with a default that is a plain value."""
    lines = []
    for name, value in public():
        if isinstance(value, PLAIN):
            lines.append(f"{name} = {value!r}")
        elif callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
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
