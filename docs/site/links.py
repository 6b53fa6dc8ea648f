"""Checks of a built site: every link leads somewhere, no page loads anything from a network.

``python docs/site/links.py build/docs/html`` prints what is wrong, and the shortest way from the
front page to each answer that a reader must find within three clicks.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

ANSWERS = {
    "counts instead of ratios": ("guides/bounds.html", "min_count"),
    "an empty cluster": ("guides/troubleshooting.html", "A cluster is empty"),
    "CoKe's Theorem 1": ("math/theorem_r.html", "Theorem 1 of CoKe is false as printed"),
    "four GPUs": ("guides/machines.html", "torchrun --nproc-per-node 4"),
    "export a model": ("guides/model.html", "dualclust export"),
    "what the gap means": ("guides/certificates.html", "The gap is"),
}
"""What a reader must find from the front page: a page, and words that it must hold."""


class Page(HTMLParser):
    """Targets, links, loaded files and text of one page; `main` holds the links of its article."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.main: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []
        self._skip = 0
        self._article = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note targets and links."""
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[key] for key in ("id", "name") if key in found}
        self._skip += tag in {"script", "style"}
        self._article += tag == "article"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
            if self._article:
                self.main.append(found["href"])
        if tag in {"script", "img", "iframe", "source", "video"} and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in {"stylesheet", "preload", "icon", "shortcut icon"}:
            self.loads.append(found.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        """Leave a part of the page."""
        self._skip -= tag in {"script", "style"}
        self._article -= tag == "article"

    def handle_data(self, data: str) -> None:
        """Keep what a reader sees."""
        if not self._skip:
            self.text.append(data)


class Report(NamedTuple):
    """What a check found: counts, what is wrong, and the addresses that were not fetched."""

    n_pages: int
    n_links: int
    wrong: list[str]
    external: list[str]


def read(site: Path) -> dict[str, Page]:
    """Read every page of a site by its path."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(site).as_posix()] = page
    return pages


def is_external(link: str) -> bool:
    """Whether a link leaves the site."""
    return bool(re.match(r"(?:[a-z]+:|//)", link)) and not link.startswith("data:")


def target(page: str, link: str) -> tuple[str, str]:
    """Return the path and the anchor that a link of a page leads to."""
    path, anchor = urldefrag(link)
    path = path.partition("?")[0]
    if not path:
        return page, unquote(anchor)
    parts = page.split("/")[:-1]
    for part in unquote(path).split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts), unquote(anchor)


def check(site: Path) -> Report:
    """Check every link, every loaded file and the ways to the answers."""
    pages = read(site)
    wrong, external, n_links = _links(site, pages)
    wrong += [problem for name, page in pages.items() for problem in _loads(site, name, page)]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        urls = re.findall(r"url\(['\"]?(https?:[^)]+)", text)
        wrong += [f"{path.name}: loads {url} from a network" for url in urls]
    if (site / "index.html").exists():
        for question, way in ways(pages).items():
            if way is None or len(way) > 4:
                wrong.append(f"no way of three clicks to: {question} ({way})")
    return Report(len(pages), n_links, wrong, sorted(external))


def _links(site: Path, pages: dict[str, Page]) -> tuple[list[str], set[str], int]:
    wrong, external, n_links = list[str](), set[str](), 0
    for name, page in pages.items():
        for link in page.links:
            if is_external(link):
                external.add(link)
                continue
            n_links += 1
            path, anchor = target(name, link)
            if not (site / path).exists():
                wrong.append(f"{name}: no file {link}")
            elif anchor and path in pages and anchor not in pages[path].ids:
                wrong.append(f"{name}: no target {link}")
    return wrong, external, n_links


def _loads(site: Path, name: str, page: Page) -> list[str]:
    wrong = []
    for link in page.loads:
        if is_external(link):
            wrong.append(f"{name}: loads {link} from a network")
        elif not link.startswith("data:") and not (site / target(name, link)[0]).exists():
            wrong.append(f"{name}: no file {link}")
    return wrong


def ways(pages: dict[str, Page]) -> dict[str, list[str] | None]:
    """Return the shortest way from the front page to each answer, by links of articles alone."""
    before: dict[str, str | None] = {"index.html": None}
    queue = deque(before)
    while queue:
        name = queue.popleft()
        for link in pages[name].main:
            path, _ = target(name, link)
            if not is_external(link) and path in pages and path not in before:
                before[path] = name
                queue.append(path)
    found: dict[str, list[str] | None] = {}
    for question, (page, words) in ANSWERS.items():
        text = " ".join("".join(pages[page].text).split()) if page in pages else ""
        if page not in before or words not in text:
            found[question] = None
            continue
        way, at = [page], before[page]
        while at is not None:
            way.append(at)
            at = before[at]
        found[question] = way[::-1]
    return found


def main(arguments: list[str]) -> int:
    """Print the report; returns 0 if nothing is wrong."""
    site = Path(arguments[0])
    report = check(site)
    for question, way in ways(read(site)).items():
        print(f"{question}: {' > '.join(way or ['not found'])}")
    print(*report.wrong, sep="\n")
    print(f"{report.n_pages} pages, {report.n_links} links, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
