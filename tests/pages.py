"""Where the pages of the documentation are pointed to, and which of these ways lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dualclust.algos.core.errors import UsageError
from dualclust.cli.docs import find_page, headings

__all__ = ["dead_links", "dead_pointers", "links_of", "pointers"]

POINTER = re.compile(r"\b((?:docs|benchmarks/results)/[\w/-]+\.md)((?:#[\w-]+(?:,\s+(?=#))?)*)")
WRITTEN_FROM_CODE = re.compile(r"reference/(?!index)|claims_by_status|about/")
"""Pages that `docs/site/pages.py` writes when the site is built."""
INCLUDED = re.compile(r"\]\(([^)\s]+)\)|^```\{literalinclude\} (\S+)", re.M)


def pointers(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (file, page, anchors) of what code, comments and recipes below a folder point to."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".py", ".toml", ".html", ".js"} and "docs" not in path.parts[-3:-1]:
            for page, anchors in POINTER.findall(path.read_text(encoding="utf-8")):
                yield path.relative_to(folder).as_posix(), page, re.findall(r"#([\w-]+)", anchors)


def dead_pointers(folder: Path, pages: dict[str, Path]) -> list[str]:
    """Return what in the code of a folder points to no page, or to no section of it."""
    dead = []
    for file, page, anchors in pointers(folder):
        try:
            known = anchors_of(find_page(page, pages))
        except UsageError:
            dead.append(f"{file}: {page}")
            continue
        dead += [f"{file}: {page}#{name}" for name in anchors if name.casefold() not in known]
    return dead


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of all sections of a page."""
    sections = headings(page.read_text(encoding="utf-8").splitlines())
    return frozenset(name for *_, names in sections for name in names)


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, anchor) of what a page links to, shows or includes, but for other sites."""
    for linked, included in INCLUDED.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = (linked or included).partition("#")
        if not re.match(r"[a-z]+:", path):
            yield path, anchor


def dead_links(folder: Path) -> list[str]:
    """Return the links of the pages in a folder that lead to no file of it."""
    dead = []
    for page in sorted(folder.rglob("*.md")):
        for path, _ in links_of(page):
            target = (page.parent / path).resolve()
            at = target.relative_to(folder.resolve()).as_posix()
            if path and not target.exists() and not WRITTEN_FROM_CODE.match(at):
                dead.append(f"{page.relative_to(folder).as_posix()}: {path}")
    return dead
