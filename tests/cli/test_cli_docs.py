"""`dualclust docs` prints the page or the section that a docstring or a message names."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest

from dualclust.algos.core.errors import MissingFileError, UsageError
from dualclust.cli import docs
from dualclust.cli.main import main
from tests.pages import dead_links, dead_pointers, links_of, pointers

ROOT = Path(__file__).parents[2]
LAYERS = ("algos", "backends", "train", "proofs", "dualclust")
CERTIFICATES = ROOT / "docs/guides/certificates.md"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["docs", *arguments]) == 0
    return capsys.readouterr().out


def test_the_list_names_every_page_and_where_they_lie(capsys: pytest.CaptureFixture[str]) -> None:
    *rows, empty, last = printed(capsys).splitlines()
    listed = dict(row.split(maxsplit=1) for row in rows)
    assert listed["guides/certificates"] == "Reading certificates"
    assert listed["benchmarks/kmeans"] == "k-means beside its peers"
    assert (empty, last) == ("", f"in {ROOT / 'docs'}")
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks/results").glob("*.md")]
    assert len(listed) == len(files)


@pytest.mark.parametrize(
    "name", ["guides/certificates", "certificates", "docs/guides/certificates.md"]
)
def test_a_page_is_printed_by_any_of_its_names(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, name) == docs.plain(CERTIFICATES.read_text(encoding="utf-8"))


def test_what_only_the_site_reads_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "math/index")
    assert "[Theorem R](theorem_r.md)" in found
    assert "toctree" not in found
    assert "hidden" not in found
    assert "\n| one step of the dual | CoKe Eq. 22 and 23 | yes | C7, C8 |" in printed(
        capsys, "theorem_r"
    )


def test_its_path_is_printed_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "certificates", "--path") == f"{CERTIFICATES}\n"
    assert printed(capsys, "--path") == f"{ROOT / 'docs'}\n"
    results = ROOT / "benchmarks/results/choice.md"
    assert printed(capsys, "benchmarks/results/choice.md", "--path") == f"{results}\n"


@pytest.mark.parametrize("name", ["claims#S4", "docs/claims.md#S4", "claims#s4"])
def test_a_claim_is_printed_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = printed(capsys, name).splitlines()
    assert first.startswith("### S4: ")
    assert any(line.startswith("**Statement.** ") for line in rest)
    assert not any(line.startswith(("#", "<a id")) for line in rest)


def test_a_section_has_its_parts_and_no_comments_of_code_for_headings() -> None:
    page = "# A\n\n## Of b: (x)\n\n```sh\n# no heading\n```\n\n### c\n\nd\n\n<a id='e'></a>\n## f\n"
    found = docs.section(page.replace("'", '"'), "of-b-x")
    assert found == "## Of b: (x)\n\n```sh\n# no heading\n```\n\n### c\n\nd"
    assert docs.section(page.replace("'", '"'), "e") == "## f"
    assert docs.section(page, "no-heading") is None


def test_the_examples_of_the_help_print_something(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split()[2:] for line in docs.EXAMPLES.splitlines() if line[:11] == "  dualclust"]
    assert len(lines) == 6
    assert all(len(printed(capsys, *line)) > 10 for line in lines)
    assert printed(capsys, "bounds#shares-and-counts").startswith("## Shares and counts\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("guides/bound", "there is no page 'guides/bound'. To fix this, name guides/bounds"),
        ("own_loop", "several pages end in 'own_loop'. To fix this, name benchmarks/own_loop or s"),
        ("0x0x", "there is no page '0x0x'. To fix this, take a name that 'dualclust docs' lists"),
        ("claims#S99", "claims has no section 'S99'. To fix this, print the whole page: dualclust"),
    ],
)
def test_what_is_not_there_is_said(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", name]) == UsageError.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"dualclust: error: {message}")


def test_every_page_of_the_site_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the build writes is answered by the place of the same text."""
    pytest.importorskip("torch")  # the settings of a run
    shutil.copytree(ROOT / "docs/reference", tmp_path / "reference")
    shutil.copy(ROOT / "docs/claims.md", tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import_module("pages").write_pages(tmp_path)
    written = {path.relative_to(tmp_path).with_suffix("") for path in tmp_path.rglob("*.*")}
    names = {path.as_posix() for path in written} | set(docs.WRITTEN)
    assert len(names) > 30
    for name in names - set(docs.pages()):
        said = printed(capsys, name)
        assert said.startswith(f"{name} is written when the site is built: make docs."), name
    assert "dualclust docs claims" in printed(capsys, "claims_by_status.md")
    assert printed(capsys, "settings") == printed(capsys, "reference/settings")
    assert main(["docs", "reference/dualclust.algos.nothing"]) == UsageError.exit_code


def test_the_front_page_links_what_a_checkout_has() -> None:
    front = ROOT / "docs/index.md"
    assert [path for path, _ in links_of(front) if not (front.parent / path).exists()] == []


def test_an_installation_without_pages_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs.algos, "__file__", str(tmp_path / "algos" / "__init__.py"))
    with pytest.raises(MissingFileError, match=r"no pages in .*docs\. To fix this, install"):
        docs.pages()


@pytest.mark.parametrize("layer", LAYERS)
def test_what_docstrings_and_messages_point_to_is_there(layer: str) -> None:
    assert dead_pointers(ROOT / layer, docs.pages()) == []


def test_a_dead_pointer_and_a_dead_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""Claims: docs/claims.md#S4, #S99.\ndocs/gone.md, benchmarks/results/mnist.md."""'
    )
    assert len(list(pointers(tmp_path))) == 3
    assert dead_pointers(tmp_path, docs.pages()) == [
        "a.py: docs/claims.md#S99",
        "a.py: docs/gone.md",
    ]
    (tmp_path / "b.md").write_text(
        "[a](gone.md) [b](b.md#x) [c](https://d.e) [f](reference/g.md)\n"
    )
    assert dead_links(tmp_path) == ["b.md: gone.md"]
