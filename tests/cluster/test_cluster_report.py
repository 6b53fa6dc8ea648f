"""`--report`: the page says what the result says, loads nothing, and runs its own script alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import restricted_scores
from dualclust.algos.scores.sources import feature_source
from dualclust.cluster.notable import find_notable
from dualclust.cluster.report import Shown, draw, draw_report
from dualclust.cluster.report.page import SCRIPTS
from dualclust.cluster.report.row_entries import short
from dualclust.common.page import numbers as page_numbers
from dualclust.common.page import read_part
from tests.cluster.results import result

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\u2028"


class Page(HTMLParser):
    """The elements of a page as a browser reads them: tags, texts, scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "text": []}
        self.open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.open = tag
            self.inside[tag].append("")

    def handle_endtag(self, tag):
        self.open = None if tag == self.open else self.open

    def handle_data(self, data):
        if self.open:
            self.inside[self.open][-1] += data
        else:
            self.inside["text"].append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.inside["text"]).split())


def page_of(made, **options):
    source, found, numbers = made
    notable = find_notable(source, found, numbers["metric"], options.get("weights"))
    options = {"title": "X.npy"} | options
    content = draw_report(source, found, numbers, notable, **options)
    assert list(content) == ["report.html"]
    page = Page(content["report.html"].decode())
    return page, json.loads(page.inside["script"][0]), notable, content["report.html"]


CASES = [
    (8, 400, {}),
    (100, 3000, {"lower": 0.9, "upper": np.inf}),
    (1, 20, {"lower": 0.0, "upper": np.inf}),
    (2, 30, {"metric": "euclidean"}),
    (5, 5, {"lower": 0.0, "upper": np.inf, "metric": "euclidean"}),
    (3, 40, {"d": 1}),
    (4, 80, {"counts": ([5, 10, 15, 20], [30, 80, 35, 40])}),
]


@pytest.mark.parametrize(("k", "n", "options"), CASES, ids=str)
def test_the_page_has_the_numbers(k, n, options) -> None:
    made = result(k, n, **options)
    found, numbers = made[1], made[2]
    page, data, notable, _ = page_of(made)
    assert data["counts"] == found.counts.tolist()
    assert data["lower"] == [low if low > 0 else None for low in found.lower.tolist()]
    assert data["upper"] == [high if high < n else None for high in found.upper.tolist()]
    np.testing.assert_allclose(data["prices"], found.prices, rtol=1e-5, atol=1e-8)
    assert data["movedIn"] == notable.moved_in.tolist()
    assert data["movedOut"] == notable.moved_out.tolist()
    for kind in ("exemplars", "doubtful", "moved"):
        lines = getattr(notable, kind)
        assert data[kind]["row"] == lines.row.tolist()
        assert data[kind]["cluster"] == lines.cluster.tolist()
        assert data[kind]["free"] == lines.free.tolist()
        np.testing.assert_allclose(data[kind]["near"], lines.near, rtol=1e-3, atol=1e-8)
    if k > 1:
        assert sum(data["margins"]["counts"]) == data["margins"]["n"] == n
    else:
        assert data["margins"] is None
    for name, value in numbers.items():
        assert name.replace("_", " ") in page.words
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        assert shown in page.words


@pytest.mark.parametrize(("k", "n", "options"), CASES, ids=str)
def test_maps_lie_in_the_unit_square(k, n, options) -> None:
    _, data, _, _ = page_of(result(k, n, **options))
    names = ["Neighborhoods", "Main directions"] if k > 3 else ["Main directions"]
    assert [each["name"] for each in data["maps"]["all"]] == names
    cluster = np.frombuffer(base64.b64decode(data["maps"]["cluster"]), "<u4")
    assert len(cluster) == n
    for each in data["maps"]["all"]:
        at = np.asarray([each["x"], each["y"]])
        assert at.shape == (2, k)
        assert at.min() >= 0
        assert at.max() <= 1
        assert len(base64.b64decode(each["dots"])) == 4 * n


