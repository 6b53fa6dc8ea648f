"""The benchmark of the pseudo-label update runs, on a size where nothing is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "y_update.py"


def test_table_is_printed() -> None:
    command = [sys.executable, str(PROGRAM), "--m", "40", "--k", "4", "--em-seconds", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| 40")]
    assert len(rows) == 9
    for row in rows:
        assert int(row[4].strip("*")) <= 30  # "**1e-03 after 40**" where it did not converge
        assert float(row[6]) <= 1e-8
