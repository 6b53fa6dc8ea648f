"""`import dualclust` is cheap: the engines and the extras are loaded on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "numba", "cvxpy", "sklearn", "pyarrow", "h5py")


def loaded_by(statement: str, folder: Path) -> set[str]:
    """Which of HEAVY are loaded in a fresh interpreter, started in `folder`, by `statement`."""
    program = f"{statement}\nimport sys\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    # -I: neither the working folder nor PYTHONPATH nor a user's site-packages has a say.
    run = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        "dualclust",
        "dualclust.algos",
        "dualclust.backends",
        "dualclust.cli.main",
        "dualclust.cluster.command",
        "dualclust.common.ranks",
        "dualclust.train.config",
    ],
)
def test_import_loads_no_engine(name: str, tmp_path: Path) -> None:
    assert loaded_by(f"import {name}", tmp_path) == set()


@pytest.mark.parametrize("heavy", HEAVY)
def test_the_check_can_fail(heavy: str, tmp_path: Path) -> None:
    pytest.importorskip(heavy)
    assert heavy in loaded_by(f"import dualclust\nimport {heavy}", tmp_path)
