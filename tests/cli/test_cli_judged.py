"""The judge refuses each wrong figure of the files that commands write, and knows all of them."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest

from dualclust.cli.main import build_parser, main
from dualclust.cluster.options import check_options
from tests import judged
from tests.judge_commands import assigned_rows, clustered_rows
from tests.judge_files import (
    CHOICES,
    COUNTED,
    FIELDS,
    MEANS,
    NOTABLE,
    OPTIONS,
    PROVEN,
    SIZES,
    judge_choice,
    judge_folder,
    judge_page,
    judge_table,
    read_csv,
)
from tests.judge_medoid_files import judge_medoid_folder

METRICS = ("cosine", "euclidean")


def told(name):
    """How often results of a function were judged, and not left out."""
    return sum(
        times for (of, way), times in judged.TALLY.items() if of == name and "not" not in way
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Folders of both metrics, with a gap that is not 0, weights, pairs and a report; and of new
    rows, labeled in three ways."""
    folder = tmp_path_factory.mktemp("judged")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_700, 3)) + rng.normal(size=3)
    np.save(folder / "X.npy", x.astype(np.float32))
    np.save(folder / "w.npy", rng.uniform(0.5, 2.0, size=2_700))
    np.save(folder / "Y.npy", rng.normal(size=(500, 3)).astype(np.float32))
    (folder / "pairs.csv").write_text("row,cluster\n5,3\n7,1\n")
    before = told("run_cluster"), told("run_assign")
    for metric in METRICS:
        out = folder / metric
        options = ["--metric", metric, "--weights", folder / "w.npy", "--out", out]
        more = ["--forbidden", folder / "pairs.csv", "--gap", "1", "--max-iter", "1"]
        table = ["--report", "--table", folder / f"{metric}.csv"]
        assert run("cluster", folder / "X.npy", "-k", "100", *options, *more, *table) == 0
        for how in ([], ["--prices"], ["--bounded"]):
            name = folder / f"{metric}{''.join(how)}"
            assert run("assign", out, folder / "Y.npy", *how, "--out", f"{name}-new") == 0
    few = x[:60]
    np.save(folder / "D.npy", np.linalg.norm(few[:, None] - few, axis=-1))
    weights = ["--weights", folder / "few.npy"]
    np.save(folder / "few.npy", rng.uniform(0.5, 2.0, size=60))
    out = ["--metric", "precomputed", "--out", folder / "medoids"]
    assert run("cluster", folder / "D.npy", "-k", "5", *weights, *out) == 0
    assert (told("run_cluster"), told("run_assign")) == (before[0] + 3, before[1] + 6)
    return folder


def run(*arguments):
    return main([str(argument) for argument in arguments])


def rows_of(folder, metric):
    arguments = ["cluster", "X.npy", "-k", "100", "--metric", metric, "--weights", "w.npy"]
    paths = [str(folder / a) if a.endswith("npy") else a for a in arguments]
    more = ["--forbidden", str(folder / "pairs.csv")]
    options = build_parser().parse_args([*paths, *more])
    check_options(options)  # which completes them
    return clustered_rows(options, folder / metric)


def changed(value):
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.001 + 1e-5
    return "else" if isinstance(value, str) else [*value, "else"]


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_field_of_a_result_is_refused(work, tmp_path, metric):
    rows, folder = rows_of(work, metric), tmp_path / "wrong"
    shutil.copytree(work / metric, folder)
    judge_folder(folder, rows)
    result = json.loads((folder / "result.json").read_text())
    assert result["relative_gap"] > 0.0
    wrong = COUNTED - {"passes", "converged"} | PROVEN | MEANS | {"metric"}
    for name in wrong & result.keys():
        text = json.dumps(result | {name: changed(result[name])})
        (folder / "result.json").write_text(text)
        with pytest.raises(AssertionError, match="refused"):
            judge_folder(folder, rows)
    twice = result | {"relative_gap": result["relative_gap"] / 2.0}
    (folder / "result.json").write_text(json.dumps(twice))
    with pytest.raises(AssertionError, match="gap"):
        judge_folder(folder, rows)
    (folder / "result.json").write_text(json.dumps(result | {"another_figure": 1.0}))
    with pytest.raises(AssertionError, match="has a judge"):
        judge_folder(folder, rows)