def test_one_color_says_which_bound_acts() -> None:
    """By the sign of the price, where there is such a bound: without bounds nothing is held."""
    made = result(8, 400)
    _, data, _, _ = page_of(made)
    prices, found = made[1].prices, made[1]
    assert (prices > 1e-6).any()
    assert (prices < -1e-6).any()
    assert data["held"] == np.sign(np.where(np.abs(prices) > 1e-9, prices, 0)).tolist()
    assert (found.counts[prices > 1e-6] == found.lower[prices > 1e-6]).all()
    free = (made[0], found._replace(lower=found.lower * 0, upper=found.upper * 0 + 400), made[2])
    page, data, _, _ = page_of(free)
    assert data["held"] == [0] * 8
    assert data["lower"] == data["upper"] == [None] * 8
    assert "No bounds were asked for." in page.words


def test_price_of_balance_and_certificate() -> None:
    for metric, sign in (("cosine", 1.0), ("euclidean", -1.0)):
        weights = np.random.default_rng(0).uniform(0.5, 2.0, size=400)
        source, found, numbers = made = result(6, 400, metric=metric, weights=weights)
        page, _, notable, _ = page_of(made, weights=weights)
        x = source.rows(0, 400)
        if metric == "cosine":
            best = (x @ found.centers.T).max(axis=1)
        else:
            best = ((x[:, None] - found.centers) ** 2).sum(axis=2).min(axis=1)
        free = (weights * best).sum() / weights.sum()
        key = "mean_similarity" if metric == "cosine" else "mean_squared_distance"
        assert sign * (free - numbers[key]) > 0
        text = page.words
        assert f"bounds ignored {free:.6g}" in text
        assert f"inside the bounds {numbers[key]:.6g}" in text
        assert f"{numbers[key + '_bound']:.6g}" in text
        assert f"Balance costs {abs(free - numbers[key]) / free:.2%}" in text
        assert f"{notable.n_moved:,} rows" in text


def test_sizes_outside_their_bounds_are_said() -> None:
    source, found, numbers = result(5, 100)
    page, _, _, _ = page_of((source, found._replace(lower=found.lower + 50), numbers))
    assert "of 5 sizes lie outside their bounds" in page.words


# Nothing from elsewhere ---------------------------------------------------------------------------


def shown_of(values, tmp_path):
    return Shown(EVIL, values, tmp_path, tmp_path / "out")


def rows_of(notable):
    lists = (notable.exemplars, notable.doubtful, notable.moved)
    return np.unique(np.concatenate([lines.row for lines in lists])).tolist()


def test_text_of_the_user_is_text(tmp_path) -> None:
    made = result(5, 60)
    rows = rows_of(find_notable(made[0], made[1], "cosine"))
    clean, _, _, _ = page_of(made)
    page, data, _, content = page_of(
        made,
        title=EVIL,
        ids=dict.fromkeys(rows, EVIL),
        shown=shown_of(dict.fromkeys(rows, EVIL), tmp_path),
    )
    # No tag more than without the text.
    tags, expected = ([tag for tag, _ in each.tags] for each in (page, clean))
    assert tags == expected
    assert len(page.inside["script"]) == 2
    assert page.inside["script"][1] == clean.inside["script"][1]
    assert data["rows"][str(rows[0])]["text"] == short(EVIL, 240)
    assert data["shown"] == EVIL
    assert b"<script>alert" not in content
    assert b"<img src=x" not in content
    assert all(name[:2] != "on" for _, attributes in page.tags for name in attributes)


