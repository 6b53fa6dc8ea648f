"""Whoever needs the `train` extra says the same: what is missing, and how to spare CUDA."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dualclust.algos.core.errors import MissingExtraError
from dualclust.cli import proofs
from dualclust.common import ranks
from dualclust.common.extras import INSTALL, needs_train
from dualclust.common.formats.checks import load_extra
from dualclust.common.plotting import new_figure
from tests.house.test_advice import FILES, ROOT

HINT = f"which spares gigabytes of CUDA: {INSTALL})"


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "matplotlib.backends.backend_agg", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)


def ask_for_ranks() -> None:
    ranks.join_ranks()


def import_torch_modules() -> None:
    importlib.import_module("dualclust.torch")


CALLS: dict[str, Callable[[], Any]] = {
    "pictures need matplotlib": lambda: new_figure(10, 10),
    "--plot needs matplotlib": lambda: proofs._prepare_plot(Path("nowhere")),
    "several ranks need torch": ask_for_ranks,
    "dualclust.torch needs torch": import_torch_modules,
    "x.pt is a PyTorch file, which needs torch, and torch is not installed": lambda: load_extra(
        "torch", "train", "x.pt", "a PyTorch file"
    ),
}


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("begins", CALLS)
def test_without_torch_every_message_says_how_to_spare_cuda(
    begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in sys.modules if name.startswith("dualclust.torch")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError) as caught:
        CALLS[begins]()
    said = str(caught.value)
    assert said.startswith(f"{begins}. To fix this: pip install 'dualclust[train]' (without a ")
    assert said.endswith(HINT)


def test_an_extra_that_would_bring_torch_says_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))  # a stand-in without a spec
    assert needs_train("x", "rich").endswith(HINT)


def test_with_torch_nothing_is_said_of_cuda() -> None:
    pytest.importorskip("torch")
    assert needs_train("x", "rich") == "x needs rich. To fix this: pip install 'dualclust[train]'"
    assert needs_train("x", "torch").endswith(HINT)


def test_the_page_is_there() -> None:
    assert "6 GB of CUDA" in (ROOT / INSTALL).read_text(encoding="utf-8")


def writes_it_itself(text: str) -> bool:
    """Whether a module has the line of the extra in a text that is no documentation."""
    if "dualclust[train]" not in text:
        return False
    tree = ast.parse(text)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Constant)
        and "dualclust[train]" in str(node.value)
        and id(node) not in documents
        for node in ast.walk(tree)
    )


def test_no_other_module_writes_the_line() -> None:
    files = {*FILES, *(ROOT / "dualclust").rglob("*.py")}
    found = {
        path.relative_to(ROOT).as_posix() for path in files if writes_it_itself(path.read_text())
    }
    assert found == {"dualclust/common/extras.py"}
