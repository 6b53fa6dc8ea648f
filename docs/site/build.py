"""Build the documentation site: ``python docs/site/build.py build/docs``.

The sources are copied to a folder beside the site, generated pages are added (`pages`), Sphinx
builds them with warnings as errors, and `links` checks what was built. Nothing is fetched.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import blocks  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import wording  # noqa: E402


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
    for path in folder.rglob("*.md"):
        text = wording.linked_claims(path.read_text(encoding="utf-8"), path.name)
        if path.parent.name in {"start", "guides", "math"}:
            text = wording.linked_names(text, front)
        if path.parent.name == "decisions":
            text = wording.numbered(text, path.name)
        text = wording.linked_pages(text, path, folder)
        path.write_text(wording.whole_numbers(text), encoding="utf-8")


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
