"""Plugin of pytest for the base installation: what imports torch as it loads is not collected.

Named on the command line by the row that has no torch, so that `make test` collects everything.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_TORCH = re.compile(
    r"^(import torch|from (torch|dualclust\.train|tests\.train|\.+train)\b)", re.MULTILINE
)
OTHERS = re.compile(r"^from (tests(?:\.\w+)+) import", re.MULTILINE)


@cache
def needs_torch(path: Path) -> bool:
    """Say whether a module imports torch as it loads: itself, or by what it takes from `tests`."""
    text = path.read_text(encoding="utf-8")
    others = (ROOT / f"{name.replace('.', '/')}.py" for name in OTHERS.findall(text))
    return bool(NEEDS_TORCH.search(text)) or any(map(needs_torch, filter(Path.is_file, others)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test that asks for torch only while it runs."""
    try:
        return (yield)
    except ImportError as error:  # its cause, where the library has said what to install
        if "torch" in (error.name, getattr(error.__cause__, "name", None)):
            pytest.skip("torch is not installed")
        raise


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.is_dir():
        return True if collection_path.name in ("train", "torch") else None
    if collection_path.suffix == ".py" and needs_torch(collection_path):
        return True
    return None
