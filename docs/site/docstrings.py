"""What the site does to a docstring: whole entries, equations by the line, names that are no links.

numpydoc takes the first line of an entry for its kind, and docutils joins lines to paragraphs. Both
suit text that is written for them; ours is written to be read in the source.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

LISTS = {"Parameters", "Attributes", "Returns"}
"""Sections of entries ``name : kind``."""
WIDTH = 92
"""Columns of a docstring in a method: a line to which the next word still fits was ended there."""
STOP = re.compile(r"(?<=\S)\. (?=\S)")
PART = re.compile(r"(?<=[.)])\n( *)(?=(?:Guarantee|Cost|Memory|Source|Claims):|Cost O\()")


def whole_entries(lines: list[str]) -> list[str]:
    """Put what an entry means below its kind, where a docstring goes on in the same line.

    Otherwise ``side : int. Pixels of a view, of`` and ``    its file.`` are torn apart: the first
    line passes for the kind.

    Examples
    --------
    >>> whole_entries(["Parameters", "----------", "side : int. Pixels of", "    a view."])
    ['Parameters', '----------', 'side : int', '    Pixels of a view.']
    """
    found: list[str] = []
    section = ""
    at = 0
    while at < len(lines):
        if lines[at].startswith("---") and at:
            section = lines[at - 1]
        entry = re.match(r"(\S.*?) : (.+)", lines[at]) if section in LISTS else None
        stop = at + 1
        while entry and stop < len(lines) and lines[stop].startswith("    "):
            stop += 1
        more = [line.strip() for line in lines[at + 1 : stop]]
        if entry and (STOP.search(entry[2]) or (more and _is_torn(lines[at], more[0]))):
            kind, *meaning = STOP.split(" ".join([entry[2], *more]), maxsplit=1)
            found += [f"{entry[1]} : {kind}", *(f"    {text}" for text in meaning)]
        else:
            found += lines[at:stop]
        at = stop
    return found


def _is_torn(line: str, below: str) -> bool:
    return len(line) + 1 + len(below.split()[0]) > WIDTH and not below[0].isupper()


def by_lines(text: str) -> str:
    r"""Keep each equation of a paragraph of equations on its line, and part the notes.

    Examples
    --------
    >>> by_lines("``a = b``  (1)\n``b = c``  (2)")
    '| ``a = b``  (1)\n| ``b = c``  (2)'
    >>> by_lines("It holds.\nCost: O(n).")
    'It holds.\n\nCost: O(n).'
    """
    blocks = re.split(r"(\n\s*\n)", text)
    return PART.sub(r"\n\n\1", "".join(map(_lines_of_equations, blocks)))


def _lines_of_equations(block: str) -> str:
    lines = block.split("\n")
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or not all(line.lstrip().startswith("``") for line in filled):
        return block
    return "\n".join(re.sub(r"^( *)(?=\S)", r"\1| ", line) for line in lines)


def plain_names(text: str, what: str, thing: Any) -> str:
    """Turn names that mean something here into plain code, which links to no other thing.

    They are parameters and attributes, and in the text of a module its neighbors: `images` is not
    the method of that name of some class.
    """
    entries = re.findall(r"^ +\*\*([\w, ]+)\*\*", text, re.MULTILINE)
    names = {name.strip() for entry in entries for name in entry.split(",")}
    names |= _neighbors(thing) if what == "module" else _parameters(thing)
    for name in names:
        text = re.sub(rf"(?<![`\w.:])`{re.escape(name)}`(?!`)", f"``{name}``", text)
    return text


def _neighbors(module: Any) -> set[str]:
    folder = Path(str(module.__file__)).parent
    return {path.stem for path in folder.glob("*.py")} - set(getattr(module, "__all__", ()))


def _parameters(thing: Any) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):  # a property, or a class without a signature
        return set()
