"""A benchmark program as a module, for tests of what it computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

__all__ = ["FOLDER", "program"]

FOLDER = Path(__file__).parents[1] / "benchmarks"


def program(name: str) -> ModuleType:
    """Load `benchmarks/NAME.py`."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
