"""Which functions of `algos` cite which claims: read off their docstrings, where the links stand.

A docstring that rests on claims ends with ``Claims: docs/claims.md#S1, #S3a.``: the page, and one
anchor for each claim. The page lists the other direction, `citing`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ... import algos

__all__ = ["PAGE", "cited", "citing", "docstrings", "linked"]

PAGE = "docs/claims.md"
ID = r"[SMPCG]\d+[a-e]?"


def cited(text: str) -> set[str]:
    """Return the claims that a docstring names: "claim S3b", "claims G1 to G4", "(M1, M3)"."""
    found: set[str] = set()
    for sentence in re.findall(r"\bclaims?\s+([^.]*)", text):
        for first, last in re.findall(rf"\b({ID})\s+to\s+({ID})\b", sentence):
            letter, numbers = first[0], range(int(first[1:]), int(last[1:]) + 1)
            found |= {f"{letter}{n}" for n in numbers}
        found |= set(re.findall(rf"\b{ID}\b", sentence))
    for inside in re.findall(rf"\(({ID}(?:(?:,\s+|\s+and\s+){ID})*)\)", text):
        found |= set(re.findall(ID, inside))
    return found


def linked(text: str) -> list[str]:
    """Return the anchors of the page that a docstring links to, in its order."""
    anchors = r"#[\w-]+(?:,\s+#[\w-]+)*"
    links = re.findall(rf"{re.escape(PAGE)}({anchors})", text)
    return [name for link in links for name in re.findall(r"#([\w-]+)", link)]


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the dotted name within the module ("" for itself) and the text of each docstring."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield name, ast.get_docstring(node) or ""
            for child in node.body:
                if isinstance(child, ast.ClassDef | ast.FunctionDef):
                    yield from walk(child, f"{name}.{child.name}".lstrip("."))

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def citing() -> dict[str, list[str]]:
    """Return the names below ``dualclust`` that link to each claim."""
    found: dict[str, list[str]] = {}
    for folder in algos.__path__:
        for path in sorted(Path(folder).rglob("*.py")):
            inner = path.relative_to(folder).with_suffix("").parts
            for name, text in docstrings(path):
                full = ".".join(filter(None, ("algos", *inner, name)))
                for claim_id in linked(text):
                    found.setdefault(claim_id, []).append(full)
    return {claim_id: sorted(names) for claim_id, names in found.items()}
