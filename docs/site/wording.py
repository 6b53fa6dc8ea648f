"""What the site changes in the text of a page: links where the text names things, whole numbers."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["linked_claims", "linked_names", "linked_pages", "numbered", "whole_numbers"]

NOT_TEXT = re.compile(
    r"(^```.*?^```$|\$\$.*?\$\$|^:::.*?^:::$|^ {4}.*?$|^#.*?$"
    r"|`[^`]*`|\[[^\]]*\]\([^)]*\)|\$[^$]*\$|<[^>\n]*>)",
    re.M | re.S,
)
"""Blocks, headings, code, links, formulas and HTML: what is not plain text of a page."""


def whole_numbers(text: str) -> str:
    """Keep a number on one line: a browser would break 7e-17, 162-197, 5 % and 0.96 +- 0.01."""
    parts = NOT_TEXT.split(text)
    for i in range(0, len(parts), 2):
        part = re.sub(r"(?<=\w) \+- (?=[\d.])", "\u00a0±\u00a0", parts[i])
        part = re.sub(r"(?<=\d) (?=%)", "\u00a0", part)
        part = re.sub(r"[-+]?\d[\d.,]*(?:e?-[\d.]*\d)+", r'<span class="whole">\g<0></span>', part)
        parts[i] = part
    return "".join(parts)


def linked_claims(text: str, name: str) -> str:
    """Turn links to claims into the role that knows where each page lies."""
    if name == "claims.md":
        text = re.sub(r"\[([^\]]+)\]\(#(\w+)\)", r"{claim}`\1 <\2>`", text)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)*claims\.md#(\w+)\)", r"{claim}`\1 <\2>`", text)


def linked_names(text: str, front: dict[str, str]) -> str:
    """Turn names of the library into links, but for those in blocks of code and in headings.

    They are names of the front door, attributes of these (`SizeBounds.of`) and names of groups,
    which begin with `algos.`. A link to what the reference does not have remains text.
    """

    def link(match: re.Match[str]) -> str:
        first, dot, rest = match[1].partition(".")
        if first in front:
            return f"{{py:obj}}`{match[1]} <{front[first]}{dot}{rest}>`"
        return f"{{py:obj}}`{match[1]} <dualclust.{match[1]}>`" if first == "algos" else match[0]

    parts = re.split(r"(^```.*?^```$|^#.*?$)", text, flags=re.M | re.S)
    parts[::2] = [re.sub(r"(?<![`}])`(\w+(?:\.\w+)*)`(?!`)", link, part) for part in parts[::2]]
    return "".join(parts)


def linked_pages(text: str, page: Path, folder: Path) -> str:
    """Turn "`docs/gpu.md`", "docs/gpu.md" and "decision 9" into links, where the page exists."""
    decisions = {p.name[:4]: p for p in (folder / "decisions").glob("0*.md")}

    def to(words: str, target: Path | None) -> str:
        there = target is not None and target.exists() and target != page
        return f"[{words}]({os.path.relpath(target, page.parent)})" if there and target else words

    def named(match: re.Match[str]) -> str:
        name = match[1].replace("benchmarks/results/", "docs/benchmarks/").removeprefix("docs/")
        return to(match[0], folder / name)

    def counted(match: re.Match[str]) -> str:
        return match[1] + re.sub(
            r"\d+", lambda m: to(m[0], decisions.get(f"{int(m[0]):04}")), match[2]
        )

    parts = NOT_TEXT.split(text)
    name = r"((?:docs|benchmarks/results)/[\w/-]+\.md(?!\w))"
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = re.sub(rf"^`{name}`$", named, part)
        else:
            part = re.sub(rf"(?<![\w/`]){name}(?!#)", named, part)
            parts[i] = re.sub(r"(\bdecisions?\s)(\d+(?:(?:, | and )\d+)*)", counted, part)
    return "".join(parts)


def numbered(text: str, name: str) -> str:
    """Put the number of a decision before its title: pages refer to decisions by number.

    The page is in the list of decisions, not in the navigation, which every page repeats.
    """
    match = re.match(r"0*(\d+)-", name)
    return re.sub(r"\A# ", f"---\norphan: true\n---\n\n# {match[1]}. ", text) if match else text
