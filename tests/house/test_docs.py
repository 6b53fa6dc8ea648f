"""The pages of the site do what they say: Python runs, commands parse, recipes are recipes.

A page is one session: its blocks run in order and share their names. A block that cannot run says
why in a comment above it, ``<!-- not run: the reason -->``. Sphinx is not needed here; `make docs`
builds the site and checks its links, and what the build writes from code is tested by calling it.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dualclust.cli.main import build_parser

pytest.importorskip("torch")  # the pages train
from benchmarks.gpu.program import build_parser as gpu_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.name != "claims.md"
)
BLOCK = re.compile(r"(?:<!-- not run: (.*?) -->\n+)?^```(\w+)\n(.*?)^```", re.M | re.S)
EXAMPLES = sorted(path.stem for path in (DOCS / "examples").glob("*.py"))
DRAWN_ELSEWHERE = {
    "gallery.png": "`make demo`: train/report/figures.py",
    "regret.png": "`dualclust proofs --plot`: proofs/regret_plot.py",
    "regret.csv": "`dualclust proofs --plot`: proofs/regret_plot.py",
}


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The blocks of a page as (why not, text)."""
    found = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return [(why, text) for why, kind, text in found if kind == language]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    names: dict[str, Any] = {}
    for number, (why, text) in enumerate(blocks(page, "python")):
        if not why:
            exec(compile(text, f"{page}, block {number}", "exec"), names)


def test_what_is_not_run_says_why() -> None:
    reasons = [(page, why) for page in PAGES for why, _ in blocks(page, "python") if why]
    loops = ["guides/in_your_loop.md"] * 2
    assert [page for page, _ in reasons] == [*loops, "regret.md", "scale.md"]
    assert all(len(why) > 10 for _, why in reasons)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")])
