"""`make check` has a test file for each sub-package."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.house.test_packaging import ROOT, tree_packages
from tests.quick import QUICK


def name_of(folder: str) -> str:
    """A folder of QUICK as it is imported."""
    name = folder.replace("/", ".")
    return name if folder.startswith("dualclust") else f"dualclust.{name}"


def test_every_sub_package_has_its_file() -> None:
    assert {name_of(folder) for folder in QUICK} == tree_packages(ROOT)


def test_every_file_holds_tests() -> None:
    for path in set(QUICK.values()):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith("test_") for name in names), path


def test_the_list_is_printed() -> None:
    command = [sys.executable, "-m", "tests.quick"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(said.split()) == set(QUICK.values())
