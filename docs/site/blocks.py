"""Blocks of code in the README and the pages: which are run by a test, and why the others are not.

``python docs/site/blocks.py`` prints the list that `make docs` puts on the page "Blocks of code".
Python is run, and a recipe is read and checked as a run would; commands are parsed by the command's
own parser. Any other block needs a comment above it, ``<!-- not run: the reason -->``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.*?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```", re.M | re.S
)
RUN = {"python": "run", "toml": "read and checked as a recipe"}
"""What a test does with a block of a language: all of it."""
IN_PART = {
    "sh": "parsed, with targets of make looked up: it would install, or take files of yours",
    "console": "its command is parsed: the file is yours, and so is the result",
}
"""What a test does with a block that it cannot execute, and why it cannot."""
COMMAND = re.compile(r"^(?:\$ |>>> |import |pip |python |dualclust |make |torchrun )", re.M)


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes
    ----------
    page : str. Path from the root of the repository.
    line : int. Of its fence, from 1.
    language : str
    text : str
    why : str. Why it is not executed; empty where it is, or where it is no code.
    """

    page: str
    line: int
    language: str
    text: str
    why: str


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a page that name a language."""
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        language = found["language"]
        why = " ".join((found["why"] or IN_PART.get(language, "")).split())
        yield Block(page, line, language, found["text"], why)


def all_blocks() -> Iterator[Block]:
    """Yield the blocks of the README, of CONTRIBUTING, of every page and of every measurement."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    paths += sorted((ROOT / "docs").rglob("*.md"))
    paths += sorted((ROOT / "benchmarks").rglob("*.md"))
    for path in paths:
        yield from blocks_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def is_unexplained(block: Block) -> bool:
    """Whether a block looks like code, is not run, and does not say why."""
    if block.why or block.language in RUN:
        return False
    return block.language != "text" or bool(COMMAND.search(block.text))


def blocks_page() -> str:
    """Write the page that lists the blocks that are not executed, with the reasons."""
    blocks = list(all_blocks())
    ran = [block for block in blocks if block.language in RUN and not block.why]
    shown = [block for block in blocks if block.language == "text" and not block.why]
    left = [block for block in blocks if block.why]
    lines = [
        "# Blocks of code",
        "",
        f"Of {len(blocks)} blocks in the README and on these pages {len(ran)} are run by tests",
        "(`tests/house/test_readme.py`, `test_docs.py`),",
        f"what a program prints is in {len(shown)}, and these {len(left)} are not executed.",
        "",
    ]
    for why in dict.fromkeys(block.why for block in left):
        lines += [f"**{why[0].upper()}{why[1:]}**", ""]
        for block in left:
            if block.why == why:
                first = textwrap.shorten(block.text.splitlines()[0], 72, placeholder=" ...")
                lines.append(f"- {block.page}, line {block.line}: {_literal(first)}")
        lines.append("")
    return "\n".join(lines)


def _literal(text: str) -> str:
    """Mark text as code, by a fence that is longer than any run of backticks in the text."""
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    space = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{space}{text}{space}{fence}"


if __name__ == "__main__":
    print(blocks_page(), end="")
