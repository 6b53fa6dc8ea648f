"""What the site adds to the text of a page: links, and places where no line may break."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_decision_and_a_measurement_named_in_a_text_are_links() -> None:
    crosslinks = load("crosslinks")
    names = {"decisions/0007-paths.md", "benchmarks/kmeans.md"}
    as_they_are = ["# decision 7", "```sh\n# decision 7, 2 %\n```", "`decision 7, 2 %`"]
    as_they_are += ["[see\ndecision 7](x.md)", "decision 8", "`benchmarks/results/other.md`"]
    for text in as_they_are:
        assert crosslinks.linked(text, "guides/bounds.md", names) == text
    text = "By decision\n7 (`benchmarks/results/kmeans.md`) 2 %."
    expected = "By [decision\n7]({0}decisions/0007-paths.md) ([`benchmarks/results/kmeans.md`]"
    expected += "({0}benchmarks/kmeans.md)) 2\u00a0%."
    assert crosslinks.linked(text, "guides/bounds.md", names) == expected.format("../")
    assert crosslinks.linked(text, "gpu.md", names) == expected.format("")


def test_no_line_breaks_between_a_formula_and_its_full_stop() -> None:
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("sphinx")
    conf = load("conf")
    formulas = [nodes.math("", name) for name in "abc"]
    word = nodes.emphasis("", "word")
    parts = [word, nodes.Text(", "), formulas[0], nodes.Text(", "), formulas[1], nodes.Text(" is ")]
    parts += [formulas[2]]
    codes = [nodes.literal("", "--max-count 3"), nodes.literal("", "tests/" + "long" * 10)]
    page = nodes.paragraph("", "", *parts, *codes)
    conf.keep_together(None, page)
    together = page.children[2]
    assert together.get("classes") == ["nobreak"]
    assert together.children == [formulas[0], nodes.Text(",")]
    assert page.children[:2] == parts[:2]
    assert page.children[3:7] == [nodes.Text(" "), *parts[4:]]
    assert page.astext().startswith("word, a, b is c")
    assert [code.get("classes") for code in codes] == [["whole"], []]
