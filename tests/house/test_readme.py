"""The README does what it says: its Python runs, its commands parse, its tables are the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualclust.algos.online.certificates import dual_value
from dualclust.backends import TABLE
from dualclust.cli.main import build_parser

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_it_is_short_and_its_first_result_comes_early() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 120
    assert lines.index("```python") < 40
    (first,) = blocks("python")
    assert len([line for line in first.splitlines() if line and not line.startswith("assert")]) <= 6


def test_the_first_result_is_what_it_says() -> None:
    """Single sizes may change with the last bit of a product; the smallest and largest do not."""
    (text,) = blocks("python")
    names: dict[str, Any] = {}
    exec(compile(text, "README", "exec"), names)
    said = re.search(r"# \[([\d ]+)\] (\S+)", text)
    assert said is not None
    sizes = [int(size) for size in said[1].split()]
    counts = names["model"].counts_
    assert len(sizes) == len(counts)
    assert sum(sizes) == counts.sum() == 1797
    assert (min(sizes), max(sizes)) == (counts.min(), counts.max()) == (161, 198)
    assert names["model"].gap_ <= 1e-4


def test_the_exact_example_is_optimal_by_its_prices() -> None:
    found = re.findall(r"```python\n(.*?)```", page("guides/which_function.md"), flags=re.DOTALL)
    (text,) = (block for block in found if 'found.status == "optimal"' in block)
    names: dict[str, Any] = {}
    exec(compile(text, "exact example", "exec"), names)
    best, scores, bounds = names["found"], names["scores"], names["bounds"]
    value = np.take_along_axis(scores, best.labels[:, None], axis=1).sum()
    assert best.objective == pytest.approx(value, rel=1e-12)
    assert dual_value(scores, best.prices, bounds) == pytest.approx(value, rel=1e-9)


def test_commands_parse() -> None:
    lines = [
        line.removeprefix("$ ").partition("#")[0]
        for language in ("sh", "console")
        for block in blocks(language)
        for line in block.splitlines()
    ]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("dualclust ")]
    assert len(ours) >= 1
    for arguments in ours:
        build_parser().parse_args(arguments)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_support_table_is_the_dispatch_table() -> None:
    libraries = r"NumPy|PyTorch|JAX|CuPy|array-api-strict"
    lines = re.findall(
        rf"^\| ({libraries})(.*?) \| (.*) \|$", page("start/install.md"), flags=re.MULTILINE
    )
    said = {f"{library}{rest}": set(engines.split(", ")) for library, rest, engines in lines}
    names = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX", "cupy": "CuPy"}
    found: dict[str, set[str]] = {}
    for (library, device), target in (row for rows in TABLE.values() for row in rows.items()):
        engine = "numba" if target.startswith("torch_cpu:") else target.partition("_")[0]
        arrays = names[library] if library == "numpy" else f"{names[library]} {device.upper()}"
        found.setdefault(arrays, set()).add(engine)  # torch_cpu hands the memory over to numba
    without = [name for name in ("JAX", "array-api-strict") if f"{name} CPU" not in found]
    assert said == found | {", ".join(without): {"none"}}


def test_the_peers_are_those_that_were_measured() -> None:
    """Each time stands in the results, and each ratio is that of the two times before it."""
    folder = ROOT / "benchmarks" / "results"
    measured = "".join((folder / f"{n}.md").read_text("utf-8") for n in ("assignment", "kmeans"))
    part = page("guides/peers.md")
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
    ours, ratios = 0.0, []
    for _, mine, peer, ratio in rows[1:]:
        seconds = [re.findall(r"(\d+\.\d+) s\b", cell) for cell in (mine, peer)]
        assert all(f"| {text} |" in measured for cell in seconds for text in cell), peer
        ours = float(seconds[0][0]) if seconds[0] else ours
        ratios.append(float(ratio.strip(" *")))
        assert float(seconds[1][0]) / ours == pytest.approx(ratios[-1], rel=0.03), peer
    assert min(ratios) < 1 < max(ratios)  # where a peer is better, the table says so
    assert len(ratios) > 7


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
    for name in re.findall(r"`([\w/]+(?:\.md|/))`", TEXT):
        assert (ROOT / name).exists() or name == "X-clusters/", name
