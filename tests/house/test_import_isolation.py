"""`import dualclust` is cheap: the engines and the extras are loaded on first use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

HEAVY = ("torch", "numba", "cvxpy", "sklearn", "pyarrow", "h5py")
PACKAGES = {"sklearn": "scikit-learn"}


NAMES = (
    "dualclust",
    "dualclust.algos",
    "dualclust.backends",
    "dualclust.cli.main",
    "dualclust.cluster.command",
    "dualclust.common.ranks",
    "dualclust.train.config",
)


def loaded_by(names: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """What of HEAVY is loaded after each import, in a fresh interpreter started in `folder`."""
    program = f"""
import importlib, json, sys
found = {{}}
for name in {list(names)}:
    importlib.import_module(name)
    found[name] = [heavy for heavy in {HEAVY} if heavy in sys.modules]
print(json.dumps(found))
"""
    # -I: neither the working folder nor PYTHONPATH nor a user's site-packages has a say.
    run = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, list[str]] = json.loads(run.stdout)
    return found


def test_import_loads_no_engine(tmp_path: Path) -> None:
    assert loaded_by(NAMES, tmp_path) == {name: [] for name in NAMES}


def test_the_check_can_fail(tmp_path: Path) -> None:
    """The cheapest of them is seen, and none is misspelled: each is a package of some extra."""
    pytest.importorskip("h5py")
    found = loaded_by(["dualclust", "h5py"], tmp_path)
    assert found == {"dualclust": [], "h5py": ["h5py"]}
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for heavy in HEAVY:
        assert f'"{PACKAGES.get(heavy, heavy)}>=' in text