def test_commands_parse(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [line.partition("#")[0] for _, text in blocks(page, "sh") for line in text.splitlines()]
    for line in filter(str.strip, lines):
        program, *arguments = shlex.split(line)
        if program == "torchrun":
            arguments = arguments[arguments.index("-m") + 1 :]
            program = arguments.pop(0)
        elif program == "python" and arguments[0] == "-m":
            program, *arguments = arguments[1:]
        if program == "benchmarks.gpu":
            gpu_parser().parse_args(arguments)
        elif program == "dualclust":
            build_parser().parse_args(arguments)
        elif program == "make":
            assert re.search(rf"^{arguments[0]}:", makefile, flags=re.MULTILINE), line
        else:
            assert program in {"pip", ".venv/bin/pytest", ".venv/bin/pre-commit"}, line


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")])
def test_recipes_are_recipes(page: str) -> None:
    from dualclust.train.config import RunConfig, from_mapping
    from dualclust.train.networks import NETWORKS

    for _, text in blocks(page, "toml"):
        assert from_mapping(RunConfig, tomllib.loads(text)).network.name in NETWORKS


def test_other_blocks_are_marked_as_text() -> None:
    known = {"python", "sh", "toml", "text", "console", "math"}
    for page in PAGES:
        fences = re.findall(r"^```(.*)$", (DOCS / page).read_text(encoding="utf-8"), re.M)
        assert {f for f in fences[::2] if not f.startswith("{")} <= known, page


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_draws_its_figure(name: str, tmp_path: Path) -> None:
    found = load(DOCS / "examples" / f"{name}.py").main(tmp_path, small=True)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn
    assert all((DOCS / "images" / file).exists() for file in drawn)
    assert all((tmp_path / file).stat().st_size > 500 for file in drawn)
    CHECKS[name](found)


def check_lists(table: Any) -> None:
    by_name = {row.index: row for row in table}
    bounded = by_name["at most 1.1 n/k"]
    assert bounded.longest <= 110  # of 4,000 in 40 lists
    assert by_name["k-means"].longest > bounded.longest
    for index in by_name:
        recall = [row.recall for row in table if row.index == index]
        assert recall == sorted(recall)
        assert recall[-1] > 0.99


def check_partition(found: Any) -> None:
    greedy, by_hand, best = found
    assert greedy.mean_score >= best.mean_score > by_hand.mean_score
    assert best.counts.sum() == by_hand.counts.sum() == 1797


def check_loop(runs: Any) -> None:
    assert runs["argmax"].sizes[-1].max() > 1000
    assert runs["assign_batch"].sizes[-1].max() < 400


def check_folds(splits: Any) -> None:
    for split in splits.values():
        assert np.ptp(split.table, axis=1).max() <= 1
    together, apart = splits["alike in one fold"], splits["at random"]
    assert together.nearest.mean() < apart.nearest.mean()
    assert together.accuracy < apart.accuracy


def check_targets(runs: Any) -> None:
    for run in runs.values():
        np.testing.assert_allclose(run.sizes.sum(axis=1), 10.0)
        assert 0.0 <= run.nmi <= 1.0
    assert runs["Sinkhorn"].sizes[-1].max() < 2.0


def check_experts(runs: Any) -> None:
    last = {name: run.loads[-50:].mean(axis=0) for name, run in runs.items()}
    assert last["prices"].max() < 1.6 < last["gates"].max()
    assert last["prices"].min() > last["gates"].min()


CHECKS: dict[str, Any] = {
    "balanced_experts": check_experts,
    "fair_partition": check_partition,
    "gap_picture": lambda gap: np.testing.assert_allclose(gap, 0.0, atol=0.01),
    "inverted_lists": check_lists,
    "pseudo_labels_loop": check_loop,
    "stratified_splits": check_folds,
    "swav_targets": check_targets,
}


def test_every_figure_has_a_program() -> None:
    sources = "".join((DOCS / "examples" / f"{n}.py").read_text("utf-8") for n in EXAMPLES)
    for path in (DOCS / "images").iterdir():
        assert path.name in sources or path.name in DRAWN_ELSEWHERE, path.name


def test_pages_name_files_that_exist() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for name in re.findall(
            r"`((?:docs|tests|benchmarks|algos|train|proofs)/[\w/.-]+\.\w+)`", text
        ):
            assert "toy" in name or (ROOT / name).exists(), (
                f"{page}: {name}"
            )  # toy: a method to add


def test_every_page_is_reached() -> None:
    """No page without a link from another: a toctree may be a glob, which Sphinx checks."""
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    generated = {"reference/index.md", "index.md", "decisions/README.md", "benchmarks/index.md"}
    for page in set(PAGES) - generated:
        name = Path(page).stem
        assert re.search(rf"{name}(?:\.md)?\b", text.replace(f"# {name}", "")), page


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return load(DOCS / "site" / "pages.py")


def test_settings_are_all_described(pages: ModuleType) -> None:
    text = pages.settings_page()
    missing = [
        f"{table}.{name}"
        for table, record in pages.records()
        for name in record.__dataclass_fields__
        if name not in dict(pages.records())
        and name not in {"second", "small"}
        and not re.search(rf"^`{name}` \(.{{3,}}\)\n: .{{8,}}$", text, re.M)
    ]
    assert missing == []


def test_every_public_name_is_in_the_reference(pages: ModuleType) -> None:
    for group in pages.ALL_GROUPS:
        text = pages.group_page(group)
        module = sys.modules[group]
        for name in pages.public_names(module):
            assert re.search(rf":: ({group}\.)?{name}\n", text), f"{group}.{name}"
    folders = {
        ".".join(("dualclust", *path.parent.relative_to(ROOT).parts))
        for layer in ("algos", "backends", "train")
        for path in (ROOT / layer).rglob("__init__.py")
        if "__all__ = [" in path.read_text(encoding="utf-8")
    }
    inner = ("dualclust.train.methods.", "dualclust.train.config.methods")
    assert {name for name in folders if not name.startswith(inner)} <= set(pages.ALL_GROUPS)


def test_generated_pages_name_their_things(pages: ModuleType) -> None:
    import dualclust
    from dualclust.backends import TABLE

    assert all(f"`{kernel}`" in pages.capabilities_page() for kernel in TABLE)
    front = pages.names_page()
    assert all(f"`{n} <" in front for n in dualclust.__all__ if n != "__version__")
    command = pages.command_page()
    assert all(f"## `dualclust {n}`" in command for n in ("cluster", "train", "resume", "proofs"))
    assert set(pages.recipe_texts()) == {p.stem for p in (ROOT / "train/recipes").glob("*.toml")}


def test_claims_by_status_holds_every_claim(pages: ModuleType) -> None:
    text = pages.claims_page(DOCS / "claims.md")
    claims = re.findall(r'<a id="([A-Z]\w+)"></a>', (DOCS / "claims.md").read_text("utf-8"))
    assert sorted(re.findall(r"\{claim\}`(\w+)`", text)) == sorted(claims)


def test_pages_cite_claims_that_exist() -> None:
    anchors = set(re.findall(r'<a id="(\w+)"></a>', (DOCS / "claims.md").read_text("utf-8")))
    for page in PAGES:
        cited = set(re.findall(r"\{claim\}`(\w+)`", (DOCS / page).read_text(encoding="utf-8")))
        assert cited <= anchors, f"{page}: {cited - anchors}"


def test_broken_sites_are_noticed(tmp_path: Path) -> None:
    links = load(DOCS / "site" / "links.py")
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="b.html#gone">x</a><a href="c.html">x</a>'
        '<a href="https://example.org/">x</a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="here">x</p>')
    report = links.check(tmp_path)
    assert report.external == ["https://example.org/"]
    assert report.wrong == [
        "a.html: no target b.html#gone",
        "a.html: no file c.html",
        "a.html: loads https://example.org/x.js from a network",
    ]


def test_ways_are_the_shortest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = load(DOCS / "site" / "links.py")
    monkeypatch.setattr(links, "ANSWERS", {"q": ("c.html", "the answer"), "r": ("c.html", "none")})
    for name, text in {
        "index": '<a href="c.html">menu</a><article><a href="b.html">b</a></article>',
        "b": '<article><a href="c.html#x">c</a></article>',
        "c": '<article id="x">the <b>answer</b></article>',
    }.items():
        (tmp_path / f"{name}.html").write_text(text)
    assert links.ways(links.read(tmp_path)) == {"q": ["index.html", "b.html", "c.html"], "r": None}
