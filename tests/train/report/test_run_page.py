"""The page of a run: it says what the arrays say, loads nothing, and runs its own script alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from dualclust.common.page import read_part
from dualclust.train.report.page import SYMPTOMS, Found, Pictures, RunState, found_parts, run_page
from dualclust.train.report.page import samples as page_samples
from dualclust.train.report.page.advice import advice
from dualclust.train.report.page.document import SCRIPTS
from dualclust.train.report.page.figures import curves_of
from tests.cluster.test_cluster_report import EVIL, Page

RECORD = {"loss": 1.0, "lr": 0.1, "churn": 0.01, "size_min": 8, "size_max": 12}


def found_of(n=90, k=5, *, names=None, classes=True):
    rng = np.random.default_rng(0)
    labels = np.arange(n) % k
    nearest = np.where(np.arange(n) % 9 == 0, (labels + 1) % k, labels)
    truth = np.where(np.arange(n) % 10 == 0, (labels + 2) % k, labels)
    return Found(
        epoch=3,
        labels=labels,
        nearest=nearest,
        runner_up=(labels + 1) % k,
        margins=rng.random(n),
        near=rng.random(n),
        loss=np.where(labels == nearest, 0.0, 0.5),
        features=rng.normal(size=(n, 4)).astype(np.float32),
        prices=np.linspace(-0.2, 0.2, k),
        lower=np.full(k, n // k - 4),
        upper=np.full(k, n // k + 4),
        gap=0.0,
        ids=np.arange(n) + 1000,
        names=names,
        classes=truth if classes else None,
        class_names=tuple(f"class {c}" for c in range(k)) if classes else (),
    )


def trained_of(found):
    return found.counts + np.eye(1, len(found.lower), dtype=np.int64)[0]


def state_of(found, *, records=None, done=True, title="a run", method="secu", stopped=""):
    records = [{**RECORD, "epoch": e} for e in (1, 2, 3)] if records is None else records
    return RunState(
        title=title,
        method=method,
        settings=f'method = "{method}"\n[data]\nsource = "x"\n',
        versions={"torch": "2"},
        epochs=4,
        done=done,
        records=records,
        n_samples=len(found.labels),
        lower=found.lower,
        upper=found.upper,
        trained=trained_of(found),
        stopped=stopped,
    )


def gray(positions):
    """An image of one gray for each position: its id."""
    return (np.asarray(positions) % 256).astype(np.uint8)[:, None, None, None] * np.ones(
        (1, 1, 8, 8), np.uint8
    )


def page_of(found, *, attended=None, parts=True, **options):
    made = found_parts(found, Pictures(gray, attended)) if parts else None
    text = run_page(state_of(found, **options), made)
    page = Page(text)
    return page, json.loads(page.inside["script"][0]), text


def test_the_page_has_the_numbers():
    found = found_of()
    page, data, _ = page_of(found)
    assert data["counts"] == found.counts.tolist()
    assert data["trained"] == trained_of(found).tolist()
    assert data["lower"] == found.lower.tolist()
    assert data["upper"] == found.upper.tolist()
    np.testing.assert_allclose(data["prices"], found.prices)
    assert sum(data["movedIn"]) == sum(data["movedOut"]) == data["moved_total"] == 10
    table = np.asarray(data["classes"]["table"])
    expected = np.zeros((5, 5), int)
    np.add.at(expected, (found.labels, found.classes), 1)
    assert (table == expected[data["classes"]["order"]]).all()
    assert data["next"] == [[[(i + 1) % 5, 1.0]] for i in range(5)]
    assert "may leave them" in page.words
    assert "Epoch 3 of 4, the run has ended" in page.words
    assert "data.source x" in page.words


def test_each_kind_of_sample_is_that_kind():
    found = found_of()
    _, data, _ = page_of(found)
    for i in range(5):
        members = np.flatnonzero(found.labels == i)
        order = members[np.argsort(-found.margins[members], kind="stable")]
        rows = {
            kind: [
                row - 1000
                for row, j in zip(data[kind]["row"], data[kind]["cluster"], strict=True)
                if j == i
            ]
            for kind in ("exemplars", "random", "doubtful")
        }
        assert rows["exemplars"] == order[:10].tolist()
        assert rows["doubtful"] == order[10:][::-1][:6].tolist()
        assert sum(map(len, rows.values())) == len(set().union(*rows.values())) == len(members)


def test_an_image_is_that_of_its_sample():
    import io

    from PIL import Image

    found = found_of()
    _, data, _ = page_of(found, attended=lambda some: np.full((len(some), 8, 8, 3), 7, np.uint8))
    for row, entry in data["rows"].items():
        content = base64.b64decode(data["images"][entry["image"]].partition(",")[2])
        assert np.unique(np.asarray(Image.open(io.BytesIO(content)))) == [int(row) - 1000]
        odd = found.classes[int(row) - 1000] != found.labels[int(row) - 1000]
        assert entry["odd"] == odd
    assert sum("under" in entry for entry in data["rows"].values()) == 5 * page_samples.ATTENDED


def test_a_page_of_a_thousand_clusters_shows_some_of_each(monkeypatch):
    monkeypatch.setattr(page_samples, "BYTES", 10**6)
    from dualclust.common.page import layout

    monkeypatch.setattr(layout, "ROUNDS", 2)
    _, data, text = page_of(found_of(20_000, 1000))
    assert len(text) < 5_000_000
    shown = {data["exemplars"]["cluster"][i] for i in range(len(data["exemplars"]["row"]))}
    assert shown == set(range(1000))
    assert "table" not in data["classes"]
    few = found_parts(found_of(20_000, 1000), Pictures(gray, most=600))
    assert len(few["images"]) == 600
    assert few["left_out"] > 1000


def test_before_the_first_evaluation_there_are_figures_alone():
    found = found_of()
    page, data, text = page_of(found, parts=False, done=False)
    assert data["maps"] is None
    assert data["counts"] == trained_of(found).tolist()
    assert 'http-equiv="refresh"' in text
    assert "after the first evaluation" in page.words
    empty, _, _ = page_of(found, parts=False, done=False, records=[])
    assert "The first epoch is under way" in empty.words


def test_embeddings_have_no_images():
    text = run_page(state_of(found_of()), found_parts(found_of(), None))
    data = json.loads(Page(text).inside["script"][0])
    assert data["images"] == []
    assert not any("image" in entry for entry in data["rows"].values())


def test_text_of_the_user_is_text():
    found = found_of()
    clean, _, _ = page_of(found)
    evil = found._replace(names=[EVIL] * 90, class_names=[EVIL] * 5)
    page, data, text = page_of(evil, title=EVIL, method="secu")
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in clean.tags]
    assert data["classes"]["names"][0].startswith("</script><script>")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    alarm = [{**RECORD, "epoch": 1, "alarms": {"dead head": EVIL}}]
    page, _, text = page_of(found, records=alarm, stopped=EVIL)
    assert "<img src=x" not in text
    assert len(page.inside["script"]) == 2


def test_the_page_loads_and_runs_nothing_else():
    page, _, text = page_of(found_of())
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    hashes = [
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (page.inside["style"][0], page.inside["script"][1])
    ]
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashes[0]}'; "
        f"script-src 'sha256-{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )
    assert all("style" not in attributes for _, attributes in page.tags)
    outside = text.replace(page.inside["script"][0], "")
    assert re.findall(r"https?://[^\s\"'<>)]+", outside) == ["http://www.w3.org/2000/svg"]
    script = "".join(read_part(*part) for part in SCRIPTS)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", script)
    asked = set(re.findall(r'byId\("([^"]+)"\)', script))
    assert asked <= {attributes.get("id") for _, attributes in page.tags}


def test_curves_have_bounds_and_leave_out_what_is_no_number():
    records = [{**RECORD, "epoch": 1}, {**RECORD, "epoch": 2, "loss": None, "argmax_acc": 0.5}]
    panels = {panel["title"]: panel for panel in curves_of(records, (8, 12, 90))}
    sizes = panels["Sizes by the labels of training"]
    assert sizes["marks"] == [["lower bound", 8], ["upper bound", 12]]
    assert [line["name"] for line in sizes["lines"]] == ["largest", "smallest"]
    assert panels["Loss"]["lines"][0]["x"] == [1]
    assert panels["Agreement with the classes"]["lines"][0]["name"] == "acc, argmax"
    free = {panel["title"]: panel for panel in curves_of(records, (0, 90, 90))}
    assert free["Sizes by the labels of training"]["marks"] == []


@pytest.mark.parametrize(
    ("records", "parts", "words"),
    [
        ([{**RECORD, "epoch": 3, "churn": 0.2}], {}, "20.0% of the samples changed"),
        ([{**RECORD, "epoch": e, "loss": 20 - e} for e in range(1, 13)], {}, "still falling"),
        ([{**RECORD, "epoch": 3}], {"moved_total": 45}, "50% of the samples would choose"),
        ([{**RECORD, "epoch": 3}], {"next": [[[1, 1.0]], [[0, 1.0]], [], [], []]}, "0 and 1"),
        ([{**RECORD, "epoch": 3, "alarms": {"dead head": "Seen"}}], {}, "optim.center_lr"),
    ],
)
def test_what_to_try_next_follows_from_the_figures(records, parts, words):
    found = found_of()
    calm = {"moved_total": 0, "next": [[]] * 5, "counts": [18] * 5, "alike": None}
    said = advice(state_of(found, records=records), {**calm, **parts})
    assert len(said) == 1
    assert words in " ".join(said[0])
    assert advice(state_of(found), calm) == []


def test_equal_runs_have_equal_pages():
    assert page_of(found_of())[2] == page_of(found_of())[2]


def test_the_deepest_alarm_is_told_first():
    records = [
        {**RECORD, "epoch": 2, "alarms": {"one cluster": "All", "constant features": "Seen"}},
        {**RECORD, "epoch": 3},
    ]
    page, _, _ = page_of(found_of(), records=records)
    assert page.words.index("Constant features") < page.words.index("One cluster")
    assert SYMPTOMS["constant features"].remedy.split(".")[0] in page.words
    assert "no alarm in the last epoch" in page.words


@pytest.mark.parametrize("parts", [True, False])
def test_a_browser_runs_it(tmp_path, parts):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is there to open the page")
    _, _, text = page_of(found_of(), parts=parts)
    (tmp_path / "report.html").write_text(text)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}"]
    flags += ["--enable-logging=stderr", "--window-size=1280,900", "--dump-dom"]
    address = (tmp_path / "report.html").as_uri()
    done = subprocess.run(
        [browser, *flags, "--virtual-time-budget=2000", address],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    page = Page(done.stdout)
    assert ("assignments.csv has all" in page.words) == parts
    assert "[object" not in page.words
    rows = [a for tag, a in page.tags if tag == "div" and "data-gallery" in a]
    assert len(rows) == (5 if parts else 0)
    assert sum(tag == "svg" for tag, _ in page.tags) >= 6 - 2 * (not parts)
    assert sum(tag == "img" for tag, _ in page.tags) == 0 or parts
