"""``dualclust docs``: the pages of the documentation, printed from the installed package.

A docstring or a message that names ``docs/claims.md#S4`` means a page that is installed with the
library: in a wheel the pages lie in ``dualclust/docs``, in a clone of the repository in ``docs``,
and in both beside the folder of `dualclust.algos`, where `pages` looks.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import algos
from ..algos.core.errors import MissingFileError, UsageError

__all__ = ["EXAMPLES", "find_page", "headings", "pages", "plain", "register", "run_docs", "section"]

EXAMPLES = """\
examples:
  dualclust docs
      every page, with its title, and the folder that they lie in
  dualclust docs guides/certificates
      a page, in Markdown; the last part of its name does where it is the only one
  dualclust docs claims#S4
      the section of a claim
  dualclust docs bounds#shares-and-counts
      the section below a heading
  dualclust docs docs/claims.md#S4
      a section, as docstrings and messages write it
  dualclust docs scale --path
      where the page lies, for an editor or a reader of Markdown

The pages of the reference are written from the code when the site is built. Here that text stands
in docstrings, as help(dualclust.assign) shows it, and in --help.
"""

WRITTEN = {
    "claims_by_status": "dualclust docs claims, or dualclust proofs",
    "about/changelog": "CHANGELOG.md of a checkout",
    "about/contributing": "CONTRIBUTING.md of a checkout",
    "reference/blocks": "python docs/site/blocks.py in a checkout",
    "reference/capabilities": "python -c 'import dualclust.backends as b; print(b.TABLE)'",
    "reference/command": "dualclust --help, and --help after each command",
    "reference/names": "python -c 'import dualclust; help(dualclust)'",
    "reference/recipes": "the files of dualclust/train/recipes, whose names --recipe takes",
    "reference/settings": "python -c 'from dualclust.train import config; help(config)'",
}
"""Pages that are written from the code when the site is built, and where the same text stands."""

BESIDE = "benchmarks/results"
"""Where a clone keeps the pages of measurements; the site and the wheel have them with the rest."""


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``dualclust``."""
    parser = commands.add_parser(
        "docs",
        help="print a page of the documentation, or list the pages",
        description="Print a page of the documentation, a section of one, or the list of pages.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("page", nargs="?", metavar="PAGE[#SECTION]", help="default: list the pages")
    parser.add_argument("--path", action="store_true", help="print where the page lies instead")


def run_docs(options: argparse.Namespace) -> int:
    """Print the page, its path or the list, and return 0."""
    found = pages()
    if options.page is None:
        folder = found["index"].parent
        width = max(map(len, found))
        rows = [f"{name:<{width}}  {_title(path)}" for name, path in found.items()]
        print(folder if options.path else "\n".join([*rows, "", f"in {folder}"]))
        return 0
    name, _, anchor = options.page.partition("#")
    if (elsewhere := _written_from_code(name, found)) is not None:
        print(elsewhere)
        return 0
    path = find_page(name, found)
    text = plain(path.read_text(encoding="utf-8"))
    if anchor:
        part = section(text, anchor)
        if part is None:
            msg = (
                f"{name} has no section {anchor!r}. To fix this, print the whole page: "
                f"dualclust docs {name}"
            )
            raise UsageError(msg)
        text = part
    print(path if options.path else text.rstrip("\n"))
    return 0


def pages() -> dict[str, Path]:
    """Return the file of every page by its name, such as ``guides/bounds``.

    Raises
    ------
    MissingFileError
        If the package was installed without its pages.
    """
    root = Path(algos.__file__).resolve().parents[1]
    folder = root / "docs"
    named = {path.relative_to(folder): path for path in folder.rglob("*.md")}
    named |= {Path("benchmarks", path.name): path for path in (root / BESIDE).glob("*.md")}
    if Path("index.md") not in named:
        msg = f"no pages in {folder}. To fix this, install dualclust from its wheel again"
        raise MissingFileError(msg)
    return {path.with_suffix("").as_posix(): named[path] for path in sorted(named)}


def find_page(name: str, found: dict[str, Path]) -> Path:
    """Return the page that a name means: whole, its last parts, or as a docstring writes it.

    Raises
    ------
    UsageError
        If no page has the name, or several have.
    """
    wanted = name.removesuffix(".md").replace(f"{BESIDE}/", "benchmarks/").removeprefix("docs/")
    if wanted in found:
        return found[wanted]
    fitting = [key for key in found if key.endswith(f"/{wanted}")]
    if len(fitting) == 1:
        return found[fitting[0]]
    near = fitting or difflib.get_close_matches(wanted, found, n=3, cutoff=0.5)
    kind = "several pages end in" if fitting else "there is no page"
    way = f"name {' or '.join(near)}" if near else "take a name that 'dualclust docs' lists"
    msg = f"{kind} {name!r}. To fix this, {way}"
    raise UsageError(msg)


def _written_from_code(name: str, found: dict[str, Path]) -> str | None:
    """Return where the text of a page stands that only a built site has; None for others."""
    wanted = name.removesuffix(".md").removesuffix(".rst").removeprefix("docs/")
    if wanted in found:
        return None
    full = next((key for key in WRITTEN if wanted in (key, key.rpartition("/")[2])), wanted)
    module = full.removeprefix("reference/")
    if full in WRITTEN:
        text = WRITTEN[full]
    elif full.startswith("reference/recipes/"):
        text = WRITTEN["reference/recipes"]
    elif module.startswith("dualclust") and find_spec(module) is not None:
        text = f"python -c 'import {module} as m; help(m)'"
    else:
        return None
    return f"{full} is written when the site is built: make docs. The same text: {text}"


def section(text: str, anchor: str) -> str | None:
    r"""Return the section of a page that an anchor leads to, or None.

    Parameters
    ----------
    text : str
        A page in Markdown.
    anchor : str
        That of an ``<a id=...>`` before a heading, or the heading's words in lower case, joined by
        hyphens, as sites make anchors of them. Capitals do not matter.

    Examples
    --------
    >>> page = "# A\n\n## Of b\n\none\n\n### c\n\ntwo\n\n## d\n\nthree\n"
    >>> print(section(page, "of-b"))
    ## Of b
    <BLANKLINE>
    one
    <BLANKLINE>
    ### c
    <BLANKLINE>
    two
    """
    lines, begin, depth = text.splitlines(), None, 0
    for first, number, level, names in headings(lines):
        if begin is not None and level <= depth:
            return "\n".join(lines[begin:first]).strip()
        if begin is None and anchor.casefold() in names:
            begin, depth = number, level
    return None if begin is None else "\n".join(lines[begin:]).strip()


def plain(text: str) -> str:
    r"""Return a page without what only the site reads: roles become their text, menus go.

    Examples
    --------
    >>> plain("See {claim}`S4` and {py:obj}`a stream <dualclust.assign>`.\n")
    'See S4 and a stream.\n'
    """
    text = re.sub(r"^```\{toctree\}.*?^```\n*", "", text, flags=re.M | re.S)
    return re.sub(r"\{[\w:]+\}`~?([^`<]+?)(?:\s*<[^>`]+>)?`", r"\1", text)


def headings(lines: list[str]) -> Iterator[tuple[int, int, int, set[str]]]:
    """Yield where each section begins, and by what names it is found.

    Yields
    ------
    (int, int, int, set of str)
        The line of its first anchor, that of its heading, the heading's level, and its anchors in
        lower case.
    """
    fenced, named, first = False, set[str](), 0
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        if fenced:
            continue
        if identity := re.fullmatch(r'<a id="([^"]+)"></a>', line):
            first = first if named else number
            named.add(identity[1].casefold())
        elif heading := re.match(r"(#+) (.+)", line):
            words = re.sub(r"[^\w\- ]", "", heading[2].casefold()).strip()
            names = {*named, words.replace(" ", "-")}
            yield first if named else number, number, len(heading[1]), names
            named.clear()
        elif line.strip():
            named.clear()


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line[2:] for line in lines if line.startswith("# ")), "")
