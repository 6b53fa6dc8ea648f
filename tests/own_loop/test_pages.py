"""The examples of the guide that need packages of others: they run where these are installed."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "in_your_loop.md"
BLOCKS = re.findall(
    r"<!-- not run: needs (\w+).*? -->\n\n```python\n(.*?)```", PAGE.read_text(), re.S
)


def run(package: str) -> dict[str, Any]:
    """Run the page's example of a package."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(dict(BLOCKS)[package], f"{PAGE.name}, {package}", "exec"), names)
    return names


def test_both_examples_are_found() -> None:
    assert [package for package, _ in BLOCKS] == ["Lightning", "lightly"]


@pytest.mark.filterwarnings("ignore")  # those of Lightning
def test_the_example_for_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    monkeypatch.chdir(tmp_path)
    names = run("Lightning")
    assert len(Path("prices.jsonl").read_text().splitlines()) == names["trainer"].max_epochs == 2


def test_the_example_for_lightly_with_other_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed: two large crops and four small ones, of noise."""

    def views(crop_sizes: tuple[int, int], crop_counts: tuple[int, int]) -> Any:
        sides = [s for s, n in zip(crop_sizes, crop_counts, strict=True) for _ in range(n)]
        return lambda picture: [torch.rand(3, side, side) for side in sides]

    module = types.ModuleType("lightly.transforms.swav_transform")
    module.SwaVTransform = views  # type: ignore[attr-defined]
    for name in ("lightly", "lightly.transforms"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = run("lightly")
    assert names["label"].prices.abs().max() > 0
    assert all(target.shape == (8, 10) for target in names["targets"])


@pytest.mark.filterwarnings("ignore")  # those of lightly
def test_the_example_for_lightly() -> None:
    pytest.importorskip(
        "lightly.transforms",
        reason="lightly is not installed, or the torchvision that its views need",
        exc_type=ImportError,
    )
    names = run("lightly")
    assert names["label"].prices.abs().max() > 0
    assert all(torch.isfinite(p).all() for p in names["parameters"])
