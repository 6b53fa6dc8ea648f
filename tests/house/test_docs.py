"""The pages of the site do what they say: Python runs, commands parse, recipes are recipes.

A page is one session: its blocks run in order and share their names. A block that cannot run says
why in a comment above it, ``<!-- not run: the reason -->``. Sphinx is not needed here.
"""

from __future__ import annotations

import importlib.util
import math
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

pytest.importorskip("torch")
from benchmarks.gpu.program import build_parser as gpu_parser
from tests.pages import links_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.name != "claims.md"
)
PROGRAMS = sorted((DOCS / "examples").glob("*.py"))
EXAMPLES = [path.stem for path in PROGRAMS if "docs/images" in path.read_text("utf-8")]
DRAWN_ELSEWHERE = {
    "gallery.png": ("dualclust demo", "train/loop/results.py"),
    "regret.png": ("dualclust proofs --plot", "proofs/regret_plot.py"),
    "photographs.png": ("dualclust train --data photos -k 10", "benchmarks/photographs.py"),
    "regret.csv": ("dualclust proofs --plot", "proofs/regret_plot.py"),
}
"""Figures that no example draws: the command, and the module that names the file."""
NEEDED = {"faiss_index": ["faiss"]}  # beside the library; `make env` installs it


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


code = load(DOCS / "site" / "blocks.py")
site_links = load(DOCS / "site" / "links.py")


