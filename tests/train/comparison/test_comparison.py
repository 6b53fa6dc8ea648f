"""Several runs as one table and one page: what they say is what the runs have stored."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from dualclust.algos.core.errors import InvalidValueError, MissingFileError, UsageError
from dualclust.train.comparison import (
    COLUMNS,
    agreements_of,
    comparison_csv,
    comparison_markdown,
    comparison_page,
    comparison_rows,
    comparison_text,
    find_runs,
    prefer,
    read_run,
)
from dualclust.train.comparison.document import SCRIPTS
from dualclust.train.comparison.table import shown_cells
from tests.cluster.test_cluster_report import EVIL, Page
from tests.train.comparison.stored_runs import TRUTH, K, N, noisy, run_of

SCORED = {
    "argmax_acc": 0.9,
    "argmax_nmi": 0.8,
    "argmax_ari": 0.7,
    "acc": 0.5,
    "nmi": 0.4,
    "ari": 0.3,
}
HELD_OUT = {"test_acc": 0.6, "test_nmi": 0.55, "test_ari": 0.5}


def all_of(runs, title="runs", folder=None, tmp_path=None):
    agreements = agreements_of(runs)
    preference = prefer(runs, agreements)
    rows = comparison_rows(runs, preference)
    text = comparison_page(
        runs, rows, agreements, preference, title=title, folder=folder or runs[0].folder.parent
    )
    return rows, preference, text


# Agreement of runs ---------------------------------------------------------------------------


def test_samples_are_matched_by_their_ids():
    a, b = noisy(0.2, 1), noisy(0.3, 2)
    order = np.random.default_rng(0).permutation(N)[:250]
    one, other = run_of("secu", 0, a), run_of("coke", 0, b[order], ids=order)
    found = agreements_of([one, other])
    assert found.ari[1, 0] == found.ari[0, 1] == adjusted_rand_score(a[order], b[order])
    assert found.nmi[0, 1] == pytest.approx(normalized_mutual_info_score(a[order], b[order]))
    assert (found.fewest, found.reasons) == (250, ())
    assert np.diag(found.ari).tolist() == [1.0, 1.0]


FILES = tuple(f"{i}.png" for i in range(N))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "a.npz"}, "runs of different data are not compared: auto of "),
        ({"split": "test"}, "test of digits"),
        ({"ids": np.arange(N) + N}, "secu-seed0 and coke-seed0 share no sample"),
        ({"classes": TRUTH[::-1]}, "the data at digits has changed between two runs"),
        ({"names": FILES[::-1]}, "have other files or classes under one id"),
        ({"names": FILES[::-1], "source": "a"}, "runs of different data are not compared: secu-"),
        ({"names": FILES, "source": "moved"}, None),
    ],
)
def test_other_data_is_not_compared(changes, reason):
    one = run_of("secu", 0, TRUTH, classes=TRUTH, names=FILES if "names" in changes else None)
    found = agreements_of([one, run_of("coke", 0, TRUTH, **changes)])
    if reason is None:
        assert (found.ari[0, 1], found.reasons) == (1.0, ())
        return
    assert np.isnan(found.ari[0, 1])
    assert np.isnan(found.nmi[1, 0])
    assert len(found.reasons) == 1
    assert reason in found.reasons[0]


# The table -----------------------------------------------------------------------------------


def scored():
    """A run with bounds that bind, one with held-out samples, one that goes on, and k-means."""
    labels = np.repeat(np.arange(K), (120, 110, 90, 80))
    nearest = np.where(np.arange(N) < 10, 3, labels)
    last = {"epoch": 2, "loss": 1.25, "churn": 0.1}
    begun = ({"epoch": 1, "loss": 3.0, "size_min": 5, "size_max": 9},)
    none = {"lower": np.zeros(K, int), "upper": np.full(K, N)}
    return [
        run_of("secu", 0, labels, nearest=nearest, records=({"epoch": 1}, last | SCORED)),
        run_of("coke", 0, TRUTH, records=(last | SCORED | HELD_OUT,), lower=none["lower"]),
        run_of("propos", 0, None, records=begun),
        run_of("kmeans-pixels", 0, TRUTH, baseline=True, records=({"epoch": 0},), **none),
    ]


def test_the_figures_of_each_run():
    rows, _, _ = all_of(scored())
    secu, coke, propos, kmeans = rows
    assert all(tuple(row) == COLUMNS for row in rows)
    assert (secu["protocol"], secu["acc"], secu["bounded_acc"]) == ("argmax", 0.9, 0.5)
    assert (coke["protocol"], coke["acc"], coke["ari"]) == ("held out, argmax", 0.6, 0.5)
    assert [secu[n] for n in ("smallest", "largest", "lower", "upper")] == [80, 120, 80, 120]
    assert [secu[n] for n in ("argmax_smallest", "argmax_largest", "moved")] == [90, 110, 10 / N]
    assert [propos[n] for n in ("state", "smallest", "largest", "acc")] == [
        "epoch 1 of 2", 5, 9, None,
    ]  # fmt: skip
    assert (kmeans["epoch"], kmeans["state"], kmeans["samples"]) == (None, "ended", N)


def test_the_table_has_these_numbers_as_csv_and_markdown():
    rows, preference, _ = all_of(scored())
    [secu, coke, propos, _] = csv.DictReader(io.StringIO(comparison_csv(rows)))
    assert (secu["run"], secu["acc"], secu["moved"], secu["loss"]) == (
        "secu-seed0", "0.9", "0.025", "1.25",
    )  # fmt: skip
    assert (coke["lower"], propos["acc"]) == ("0", "")
    heads, lines = shown_cells(rows)
    cells = [dict(zip(heads, line, strict=True)) for line in lines]
    assert [cell["bounds"] for cell in cells] == ["80 to 120", "at most 120", "", "none"]
    assert cells[0]["sizes"] == "80 to 120"
    assert "alarms" not in heads
    markdown = comparison_markdown(rows, preference)
    assert markdown.splitlines()[0].startswith(
        "| run | state | ACC | NMI | ARI | protocol | ACC in"
    )
    assert markdown.splitlines()[2].startswith(
        "| secu-seed0 | ended | 0.900 | 0.800 | 0.700 | argmax |"
    )
    text = comparison_text(rows, preference)
    assert text.splitlines()[-1] == preference.reason
    assert re.search(r"^secu-seed0 +ended +0.900 ", text, re.MULTILINE)


def test_what_is_the_same_in_all_rows_is_said_once():
    runs = [run_of("secu", seed, TRUTH, records=({"epoch": 2} | SCORED,)) for seed in (0, 1)]
    rows, preference, text = all_of(runs)
    assert shown_cells(rows)[0][:4] == ["run", "ACC", "NMI", "ARI"]
    note = "ACC, NMI, ARI: argmax, the papers' protocol; ACC in bounds: of the labels of the run"
    assert note in comparison_text(rows, preference).splitlines()
    assert f"{note}. No step reads a class." in Page(text).words
    without = all_of([run_of("secu", seed, TRUTH) for seed in (0, 1)])
    assert "papers" not in comparison_text(without[0], without[1]) + Page(without[2]).words


# The page ------------------------------------------------------------------------------------


def test_the_page_shows_the_runs_and_loads_nothing(tmp_path):
    home = tmp_path / "a folder" / "secu-seed0"
    home.mkdir(parents=True)
    (home / "report.html").write_text("")
    runs = scored()
    runs[0] = runs[0]._replace(folder=home)
    rows, _, text = all_of(runs, folder=tmp_path)
    page = Page(text)
    attributes = [(tag, name, value) for tag, found in page.tags for name, value in found.items()]
    links = [value for tag, name, value in attributes if (tag, name) == ("a", "href")]
    assert [link for link in links if not link.startswith("#")] == [
        "a%20folder/secu-seed0/report.html"
    ]
    ids = {value for _, name, value in attributes if name == "id"}
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    assert not [1 for tag, name, _ in attributes if name in ("src", "style") or tag == "link"]
    [policy] = [dict(p)["content"] for t, p in page.tags if "Content-Security" in str(p)]
    for kind, content in (("style", page.inside["style"][0]), ("script", page.inside["script"][1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    data = json.loads(page.inside["script"][0])
    assert [each["name"] for each in data["sizes"]] == [
        "secu-seed0",
        "coke-seed0",
        "kmeans-pixels-seed0",
    ]
    assert data["sizes"][0]["counts"] == [120, 110, 90, 80]
    assert (data["sizes"][0]["lower"], data["sizes"][1]["lower"]) == (80, None)
    titles = [panel["title"] for panel in data["curves"]]
    assert titles[:3] == ["Loss of secu", "Loss of coke", "Loss of propos"]
    for row in rows:
        assert row["run"] in page.words
    assert "propos-seed0 has no labels before its end (epoch 1 of 2)." in page.words
    assert "kmeans-pixels" not in titles


def test_the_page_lists_the_settings_that_differ_once_for_each_method():
    runs = [run_of(m, s, TRUTH) for m in ("secu", "coke") for s in (0, 1)]
    own = {"secu.constraint": "size", "optim.lr": 0.2}
    runs[0] = runs[0]._replace(settings=runs[0].settings | own)
    runs[1] = runs[1]._replace(settings=runs[1].settings | own)
    page = Page(all_of(runs)[2])
    heads = "secu 2 runs coke 2 runs"
    assert f"1 setting {heads} optim.lr 0.2 0.1" in page.words
    assert f"1 setting that not all methods have {heads} secu.constraint size –" in page.words
    assert [found for tag, found in page.tags if tag == "details"] == [{"open": None}, {}]


def test_names_of_strangers_are_text():
    runs = [run_of("secu", s, TRUTH, name=f"{EVIL} {s}") for s in (0, 1)]
    _, _, text = all_of(runs, title=EVIL)
    page = Page(text)
    assert len(page.inside["script"]) == 2
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert json.loads(page.inside["script"][0])["sizes"][0]["name"] == f"{EVIL} 0"


def test_the_parts_of_the_script_parse_together(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    from dualclust.common.page import script_of

    (tmp_path / "page.js").write_text(script_of(SCRIPTS), encoding="utf-8")
    subprocess.run([node, "--check", str(tmp_path / "page.js")], check=True)


# Folders -------------------------------------------------------------------------------------


def begin(folder, records=None, **changes):
    """A folder of a run that has begun."""
    folder.mkdir(parents=True)
    lines = {"method": '"coke"', "seed": 3, "epochs": 4, **changes}
    (folder / "config.toml").write_text("".join(f"{n} = {v}\n" for n, v in lines.items()))
    if records is not None:
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "metrics.jsonl").write_text(text)
    return folder


def test_a_run_that_goes_on_is_read(tmp_path):
    run = read_run(
        begin(tmp_path / "a", [{"epoch": 1, "seconds": 2.0}, {"epoch": 2, "seconds": 0.5}])
    )
    assert (run.method, run.seed, run.state, run.seconds) == ("coke", 3, "epoch 2 of 4", 2.5)
    assert (run.found, run.lower) == (None, None)
    assert run.settings["optim.lr"] > 0
    assert read_run(begin(tmp_path / "b")).state == "epoch 0 of 4"
    for number in (0, 1):
        (tmp_path / "a" / "starts" / str(number)).mkdir(parents=True)
        (tmp_path / "a" / "starts" / str(number) / "metrics.jsonl").write_text(
            json.dumps({"epoch": 1, "seconds": 10.0 + number}) + "\n"
        )
    (tmp_path / "a" / "starts.json").write_text('{"chosen": 0}')
    assert read_run(tmp_path / "a").seconds == 13.5


def test_names_are_as_long_as_it_takes(tmp_path):
    for name in ("x/a", "y/a", "y/b"):
        begin(tmp_path / name)
    (tmp_path / "y" / "notes").mkdir()
    runs = find_runs([tmp_path / "x" / "a", tmp_path / "y"])
    assert [run.name for run in runs] == ["x/a", "y/a", "b"]
    with pytest.raises(UsageError, match=r"is named twice. To fix this, name each run once"):
        find_runs([tmp_path / "y", tmp_path / "y" / "b"])
    with pytest.raises(MissingFileError, match="no run at"):
        find_runs([tmp_path / "gone"])
    with pytest.raises(MissingFileError, match=r"holds no run: it has no config.toml"):
        find_runs([tmp_path / "y" / "notes"])


@pytest.mark.parametrize("line", ["{", "[1]", "{}", '{"epoch": "1"}'])
def test_damaged_metrics_are_refused(tmp_path, line):
    folder = begin(tmp_path / "a", [{"epoch": 1}])
    (folder / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(InvalidValueError, match=r"metrics.jsonl is damaged. Each line must be"):
        read_run(folder)


HEAD = "id,cluster,margin,runner_up,nearest"


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (f"{HEAD}\n0,1,0.5,0,x\n", "It has no numbers where they should be"),
        (f"{HEAD}\n", "It has no numbers where they should be"),
        ("id,cluster\n0,1\n", "'nearest'"),
        (f"{HEAD}\n0,10,0.5,0,1\n", "Its clusters are not in 0 to 9"),
        (f"{HEAD}\n0,1,0.5,0,-1\n", "Its clusters are not in 0 to 9"),
        (f"{HEAD}\n0,1,0.5,0,1\n0,2,0.5,0,2\n", "An id is there twice"),
        (f"{HEAD}\n0,1\n", "It has no numbers where they should be"),
    ],
)
def test_damaged_labels_are_refused(tmp_path, table, what):
    folder = begin(tmp_path / "a", [{"epoch": 4}])
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "assignments.csv").write_text(table)
    with pytest.raises(InvalidValueError, match=r"assignments.csv is damaged. ") as error:
        read_run(folder)
    assert what in str(error.value)


def test_a_damaged_baseline_is_refused(tmp_path):
    (tmp_path / "baseline.json").write_text('{"clusters": 3}')
    with pytest.raises(InvalidValueError, match="It does not describe a baseline"):
        read_run(tmp_path)