@pytest.mark.parametrize("name", SIZES)
def test_a_wrong_column_of_sizes_is_refused(work, tmp_path, name):
    rows, folder = rows_of(work, "cosine"), tmp_path / "wrong"
    shutil.copytree(work / "cosine", folder)
    lines = read_csv(folder / "sizes.csv")
    for line in lines:
        line[name] = str(float(line[name]) + 1) if name == "price" else str(int(line[name]) + 30)
    with (folder / "sizes.csv").open("w") as file:
        table = csv.DictWriter(file, SIZES)
        table.writeheader()
        table.writerows(lines)
    with pytest.raises(AssertionError, match="refused"):
        judge_folder(folder, rows)


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_column_of_a_table_of_rows_is_refused(work, metric):
    rows, labels = rows_of(work, metric), np.load(work / metric / "labels.npy")
    seen = set()
    for path in (work / f"{metric}.csv", work / metric / "rows.csv"):
        lines = read_csv(path)[:40]
        judge_table(lines, labels, rows)
        for name in set(lines[0]) - {"row", "kind"}:
            worse = [line | {name: str((float(line[name]) + 13) % 100)} for line in lines]
            worse = [line | {name: line[name].removesuffix(".0")} for line in worse]
            with pytest.raises(AssertionError, match="refused"):
                judge_table(worse, labels, rows)
            seen.add(name)
    near = "similarity" if metric == "cosine" else "squared_distance"
    assert seen == {near, "loss", *CHOICES} == NOTABLE & (seen | {"kind"}) - {"kind"}


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_number_of_a_report_is_refused(work, metric):
    page, rows = (work / metric / "report.html").read_text(), rows_of(work, metric)
    result = json.loads((work / metric / "result.json").read_text())
    labels = np.load(work / metric / "labels.npy")
    judge_page(page, result, labels, rows)
    changes = [r"<td>([\d.]+)</td></tr></tbody></table>", r"Balance costs <b>([\d.]+)%"]
    changes += [r"Moved rows</dt><dd><b>([\d,]+)"]
    changes += [r"Proven gap</dt><dd><b>([\de.-]+)", r"Sizes</dt><dd><b>(\d+) to"]
    changes += [r"bounds ignored</th><td>([\d.]+)", r"inside the bounds</th><td>([\d.]+)"]
    for pattern in changes:
        found = re.search(pattern, page)
        start = found.start(1)
        digit = (int(page[start]) + 4) % 10
        with pytest.raises(AssertionError, match="refused"):
            judge_page(f"{page[:start]}{digit}{page[start + 1 :]}", result, labels, rows)


def test_a_wrong_field_of_medoids_is_refused(work, tmp_path):
    arguments = ["cluster", str(work / "D.npy"), "-k", "5", "--metric", "precomputed"]
    options = build_parser().parse_args([*arguments, "--weights", str(work / "few.npy")])
    check_options(options)
    folder = tmp_path / "wrong"
    shutil.copytree(work / "medoids", folder)
    judge_medoid_folder(folder, options)
    result = json.loads((folder / "result.json").read_text())
    wrong = {"mean_distance", "mean_distance_bound", "relative_gap", "n_samples", "n_clusters"}
    for name in wrong | {"metric", "smallest_cluster", "largest_cluster", "max_count", "files"}:
        text = json.dumps(result | {name: changed(result[name])})
        (folder / "result.json").write_text(text)
        with pytest.raises(AssertionError, match="refused"):
            judge_medoid_folder(folder, options)
    (folder / "result.json").write_text(json.dumps(result))
    medoids = np.load(folder / "medoids.npy")
    np.save(folder / "medoids.npy", medoids[::-1])
    with pytest.raises(AssertionError, match="refused"):
        judge_medoid_folder(folder, options)


