"""Build the documentation site: ``python docs/site/build.py build/docs``.

The sources are copied to a folder beside the site, generated pages are added (`pages`), Sphinx
builds them with warnings as errors, and `links` checks what was built. Nothing is fetched.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import blocks  # noqa: E402
import crosslinks  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402


def stage(folder: Path) -> None:
    """Copy the sources, add what comes from the rest of the repository, and generate pages."""
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("__pycache__", "site"))
    (folder / "about").mkdir()
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        shutil.copy(path, folder / "benchmarks" / path.name)
    for name in ("CHANGELOG", "CONTRIBUTING"):
        shutil.copy(ROOT / f"{name}.md", folder / "about" / f"{name.lower()}.md")
    pages.write_pages(folder)
    (folder / "reference" / "blocks.md").write_text(blocks.blocks_page(), encoding="utf-8")
    front = {name: pages.home(name) for name in pages.front_names()}
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    for path in folder.rglob("*.md"):
        text = linked_claims(path.read_text(encoding="utf-8"), path.name)
        text = crosslinks.linked(text, path.relative_to(folder).as_posix(), names)
        if path.parent.name in {"start", "guides", "math"}:
            text = linked_names(text, front)
        path.write_text(whole_numbers(text), encoding="utf-8")


def whole_numbers(text: str) -> str:
    """Keep a number of a table on one line: a browser would break 7e-17, 162-197, 0.96 +- 0.01."""

    def joined(match: re.Match[str]) -> str:
        cell = re.sub(r"(?<=\d) (?:\+-|±) (?=[\d.])", "\u00a0±\u00a0", match[0])
        return re.sub(r"(?<=[\de])-(?=\d)", "-\u2060", cell)  # a word joiner: no break after it

    return re.sub(r"(?<=\|) [-+\d.][-+±\d.,e \u00a0%]*(?= \|)", joined, text)


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


def main(arguments: list[str]) -> int:
    """Build into the folder named; returns 0 if nothing is wrong."""
    out = Path(arguments[0] if arguments else "build/docs").resolve()
    begun = time.perf_counter()
    for name in ("html", "doctrees"):  # pages that are gone would stay, and pass for checked
        shutil.rmtree(out / name, ignore_errors=True)
    stage(out / "source")
    site = out / "html"
    options = ["-b", "html", "-W", "--keep-going", "-q", "-d", str(out / "doctrees")]
    options += ["-c", str(HERE)]
    code = build_main([*options, str(out / "source"), str(site)])
    if code:
        return int(code)
    report = links.check(site)
    (out / "external_links.txt").write_text("\n".join(report.external) + "\n", encoding="utf-8")
    for line in report.wrong:
        print(line, file=sys.stderr)
    seconds = time.perf_counter() - begun
    print(f"{report.n_pages} pages, {report.n_links} links, {len(report.wrong)} wrong,", end=" ")
    print(f"{len(report.external)} external ones (not fetched), {seconds:.0f} s: {site}/index.html")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