def test_the_page_loads_and_runs_nothing_else(tmp_path) -> None:
    made = result(5, 60)
    rows = rows_of(find_notable(made[0], made[1], "cosine"))
    values = {row: f"https://example.org/{row}.jpg" for row in rows}
    page, _, _, content = page_of(made, shown=shown_of(values, tmp_path))
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    hashes = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in (("style", page.inside["style"][0]), ("script", page.inside["script"][1]))
    }
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashes['style']}'; "
        f"script-src 'sha256-{hashes['script']}'; base-uri 'none'; form-action 'none'"
    )
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        assert "style" not in attributes  # the policy would drop it
        source = attributes.get("src")
        assert source is None or source.startswith("data:")
        assert (attributes.get("href") or "#").startswith("#")
    outside = content.decode().replace(page.inside["script"][0], "")
    assert re.findall(r"https?://[^\s\"'<>)]+", outside) == ["http://www.w3.org/2000/svg"]


def test_the_script_makes_no_html_of_text() -> None:
    script = "".join(read_part(*part) for part in SCRIPTS)
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\("
    )
    assert not re.findall(forbidden, script)
    assert not re.findall(r"XMLHttpRequest|import\(|WebSocket|localStorage|srcdoc", script)


def test_the_script_is_javascript(tmp_path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not there to read the script")
    page, _, _, _ = page_of(result(3, 30))
    for name, text in (("right.js", page.inside["script"][1]), ("wrong.js", "const = 1;")):
        (tmp_path / name).write_text(text)
        done = subprocess.run([node, "--check", tmp_path / name], capture_output=True, text=True)
        assert (done.returncode == 0) == (name == "right.js"), done.stderr


def test_every_element_that_the_script_asks_for_is_there() -> None:
    page, _, _, _ = page_of(result(3, 30))
    asked = set(re.findall(r'byId\("([^"]+)"\)', page.inside["script"][1]))
    there = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert asked <= set(there)
    assert len(asked) > 15
    assert len(set(there)) == len(there)


def test_a_browser_runs_it(tmp_path) -> None:
    """The policy lets our script run, the script ends, and text of rows stays text."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is there to open the page")
    made = result(30, 900)
    rows = rows_of(find_notable(made[0], made[1], "cosine"))
    _, _, notable, content = page_of(made, shown=shown_of(dict.fromkeys(rows, EVIL), tmp_path))
    (tmp_path / "report.html").write_bytes(content)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}"]
    flags += ["--enable-logging=stderr", "--window-size=1280,900", "--dump-dom"]
    flags += ["--virtual-time-budget=2000"]
    address = (tmp_path / "report.html").as_uri()
    done = subprocess.run([browser, *flags, address], capture_output=True, text=True, timeout=300)
    assert "CONSOLE" not in done.stderr
    page = Page(done.stdout)
    clusters = [a["data-cluster"] for tag, a in page.tags if tag == "tr" and "data-cluster" in a]
    assert clusters[:12] == [str(i) for i in range(12)]  # those in sight
    assert sum(tag == "svg" for tag, _ in page.tags) == 3
    # Exemplars of the table, doubtful and moved rows of the lists.
    assert page.words.count("</script><script>alert(1)") >= 3 * 12
    assert f"{notable.n_moved} rows would choose another cluster" in page.words
    assert "on this page; rows.csv has all." in page.words


# Size and sameness --------------------------------------------------------------------------------


def test_equal_results_are_equal_files() -> None:
    made = result(8, 400)
    first, again = (page_of(made)[3] for _ in range(2))
    assert first == again
    other = (made[0], made[1]._replace(prices=-made[1].prices), made[2])
    assert page_of(other)[3] != first


@pytest.mark.parametrize(
    "kind", ["text", *(pytest.param(k, marks=pytest.mark.slow) for k in ("link", "image"))]
)
def test_a_page_of_a_thousand_clusters_is_below_3_mb(tmp_path, monkeypatch, kind) -> None:
    """Whatever the rows hold: texts that need escapes, long addresses, many images."""
    short = partial(page_numbers.neighbor_map, rounds=3)  # any places have as many digits
    monkeypatch.setattr(page_numbers, "neighbor_map", short)
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    k, n = 1000, 20_000
    _, found, numbers = result(4, 40)
    centers = rng.normal(size=(k, 3))
    made = (
        feature_source(rng.normal(size=(n, 3))),
        found._replace(
            labels=np.arange(n) % k,
            centers=centers,
            counts=np.full(k, n // k),
            lower=np.full(k, 1),
            upper=np.full(k, 100),
            prices=rng.normal(size=k),
        ),
        numbers,
    )
    noise = rng.integers(0, 256, size=(96, 96, 3), dtype=np.uint8)
    for i in range(600 if kind == "image" else 0):
        pillow.fromarray(np.roll(noise, i)).save(tmp_path / f"{i}.png")
    value = {
        "text": lambda row: f"{row} <&> 漢字 " + "<" * 300,
        "link": lambda row: f"https://example.org/{row}?" + "&<" * 200,
        "image": lambda row: f"{row % 600}.png",
    }[kind]
    rows = range(n)
    page, data, _, content = page_of(
        made,
        ids={row: f"{row}" + "<" * 50 for row in rows},
        shown=Shown("column", {row: value(row) for row in rows}, tmp_path, tmp_path / "out"),
    )
    assert 500_000 < len(content) < 3_000_000
    firsts = {
        cluster: row
        for row, cluster in zip(
            reversed(data["exemplars"]["row"]), reversed(data["exemplars"]["cluster"]), strict=True
        )
    }
    assert len(firsts) == k  # every cluster has an exemplar
    assert all(data["rows"][str(row)]["text"] for row in firsts.values())
    if kind == "image":
        assert any("image" in entry for entry in data["rows"].values())
        assert 50 < len(data["images"]) < 600
        assert "to keep the page small" in page.words


def test_a_sample_of_many_rows() -> None:
    """Every third of 45,000 rows, and every third of these on the map."""
    source, found, numbers = result(8, 45_000)
    asked: list[int] = []

    def take(ids):
        asked.append(len(ids))
        return source.take(ids)

    _, data, _, _ = page_of((source._replace(take=take), found, numbers))
    assert sum(asked) == 15_000 + 5_000
    assert data["margins"]["n"] == 15_000
    names = [each["name"] for each in data["maps"]["all"]]
    assert names == ["Neighborhoods", "Main directions"]
    dots = np.frombuffer(base64.b64decode(data["maps"]["cluster"]), "<u4")
    assert dots.tolist() == found.labels[::3][::3].tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_margins_of_a_sample_know_what_its_rows_may_not_join(weighted) -> None:
    n = 450
    weights = np.random.default_rng(3).uniform(0.5, 2.0, n) if weighted else None
    source, found, numbers = result(8, n, weights=weights)
    bounds = SizeBounds.from_counts(found.lower, found.upper, n_samples=n)
    plain = find_notable(source, found, "cosine", weights, all_rows=True).choices
    known = np.where(np.arange(n) % 3 == 0, found.labels, -1)
    barred = np.flatnonzero(known < 0)[::2]
    pairs = np.stack([barred, plain.runner_up[barred]], axis=1)

    def restricted(scores):
        return restricted_scores(scores, bounds, fixed=known, forbidden=pairs)

    expected = find_notable(
        source, found, "cosine", weights, restricted=restricted, all_rows=True
    ).choices
    sample = np.arange(0, n, 5)
    got = draw._choices(source, sample, found, "cosine", weights, restricted)
    np.testing.assert_array_equal(got.runner_up, expected.runner_up[sample])
    np.testing.assert_allclose(got.margin, expected.margin[sample], rtol=1e-9, atol=1e-12)
    assert (got.runner_up != plain.runner_up[sample]).sum() > 20
    made = source, found, numbers
    _, data, _, _ = page_of(made, weights=weights, restricted=restricted)
    assert data["margins"]["n"] == (known < 0).sum() < n
