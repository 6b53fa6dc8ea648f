"""Where no line of the site may break, and what docstrings become on it."""

from __future__ import annotations

import doctest
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


def test_no_line_breaks_between_a_formula_and_its_full_stop() -> None:
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("sphinx")
    conf = load("conf")
    formulas = [nodes.math("", name) for name in "abc"]
    word = nodes.emphasis("", "word")
    parts = [word, nodes.Text(", "), formulas[0], nodes.Text(", "), formulas[1], nodes.Text(" is ")]
    parts += [formulas[2]]
    page = nodes.paragraph("", "", *parts)
    conf.keep_together(None, page)
    together = page.children[2]
    assert together.get("classes") == ["nobreak"]
    assert together.children == [formulas[0], nodes.Text(",")]
    assert page.children[:2] == parts[:2]
    assert page.children[3:7] == [nodes.Text(" "), *parts[4:]]
    assert page.astext().startswith("word, a, b is c")


def test_docstrings_become_pages() -> None:
    docstrings = load("docstrings")
    done = doctest.testmod(docstrings)
    assert done.attempted >= 3
    assert done.failed == 0
    kept = ["Parameters", "----------", "side : int", "    Pixels. More.", "", "Notes", "-----"]
    assert docstrings.whole_entries(kept) == kept
    assert docstrings.by_lines("``a``, a name,\nand ``b``.") == "``a``, a name,\nand ``b``."
    text = docstrings.plain_names("`rows` and `fit`", "function", lambda rows: rows)
    assert text == "``rows`` and `fit`"
