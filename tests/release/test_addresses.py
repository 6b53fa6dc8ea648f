"""Addresses in the metadata are true: of the papers today, of the project when it has a place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.release import wheel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
URLS: dict[str, str] = PROJECT["urls"]
PAPERS = {label.removeprefix("Paper: "): url for label, url in URLS.items() if "Paper" in label}


def test_addresses_are_well_formed_and_no_placeholders() -> None:
    assert len(URLS) >= 5
    assert wheel.wrong_addresses(URLS) == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://arxiv.org/abs/2311.14310", "is no https address"),
        ("arxiv.org/abs/2311.14310", "is no https address"),
        ("https://arxiv/abs/2311.14310", "is no https address"),
        ("https://example.org/a", "is a placeholder"),
        ("https://docs.example.com", "is a placeholder"),
        ("https://github.com/OWNER/dualclust", "is a placeholder"),
        ("https://github.com/your-name/dualclust", "is a placeholder"),
        ("https://forge.net/<user>/dualclust", "is a placeholder"),
        ("https://forge.net/TODO", "is a placeholder"),
    ],
)
def test_what_leads_nowhere_is_named(url: str, why: str) -> None:
    assert wheel.wrong_addresses({"Source": url}) == [f"Source: {url} {why}"]


def test_a_label_fits_the_metadata() -> None:
    [said] = wheel.wrong_addresses({"L" * 33: "https://arxiv.org/abs/2311.14310"})
    assert said.endswith("a label has at most 32 characters")


def test_the_papers_have_one_address_everywhere() -> None:
    """In the metadata, in the file that says how to cite, and on the page that names the papers."""
    assert all(re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{5}", url) for url in PAPERS.values())
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert sorted(re.findall(r'^    url: "(.+)"$', citation, re.M)) == sorted(PAPERS.values())
    page = (ROOT / "docs" / "math" / "index.md").read_text(encoding="utf-8")
    found = re.findall(r"^- \*\*([^*]+)\*\*:[^\[]+\[arXiv (\S+)\]\((\S+?)\)", page, re.M)
    assert {name: url for name, _, url in found} == PAPERS
    assert all(url.endswith(number) for _, number, url in found)
