"""The training loops of the examples learn by every rule, and the comparison of rules runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of `docs/examples` import what they share by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("name", ["deepcluster_labels", "dino_targets", "sela_labels"])
def test_a_loop_trains_by_every_rule(name: str) -> None:
    found = importlib.import_module(name).main(small=True)
    assert len(found) == 3
    for rule, (run,) in found.items():
        assert run.accuracy > 0.5, rule
        if rule.startswith(("hard", "exact")):
            assert 0.8 < run.sizes[0] <= run.sizes[1] < 1.2, rule


def test_the_comparison_prints_a_row_for_each_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program: Any = importlib.import_module("targets")
    words = ["--tail", "--epochs", "1", "--seeds", "1", "--only", "Sinkhorn, 3", "hard"]
    monkeypatch.setattr(sys, "argv", ["targets.py", *words])
    program.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if " to " in line[-30:]]
    assert [row.split(" | ")[0] for row in rows] == [
        "| Sinkhorn, 3 rounds",
        "| PricedLabels hard, 0.2 to 2.75",
        "| Sinkhorn, 3 rounds, 0.02",
        "| BalancedLabels hard, 0.2 to 2.75",
        "| BalancedLabels hard, 0.2 to 2.75, 0.02",
        "| BalancedLabels hard, equal",
    ]
    sizes = rows[3].split(" | ")[4].split(" to ")
    assert float(sizes[0]) >= 0.15
    assert float(sizes[1]) <= 2.82
