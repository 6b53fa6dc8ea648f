"""The router of the example balances a layer that is computed twice, and the comparison runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of `docs/examples` import what they share by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_a_layer_with_checkpoints_ends_inside_its_bounds() -> None:
    loads, error = importlib.import_module("token_router").main(steps=200)
    assert 0.7 < loads.min() <= loads.max() < 1.4
    assert error < 2.0


@pytest.mark.parametrize("score_func", ["sigmoid", "softmax"])
def test_scores_experts_and_counts_fit_each_other(score_func: str) -> None:
    module: Any = importlib.import_module("token_router")
    torch.manual_seed(0)
    router = module.TokenRouter(
        16, 8, 2, score_func=score_func, route_norm=True, route_scale=2.5, capacity=1.0
    )
    layer = module.Layer(16, router, 8)
    x = torch.randn(64, 16)
    scores, experts, counts = router(x)
    torch.testing.assert_close(scores.sum(dim=1), torch.full((64,), 2.5))
    assert counts.max() <= 16
    assert counts.tolist() == experts[experts >= 0].bincount(minlength=8).tolist()
    wanted = torch.zeros_like(x)
    for i, j in (experts >= 0).nonzero().tolist():
        wanted[i] += scores[i, j] * (x[i] @ layer.weight[experts[i, j]])
    torch.testing.assert_close(layer(x), wanted, atol=1e-5, rtol=1e-4)


def test_the_comparison_prints_a_row_for_each_router(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program: Any = importlib.import_module("routers")
    words = ["--experts", "8", "--top-k", "2", "--steps", "60"]
    monkeypatch.setattr(sys, "argv", ["routers.py", *words])
    program.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[6:]]
    assert [row[0].removeprefix("| ") for row in rows] == list(program.RULES)
    assert float(rows[-1][5]) <= 1.26  # the capacity, in every batch
    monkeypatch.setattr(sys, "argv", ["routers.py", "--time", "--tokens", "64", "--repeats", "1"])
    program.main()
    assert len(capsys.readouterr().out.splitlines()) == 6 + 8
