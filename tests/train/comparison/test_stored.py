"""Folders of runs and of baselines as they are read: each column, each bound, each second."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, MissingFileError
from dualclust.train.comparison import (
    baselines,
    find_runs,
    read_run,
)
from dualclust.train.comparison.baselines import rows_digest, run_baseline
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.samples import embedding_data
from tests.train.comparison.test_comparison import begin

LINES = ["id,cluster,margin,runner_up,nearest,class,file"] + [
    f'{10 + i},{i % 3},0.5,0,{(i + (i == 7)) % 3},{"" if i == 4 else i % 2},"a\r{i}.png"'
    for i in range(9)
]


def ended(folder, lines=LINES, records=(), **changes):
    """A folder of a run of three clusters that has ended after four epochs."""
    begin(folder, [{"epoch": 3, "seconds": 1.5}, {"epoch": 4, "seconds": 2.0}, *records], **changes)
    with (folder / "config.toml").open("a") as file:
        file.write(
            "[heads]\nclusters = [3, 6]\ntarget = 3\n[assignment]\nlower = 0.5\nupper = 1.4\n"
        )
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "assignments.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return folder


def test_a_run_that_has_ended_is_read(tmp_path):
    run = read_run(ended(tmp_path / "a run"))
    assert (run.name, run.folder, run.method, run.baseline) == (
        *("a run", tmp_path / "a run"),
        *("coke", False),
    )
    assert (run.seed, run.n_clusters, run.epochs, run.state) == (3, 3, 4, "ended")
    assert (run.source, run.split, run.seconds, run.epoch) == ("digits", "auto", 3.5, 4)
    assert (run.settings["heads.target"], run.settings["method"]) == (3, "coke")
    # Of three samples for each cluster: half of them is 1.5, and 1.4 times 4.2, inward.
    assert (run.lower.tolist(), run.upper.tolist()) == ([2] * 3, [4] * 3)
    found = run.found
    assert found.ids.tolist() == [*range(10, 19)]
    assert found.labels.tolist() == [0, 1, 2] * 3
    assert found.nearest.tolist() == [0, 1, 2, 0, 1, 2, 0, 2, 2]
    assert found.classes.tolist() == [0, 1, 0, 1, -1, 1, 0, 1, 0]
    assert found.names == tuple(f"a\r{i}.png" for i in range(9))
    assert {array.dtype for array in found[:4]} == {np.dtype(np.int64)}
    outward = ended(tmp_path / "b")
    with (outward / "config.toml").open("a") as file:
        file.write('rounding = "outward"\n')
    other = read_run(outward)
    assert (other.lower.tolist(), other.upper.tolist()) == ([1] * 3, [5] * 3)


def test_columns_may_be_missing(tmp_path):
    found = read_run(ended(tmp_path / "a", ["id,cluster,nearest", "0,2,2", "1,0,1", "2,1,1"])).found
    assert (found.classes, found.names, found.nearest.tolist()) == (None, None, [2, 1, 1])


@pytest.mark.parametrize(
    "lines",
    [
        ["id,cluster,nearest,class", "0,2,2"],  # a column without values
        ["id,cluster,nearest", "0,2,2", "1,2,2,5"],  # a value without a column
        ["id,cluster,nearest", "0,2,2", "1,2"],
        ["id,cluster,nearest", "0,-1,2"],
        ["id,cluster,nearest", "0,3,2"],
        ["id,cluster,nearest", "0,2,3"],
        ["id,cluster,nearest", f"{2**63},2,2"],
        [],
    ],
)
def test_tables_that_are_none(tmp_path, lines):
    with pytest.raises(InvalidValueError, match=r"assignments\.csv is damaged"):
        read_run(ended(tmp_path / "a", lines))


def test_states(tmp_path):
    alarm = {"epoch": 2, "alarms": {"dead head": "x", "not finite": "y"}}
    run = read_run(begin(tmp_path / "a", [{"epoch": 1}, alarm]))
    assert (run.alarms, run.state) == (
        ("dead head", "not finite"),
        "stopped in epoch 2: not finite",
    )
    assert (run.seconds, run.upper) == (None, None)
    fresh = read_run(begin(tmp_path / "b"))
    assert (fresh.alarms, fresh.epoch, fresh.n_clusters) == ((), 0, 10)
    assert fresh.records == ()


def test_seconds_of_other_beginnings_count_and_those_of_the_chosen_one_are_there_twice(tmp_path):
    folder = begin(tmp_path / "a", [{"epoch": 1, "seconds": 2.0}, {"epoch": 2}])
    for name, seconds in (("0", 10.0), ("1", 20.0), ("2", 40.0)):
        (folder / "starts" / name).mkdir(parents=True)
        line = json.dumps({"epoch": 1, "seconds": seconds})
        (folder / "starts" / name / "metrics.jsonl").write_text(line + "\n")
    assert read_run(folder).seconds == 2.0
    (folder / "starts.json").write_text('{"chosen": "1"}')
    assert read_run(folder).seconds == 52.0
    for damaged in ("[]", "{", '{"best": 1}', "3"):
        (folder / "starts.json").write_text(damaged)
        with pytest.raises(
            InvalidValueError, match=r"starts\.json is damaged\. It does not name a"
        ):
            read_run(folder)


def test_runs_of_a_folder_come_in_the_order_of_their_names(tmp_path):
    for name in ("b", "a", "c/inner"):
        begin(tmp_path / name)
    (tmp_path / "config.txt").write_text("")
    assert [run.name for run in find_runs([tmp_path])] == ["a", "b"]
    assert [run.name for run in find_runs([tmp_path / "b"])] == ["b"]
    deep = [tmp_path / "x" / "1" / "seed0", tmp_path / "y" / "1" / "seed0", tmp_path / "y" / "2"]
    for folder in deep:
        begin(folder)
    assert [run.name for run in find_runs(deep)] == ["x/1/seed0", "y/1/seed0", "2"]
    with pytest.raises(MissingFileError, match="no run at"):
        find_runs([tmp_path / "config.txt"])


# Baselines -----------------------------------------------------------------------------------


def rows_of_three(n=30):
    """Embeddings in three far groups, in turns."""
    groups = np.arange(n) % 3
    return (10.0 * np.eye(3)[groups] + np.random.default_rng(0).normal(size=(n, 3)) / 9), groups


def config_of(*settings):
    return override(
        RunConfig(), ["heads.clusters=[3]", "heads.target=3", "data.source=x.npy", *settings]
    )


@pytest.mark.parametrize("given", [False, True])
def test_a_baseline_is_stored_and_read(tmp_path, monkeypatch, given):
    rows, groups = rows_of_three()
    labels = np.where(np.arange(30) == 4, -1, groups)
    names = [f"{i}.txt" for i in range(30)]
    data = embedding_data(np.zeros((30, 2)) if given else rows, labels)._replace(
        names=names, ids=torch.arange(30) + 50
    )
    clock = iter([100.0, 102.345678])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    folder = tmp_path / "here" / "k"
    features = rows if given else None
    config = config_of('data.split="test"')
    run_baseline(folder, config, data, name="pixels", seed=7, features=features)
    run = read_run(folder)
    assert (run.name, run.folder, run.method, run.baseline) == ("k", folder, "kmeans-pixels", True)
    assert (run.seed, run.n_clusters, run.epochs, run.epoch, run.state) == (7, 3, 0, 0, "ended")
    assert (run.source, run.split, run.settings, run.seconds) == ("x.npy", "test", {}, 2.3457)
    assert (run.lower.tolist(), run.upper.tolist()) == ([0] * 3, [30] * 3)
    assert run.lower.dtype == run.upper.dtype == np.int64
    found = run.found
    assert len({(a, b) for a, b in zip(found.labels, groups, strict=True)}) == 3
    np.testing.assert_array_equal(found.labels, found.nearest)
    assert found.ids.tolist() == [*range(50, 80)]
    assert found.classes.tolist() == labels.tolist()
    assert found.names == tuple(names)
    (record,) = run.records
    assert (record["size_min"], record["size_max"], record["acc"]) == (10, 10, 1.0)
    assert {name for name in record if "argmax" in name} == {
        f"argmax_{name}" for name in ("acc", "nmi", "nmi_geometric", "ari", "ami")
    }
    text = (folder / "baseline.json").read_text()
    assert text == json.dumps(json.loads(text), indent=1) + "\n"
    assert json.loads(text)["rows"] == (rows_digest(rows) if given else "")


def test_a_baseline_counts_clusters_and_knows_no_classes(tmp_path):
    rows = np.repeat(rows_of_three()[0][:3], (2, 5, 3), axis=0)
    run_baseline(tmp_path, config_of(), embedding_data(rows), name="pixels", seed=0)
    run = read_run(tmp_path)
    assert run.records == ({"epoch": 0, "size_min": 2, "size_max": 5},)
    assert (run.found.classes, run.found.names) == (None, None)


def test_a_baseline_of_fewer_rows_than_clusters_has_empty_ones(tmp_path):
    rows = np.repeat(rows_of_three()[0][:2], 4, axis=0)
    with pytest.warns(Warning, match="distinct clusters"):
        run_baseline(tmp_path, config_of(), embedding_data(rows), name="pixels", seed=0)
    assert read_run(tmp_path).records == ({"epoch": 0, "size_min": 0, "size_max": 4},)


def test_labels_of_a_baseline_that_are_damaged_are_what_is_named(tmp_path):
    run_baseline(tmp_path, config_of(), embedding_data(rows_of_three()[0]), name="x", seed=0)
    (tmp_path / "assignments.csv").write_text("id,cluster,nearest\n0,3,0\n")
    with pytest.raises(InvalidValueError, match=r"^\S*assignments\.csv is damaged\. Its clusters"):
        read_run(tmp_path)


@pytest.mark.parametrize("shape", [(29, 3), (31, 3), (30,), (30, 3, 1)])
def test_features_have_a_row_for_each_sample(tmp_path, shape):
    data = embedding_data(rows_of_three()[0])
    with pytest.raises(InvalidValueError, match=r"a row for each of the 30 samples, .* got shape"):
        run_baseline(tmp_path, config_of(), data, name="x", seed=0, features=np.zeros(shape))


def test_a_baseline_computes_in_double_precision(tmp_path, monkeypatch):
    rows, groups = rows_of_three()
    asked = []
    monkeypatch.setattr(baselines, "kmeans_labels", lambda x, *_, **__: asked.append(x) or groups)
    single = rows.astype(np.float32)
    run_baseline(tmp_path, config_of(), embedding_data(rows), name="x", seed=0, features=single)
    assert asked[0].dtype == np.float64


def test_a_digest_is_of_values_shape_and_kind():
    rows = np.arange(12.0).reshape(3, 4)
    found = rows_digest(rows)
    assert rows_digest(np.asfortranarray(rows)) == found
    assert len(found) == 64
    others = (rows.reshape(4, 3), rows.astype(np.float32), rows + 1, rows.view(np.int64))
    assert len({found, *map(rows_digest, others)}) == 5


@pytest.mark.parametrize("about", ["3", "[]", "{}", '{"clusters": "x"}'])
def test_what_describes_no_baseline(tmp_path, about):
    (tmp_path / "baseline.json").write_text(about)
    with pytest.raises(
        InvalidValueError, match=r"baseline\.json is damaged\. It does not describe"
    ):
        read_run(tmp_path)
