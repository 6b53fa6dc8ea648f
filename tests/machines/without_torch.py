"""Plugin of pytest for the base installation: what imports torch as it loads is not collected.

Named on the command line by the row that has no torch, so that `make test` collects everything.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

NEEDS_TORCH = re.compile(
    r"^(import torch|from (torch|dualclust\.train|tests\.train)\b)", re.MULTILINE
)


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
    if collection_path.suffix == ".py" and NEEDS_TORCH.search(collection_path.read_text()):
        return True
    return None
