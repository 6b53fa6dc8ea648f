"""The judge sees the folder of each run, and refuses each figure in it that is wrong."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest

from dualclust.train.loop import resume, train
from tests import judged
from tests.judge_files import read_csv
from tests.judge_run_pages import JUDGED as OF_A_PAGE
from tests.judge_run_pages import LISTS, judge_run_page
from tests.judge_runs import COLUMNS, JUDGED, WITHOUT, agreement, judge_run
from tests.train.runs import Interrupted, interrupt_after, tiny, write_images


def told(name):
    return judged.TALLY[name, "interval"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was interrupted and resumed, which is judged at its end alone."""
    folder = tmp_path_factory.mktemp("runs")
    config, before = tiny(write_images(folder / "images.npz")), (told("train"), told("resume"))
    with pytest.raises(Interrupted):
        train(config, folder / "run", progress=interrupt_after(2))
    resume(folder / "run")
    found = train(config, folder / "other")
    assert (told("train"), told("resume")) == (before[0] + 1, before[1] + 1)
    return found


def read(run):
    prediction = judged.on_host(run.prediction)
    return prediction, prediction.features @ prediction.centers.T


def test_a_wrong_figure_of_a_record_is_refused(run, tmp_path):
    folder = tmp_path / "wrong"
    shutil.copytree(run.folder, folder)
    given = read(run)
    judge_run(folder, *given)
    path = folder / "metrics.jsonl"
    *lines, last = path.read_text().splitlines()
    record = json.loads(last)
    record |= {"part": record.get("part", 1.0)}  # of an epoch that ended inside, else all of it
    assert record.keys() >= JUDGED
    for name in sorted(JUDGED):
        wrong = record | {name: record[name] + (1 if isinstance(record[name], int) else 1e-5)}
        path.write_text("\n".join([*lines, json.dumps(wrong)]))
        with pytest.raises(AssertionError, match="refused"):
            judge_run(folder, *given)
    path.write_text("\n".join([*lines, json.dumps(record | {"another_figure": 1.0})]))
    with pytest.raises(AssertionError, match="has a judge"):
        judge_run(folder, *given)


def test_a_wrong_column_of_labels_is_refused(run, tmp_path):
    folder = tmp_path / "wrong"
    shutil.copytree(run.folder, folder)
    given, path = read(run), folder / "assignments.csv"
    lines = read_csv(path)
    changes = {"cluster": "1", "nearest": "1", "margin": "0.5", "class": "1"}
    for name, value in changes.items():
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, lines[0])
            table.writeheader()
            table.writerows([line | {name: value} for line in lines])
        with pytest.raises(AssertionError, match="refused"):
            judge_run(folder, *given)
    assert set(lines[0]) <= COLUMNS


def nearby(value):
    """Yield copies of a value of a page in which one number is another."""
    if isinstance(value, dict):
        for key in value:
            for other in nearby(value[key]):
                yield {**value, key: other}
    elif isinstance(value, list):
        for i in [i for i, v in enumerate(value) if v not in ([], "")][:2]:
            for other in nearby(value[i]):
                yield [*value[:i], other, *value[i + 1 :]]
    elif isinstance(value, (int, float)):
        yield value + (1 if isinstance(value, int) else 0.01 + 0.01 * abs(value))


def test_a_wrong_number_of_a_page_is_refused(run, tmp_path):
    text = (run.folder / "report.html").read_text()
    shutil.copytree(run.folder, tmp_path / "wrong")
    given = *read(run), (run.lower, run.upper)
    judge_run_page(run.folder, *given)
    marks = '<script type="application/json" id="data">', "</script>"
    before, after = text.split(marks[0])
    data, after = after.split(marks[1], 1)
    data = json.loads(data)

    def is_refused(page):
        (tmp_path / "wrong" / "report.html").write_text(page)
        try:
            judge_run_page(tmp_path / "wrong", *given)
        except (AssertionError, IndexError, KeyError):
            return True
        return False

    assert data.keys() >= OF_A_PAGE
    assert all(data[name]["row"] for name in LISTS)
    for name in sorted(OF_A_PAGE - {"rows", "epoch"} | {"another"}):
        for wrong in nearby(data.get(name, 1)):
            page = [before, marks[0], json.dumps(data | {name: wrong}), marks[1], after]
            assert is_refused("".join(page)), f"{name} {wrong}"
    for tile in ("Epoch", "Loss", "Sizes", "Bounds", "Churn", "ACC"):
        start = re.search(f"<dt>{tile}</dt><dd><b>[^<]*?[0-9]", text).end() - 1
        digit = (int(text[start]) + 4) % 10
        assert is_refused(f"{text[:start]}{digit}{text[start + 1 :]}"), tile


def test_each_figure_without_a_judge_is_one_of_a_few(run):
    others = {name for record in run.metrics for name in record} - JUDGED
    assert {name for name in others if not WITHOUT.fullmatch(name)} == set()
    assert not any(re.fullmatch(WITHOUT, name) for name in JUDGED)


def test_agreement_of_a_table_by_hand():
    found = agreement(np.asarray([0, 0, 1, 1, 1, 0]), np.asarray([0, 0, 1, 1, 0, 1]))
    assert found["acc"] == pytest.approx(4 / 6)
    assert found["ari"] == pytest.approx((2 - 2.4) / (6 - 2.4))
    same = agreement(np.asarray([0, 1, 1]), np.asarray([1, 0, 0]))
    assert same == pytest.approx(dict.fromkeys(same, 1.0))