def clicks(front: Path, answer: Path) -> float:
    """How many links of texts lead from a page to another; infinity where none do."""
    reached, n = {front.resolve()}, 0
    while answer.resolve() not in reached:
        ways = {
            (page.parent / path).resolve()
            for page in reached
            for path, _ in links_of(page)
            if path.endswith(".md")
        }
        further = {path for path in ways - reached if path.exists()}
        if not further:
            return math.inf
        reached |= further
        n += 1
    return n


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The blocks of a page as (why not, text)."""
    found = code.blocks_of(page, (DOCS / page).read_text(encoding="utf-8"))
    return [(block.why, block.text) for block in found if block.language == language]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    names: dict[str, Any] = {}
    for number, (why, text) in enumerate(blocks(page, "python")):
        if not why:
            exec(compile(text, f"{page}, block {number}", "exec"), names)


def test_what_is_not_run_says_why() -> None:
    everything = list(code.all_blocks())
    assert {block.page for block in everything} >= {"README.md", "CONTRIBUTING.md", "docs/scale.md"}
    assert [block[:3] for block in everything if code.is_unexplained(block)] == []
    left = [block for block in everything if block.why]
    assert all(len(block.why) > 10 for block in left)
    by_hand = [b.page for b in left if b.language not in code.IN_PART]
    loops = ["docs/guides/in_your_loop.md"] * 2
    more = ["docs/regret.md", "docs/reliability.md", "docs/scale.md", "docs/start/install.md"]
    assert by_hand == [*loops, *more]
    page = code.blocks_page()
    print(page)
    assert page.count("\n- ") == len(left)
    one_span = re.compile(r"- [^`]+, line \d+: (`+)(?!`).+(?<!`)\1", re.M)
    assert sum(bool(one_span.fullmatch(line)) for line in page.splitlines()) == len(left)


def test_a_block_without_a_reason_is_noticed() -> None:
    page = "```sh\nls\n```\n\n```text\npip install x\n```\n\n```ruby\nx\n```\n\n```text\n1 2\n```\n"
    page += "<!-- not run: it is\nlate -->\n\n```python\nx\n```\n```python\ny\n```\n"
    found = list(code.blocks_of("a.md", page))
    assert [code.is_unexplained(block) for block in found] == [False, True, True] + [False] * 3
    assert [(block.line, block.why) for block in found[-2:]] == [(19, "it is late"), (22, "")]


@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, "../CONTRIBUTING.md") if blocks(page, "sh")]
)
def test_commands_parse(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    texts = [text.replace("\\\n", " ") for _, text in blocks(page, "sh")]
    lines = [line.partition("#")[0] for text in texts for line in text.splitlines()]
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
def test_an_example_draws_its_figure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
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


def check_engine(found: Any) -> None:
    table, longest = found
    free, bounded = "k-means, no bounds", "at most 1.1 n/k"
    assert longest[bounded] <= 46  # 1.1 * 2,000 / 48
    assert longest["faiss centers, lists cut to 1.1 n/k"] <= 46
    assert longest[free] > 46
    for name in longest:
        recall = [row.recall for row in table if row.index == name]
        assert recall[0] < recall[-1] == 1.0  # all 48 lists
    assert all(0.0 < row.mean <= row.p99 for row in table)


def test_times_of_an_index_are_read_at_a_recall() -> None:
    module = load(DOCS / "examples" / "faiss_index.py")
    curve = [module.Row("a", 1, 0.5, 10.0, 20.0), module.Row("a", 2, 1.0, 30.0, 60.0)]
    assert module.at_recall(curve, 0.75, "mean") == 20.0
    assert np.isnan(module.at_recall(curve, 0.4, "p99"))
    said = module.report(curve, {"a": 66}).splitlines()[-1]
    assert said == "| a | 66 | 22 | 26 | 28 | 30 | 44 | 52 | 56 | 59 |"


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
    assert all(0.0 <= run.nmi <= 1.0 and run.accuracy > 0.5 for (run,) in runs.values())
    (hard,) = runs["hard, 0.2 to 2.75"]  # of 12.8 rows, rounded outward
    assert 1.99 / 12.8 < hard.sizes[0] < hard.sizes[1] < 36.01 / 12.8


def check_experts(runs: Any) -> None:
    last = {name: run.loads[-50:].mean(axis=0) for name, run in runs.items()}
    assert last["prices"].max() < 1.6 < last["gates"].max()
    assert last["prices"].min() > last["gates"].min()


def check_folder(found: Any) -> None:
    assert all(found.allowed[0] <= size <= found.allowed[1] for size in found.sizes)
    assert sum(found.sizes) == 200
    assert found.left_out == ["desk/cut-short.png"]
    assert found.accuracy > 0.3  # after one epoch


CHECKS: dict[str, Any] = {
    "balanced_experts": check_experts,
    "constraints_picture": lambda panels: np.testing.assert_equal(panels[3].n_out, 6),
    "fair_partition": check_partition,
    "faiss_index": check_engine,
    "gap_picture": lambda gap: np.testing.assert_allclose(gap, 0.0, atol=0.01),
    "inverted_lists": check_lists,
    "peers_chart": lambda bars: np.testing.assert_equal(sum(b.ratio < 1 for b in bars), 3),
    "picture_folder": check_folder,
    "pseudo_labels_loop": check_loop,
    "stratified_splits": check_folds,
    "swav_targets": check_targets,
    "trucks": lambda plans: np.testing.assert_array_less(plans[1].loads.max(), 90.001),
}


def test_every_figure_has_a_program() -> None:
    sources = "".join((DOCS / "examples" / f"{n}.py").read_text("utf-8") for n in EXAMPLES)
    code_of_pages = "".join(text for page in PAGES for _, text in blocks(page, "python"))
    drawn_by_pages = re.findall(r'savefig\("(.+?)"\)', code_of_pages)
    for path in (DOCS / "images").iterdir():
        if drawn := DRAWN_ELSEWHERE.get(path.name):
            build_parser().parse_args([*drawn[0].split()[1:], *["x"] * drawn[0].endswith("plot")])
            assert f'"{path.name}"' in (ROOT / drawn[1]).read_text(encoding="utf-8")
        else:
            assert path.name in sources or path.name in drawn_by_pages, path.name


@pytest.mark.parametrize("front", ["docs/index.md", "README.md"])
@pytest.mark.parametrize("question", site_links.ANSWERS)
def test_an_answer_is_three_clicks_from_the_front_page(front: str, question: str) -> None:
    page, words = site_links.ANSWERS[question]
    answer = (DOCS / page).with_suffix(".md")
    assert words in " ".join(answer.read_text(encoding="utf-8").split())
    assert clicks(ROOT / front, answer) <= 3


def test_an_answer_out_of_reach_is_noticed(tmp_path: Path) -> None:
    for name, text in {
        "a": "[b](b.md#x)",
        "b": "[c](../c.md)",
        "c": "[a](s/a.md) [d](no.md)",
    }.items():
        path = tmp_path / ("" if name == "c" else "s") / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert clicks(tmp_path / "s/a.md", tmp_path / "c.md") == 2
    assert clicks(tmp_path / "s/a.md", tmp_path / "no.md") == math.inf


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
        assert not re.search(r"mappingproxy|<function|<factory| at 0x", text), group
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
    assert all(f"## `dualclust {n}`" in command for n in ("cluster", "train", "proofs", "docs"))
    groups = pages.groups_table()
    assert all(groups.count(f"({name}.rst) | ") == 1 for name in pages.ALL_GROUPS)
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
