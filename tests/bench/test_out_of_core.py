"""The out-of-core benchmark runs, and what it prints is what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "out_of_core.py"


def test_a_small_file(tmp_path) -> None:
    command = [sys.executable, str(PROGRAM), "--n", "3000", "--d", "8", "--k", "4"]
    done = subprocess.run(
        [*command, "--max-iter", "1", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    cells = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    assert cells[:4] == ["3,000", "8", "4", "cosine"]
    assert 50 < float(cells[5]) < 1500  # megabytes
    assert float(cells[6]) > 0  # seconds
    assert float(cells[7]) > 0
    assert cells[9] == "675-825"
    assert cells[10] == "yes"
    assert list(tmp_path.iterdir()) == []
