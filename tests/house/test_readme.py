"""The README does what it says: its Python runs, its commands parse, its tables are the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualclust
from dualclust.algos.online.certificates import dual_value
from dualclust.backends import TABLE
from dualclust.cli.main import build_parser

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_runs(number: int) -> None:
    text, names = blocks("python")[number], dict[str, Any]()
    exec(compile(text, f"README block {number}", "exec"), names)
    assert names["dc"] is dualclust
    assert "assert " in text or names["loss"].isfinite()


def test_the_exact_example_is_optimal_by_its_prices() -> None:
    (text,) = (block for block in blocks("python") if "dc.assign_exact(" in block)
    names: dict[str, Any] = {}
    exec(compile(text, "README exact example", "exec"), names)
    found, scores, bounds = names["found"], names["scores"], names["bounds"]
    value = np.take_along_axis(scores, found.labels[:, None], axis=1).sum()
    assert found.objective == pytest.approx(value, rel=1e-12)
    assert dual_value(scores, found.prices, bounds) == pytest.approx(value, rel=1e-9)


def test_commands_parse() -> None:
    lines = [
        line.removeprefix("$ ").partition("#")[0]
        for language in ("sh", "console")
        for block in blocks(language)
        for line in block.splitlines()
    ]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("dualclust ")]
    assert len(ours) >= 3
    for arguments in ours:
        build_parser().parse_args(arguments)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def placements_of(column: str) -> list[tuple[str, str]]:
    """Placements that a column of the support table is for: "PyTorch CUDA", "JAX, CuPy CUDA"."""
    libraries = [label.lower().partition(" ") for label in column.split(", ")]
    names = {"pytorch": "torch", "array-api-strict": "array_api_strict"}
    return [(names.get(library, library), kind or "cpu") for library, _, kind in libraries]


def test_support_table_is_the_dispatch_table() -> None:
    (header,) = re.findall(r"^\| kernel \| (.*) \|$", TEXT, flags=re.MULTILINE)
    columns = [placements_of(column) for column in header.split(" | ")]
    named = {"torch_cpu": "numba"}  # it hands the memory over
    for kernel, rows in TABLE.items():
        assert set(rows) <= {place for places in columns for place in places}, kernel
        cells = []
        for places in columns:
            engines = {rows.get(place, "reference text").partition(":")[0] for place in places}
            assert len(engines) == 1, f"{kernel}: {places} need a column each"
            cells += [named.get(engine, engine.partition("_")[0]) for engine in engines]
        assert f"| `{kernel}` | {' | '.join(cells)} |" in TEXT


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
    for name in re.findall(r"`([\w/]+(?:\.md|/))`", TEXT):
        assert (ROOT / name).exists() or name == "X-clusters/", name