def test_each_field_that_is_written_has_a_judge_and_each_judge_a_field(work):
    written = set()
    for path in work.glob("*/result.json"):
        written |= json.loads(path.read_text()).keys()
    assert written == FIELDS
    assert OPTIONS | COUNTED | PROVEN | MEANS == FIELDS


def test_new_rows_are_judged(work, tmp_path):
    parser = build_parser()
    arguments = ["assign", str(work / "euclidean"), str(work / "Y.npy"), "--bounded"]
    folder = tmp_path / "wrong"
    shutil.copytree(work / "euclidean--bounded-new", folder)
    options = parser.parse_args([*arguments, "--out", str(folder)])
    rows = assigned_rows(options, folder)
    judge_folder(folder, rows)
    result = json.loads((folder / "result.json").read_text())
    for name in {"mean_squared_distance", "mean_squared_distance_bound", "violation"}:
        (folder / "result.json").write_text(json.dumps(result | {name: changed(result[name])}))
        with pytest.raises(AssertionError, match="refused"):
            judge_folder(folder, rows)


def test_a_choice_is_judged(work, capsys):
    before = told("run_choice")
    out = work / "choice"
    assert run("cluster", work / "Y.npy", "--k-range", "2:3", "--out", out) == 0
    assert told("run_choice") == before + 1
    lines = read_csv(out / "choice.csv")
    for wrong in ({"price_proven_percent": "99"}, {"silhouette": "1.5"}, {"smallest": "400"}):
        with pytest.raises(AssertionError, match="refused"):
            judge_choice([*lines, lines[0] | wrong], 500)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_were_dropped_are_judged(tmp_path, metric):
    x = np.random.default_rng(1).normal(size=(120, 3))
    x[[0, 50]], x[119] = np.nan, 0.0
    np.save(tmp_path / "X.npy", x)
    before, out = told("run_cluster"), tmp_path / "out"
    given = ["cluster", tmp_path / "X.npy", "-k", "4", "--metric", metric, "--invalid", "drop"]
    table = ["--out", out, "--table", tmp_path / "t.csv", "--report", "--min-count", "20"]
    assert run(*given, *table) == 0
    assert told("run_cluster") == before + 1
    options = build_parser().parse_args([str(a) for a in given])
    check_options(options)
    rows = clustered_rows(options, out)
    dropped = [0, 50, 119] if metric == "cosine" else [0, 50]
    assert rows.numbers.tolist() == np.delete(np.arange(120), dropped).tolist()
    labels, result = np.load(out / "labels.npy"), json.loads((out / "result.json").read_text())
    judge_folder(out, rows)
    for row, label in ((50, 1), (7, -1), (7, (labels[7] + 1) % 4)):
        wrong = labels.copy()
        wrong[row] = label
        np.save(out / "labels.npy", wrong)
        with pytest.raises((AssertionError, ValueError)):  # counts of no label -1
            judge_folder(out, rows)
    np.save(out / "labels.npy", labels)
    for name, value in (("rows", 120), ("dropped_rows", 1), ("dropped", [1])):
        text = json.dumps(result | {"input": result["input"] | {name: value}})
        (out / "result.json").write_text(text)
        with pytest.raises(AssertionError, match="dropped rows"):
            judge_folder(out, rows)
    lines, kept = read_csv(tmp_path / "t.csv"), labels[rows.numbers]
    judge_table(lines, kept, rows)
    lines[50]["cluster"] = "1"
    with pytest.raises(AssertionError, match="a dropped row has no cluster"):
        judge_table(lines, kept, rows)


def test_sizes_of_a_choice_are_judged():
    zeros = ("gap", "price_percent", "price_proven_percent", "silhouette")
    more = ("reference_silhouette", "all_silhouette", "stability")
    line = dict.fromkeys((*zeros, *more), "0.0")
    line |= {"k": "3", "lower": "0.5", "upper": "2.0", "smallest": "16", "largest": "66"}
    judge_choice([line], 99)
    for name, value in (("smallest", "15"), ("largest", "67"), ("largest", "32")):
        with pytest.raises(AssertionError, match="sizes"):
            judge_choice([line | {name: value}], 99)
