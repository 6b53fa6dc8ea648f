"""`dualclust cluster`: metrics, weights, pictures, and runs that are stopped and go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.cli.cluster_files import (
    check,
    cluster,
    error_of,
    groups,
    listing,
    outputs,
    save,
)
from tests.forked import run_program


def recomputed(folder, x, weights=None):
    """Labels, report, and the weighted mean squared distance to the centers of the file."""
    labels, centers, _, report = outputs(folder)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    squared = ((np.asarray(x, np.float64) - centers[labels]) ** 2).sum(axis=1)
    return labels, report, float((w * squared).sum() / w.sum())


# Metrics and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_squared_distances(tmp_path, capsys, dtype, shift) -> None:
    x = (groups(spread=1.0)[0] + shift).astype(dtype)
    assert cluster(save(tmp_path / "X.npy", x), "--metric", "euclidean", "--gap", 0) == 0
    labels, report, value = recomputed(tmp_path / "X-clusters", x)
    assert report["metric"] == "euclidean"
    assert report["mean_squared_distance"] == pytest.approx(value, rel=1e-5)
    bound = report["mean_squared_distance_bound"]
    assert bound == pytest.approx(value, rel=1e-4)
    assert np.bincount(labels).min() >= 45
    assert np.bincount(labels).max() <= 55
    out = capsys.readouterr().out
    assert f"mean sq. distance   {report['mean_squared_distance']:.6f}" in out
    assert "no labels inside the bounds are below" in out


def test_no_better_labels_by_exchanging_two_rows(tmp_path) -> None:
    x = groups(n=60, spread=2.0)[0]
    options = ("--metric", "euclidean", "--gap", 0, "--lower", 1, "--upper", 1)
    assert cluster(save(tmp_path / "X.npy", x), *options) == 0
    labels, centers, _, _ = outputs(tmp_path / "X-clusters")
    cost = ((x[:, None] - centers[None]) ** 2).sum(axis=2)
    own = cost[np.arange(60), labels]
    exchanged = cost[:, labels] + cost[:, labels].T - own[:, None] - own[None]
    assert exchanged.min() >= -1e-9


def test_a_zero_row_is_a_point(tmp_path) -> None:
    x = groups()[0]
    x[42] = 0.0
    assert cluster(save(tmp_path / "X.npy", x), "--metric", "euclidean") == 0
    assert len(outputs(tmp_path / "X-clusters")[0]) == 200


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_weights_of_one_change_nothing_and_others_do(tmp_path, metric) -> None:
    x = groups(spread=2.0)[0]
    path, rng = save(tmp_path / "X.npy", x), np.random.default_rng(0)
    weights = rng.uniform(0.1, 10.0, size=200)
    for name, values in [("ones", np.ones(200)), ("w", weights), ("w4", 4.0 * weights)]:
        options = ("--weights", save(tmp_path / f"{name}.npy", values), "--metric", metric)
        assert cluster(path, *options, "--out", tmp_path / name) == 0
    assert cluster(path, "--metric", metric) == 0
    centers = {
        name: np.load(tmp_path / name / "centers.npy") for name in ("X-clusters", "ones", "w", "w4")
    }
    np.testing.assert_allclose(centers["ones"], centers["X-clusters"], rtol=1e-6)
    np.testing.assert_allclose(centers["w4"], centers["w"], rtol=1e-6)
    assert np.abs(centers["w"] - centers["ones"]).max() > 1e-3
    labels, report, value = recomputed(tmp_path / "w", x, weights)
    assert np.bincount(labels, minlength=4).min() >= 45
    if metric == "euclidean":
        assert report["mean_squared_distance"] == pytest.approx(value, rel=1e-5)
        for j in range(4):
            own = labels == j
            mean = (weights[own, None] * x[own]).sum(axis=0) / weights[own].sum()
            np.testing.assert_allclose(centers["w"][j], mean, atol=0.05 * np.abs(x).max())


def test_weights_that_do_not_fit(tmp_path, capsys) -> None:
    path = save(tmp_path / "X.npy")
    weights = save(tmp_path / "w.npy", np.ones(199))
    before = listing(tmp_path)
    error = error_of(capsys, 65, "cluster", path, "-k", 4, "--weights", weights)
    assert "one real number for each of the 200 rows" in error
    gone = tmp_path / "gone.npy"
    assert "no file at" in error_of(capsys, 66, "cluster", path, "-k", 4, "--weights", gone)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("empty", ["relocate", "keep"])
def test_empty_clusters(tmp_path, empty) -> None:
    """Twenty clusters of rows in four places: most must stay empty, whatever is done."""
    x = np.repeat(groups(n=4, spread=0.0)[0], 50, axis=0)
    options = ("--empty", empty, "--lower", 0, "--upper", "inf")
    assert cluster(save(tmp_path / "X.npy", x), *options, k=20) == 0
    check(tmp_path / "X-clusters", x, 20)


def test_no_time_leaves_labels_inside_their_bounds(tmp_path, capsys) -> None:
    x = groups(n=8_000, spread=1.0)[0]
    assert cluster(save(tmp_path / "X.npy", x), "--time", 0, k=20) == 0
    assert "0 passes, stopped at the limit" in capsys.readouterr().out
    check(tmp_path / "X-clusters", x, 20)
    path = save(tmp_path / "Y.npy", x)
    wrong = error_of(capsys, 65, "cluster", path, "-k", 4, "--time", -1)
    assert "--time must lie in [0, 1e+09], got -1.0" in wrong
    several = error_of(capsys, 2, "cluster", path, "--k-range", "2,3", "--time", 5)
    assert "--time is for one clustering" in several


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_tensors_give_the_labels_of_arrays(tmp_path, metric) -> None:
    torch = pytest.importorskip("torch")
    x, weights = groups(spread=1.0)[0], np.random.default_rng(0).uniform(1, 2, size=200)
    command = ("--metric", metric, "--weights", save(tmp_path / "w.npy", weights))
    path, state = save(tmp_path / "X.npy", x), tmp_path / "state"
    assert cluster(path, *command, "--out", tmp_path / "arrays") == 0
    want = outputs(tmp_path / "arrays")
    for device in ("cpu:0", *(["cuda"] if torch.cuda.is_available() else [])):
        here = (*command, "--device", device, "--checkpoint", state, "--out")
        assert cluster(path, *here, tmp_path / "tensors", "--max-iter", 2) == 0
        assert cluster(path, *here, tmp_path / device, "--resume") == 0
        labels, centers, _, report = outputs(tmp_path / device)
        np.testing.assert_array_equal(labels, want[0])
        np.testing.assert_allclose(centers, want[1], rtol=1e-6)
        assert report["passes"] == want[3]["passes"]
        state.unlink()
        shutil.rmtree(tmp_path / "tensors")


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there(tmp_path, capsys, device) -> None:
    pytest.importorskip("torch")
    path = save(tmp_path / "X.npy")
    error = error_of(capsys, 2, "cluster", path, "-k", 4, "--device", device)
    assert f"--device {device} is not there" in error


# Pictures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--metric", "euclidean", "--weights", "w.npy")])
def test_a_report_is_two_files_more(tmp_path, monkeypatch, options) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # it is not needed
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "w.npy", np.arange(1.0, 201.0))
    path = save(tmp_path / "X.npy")
    assert cluster(path, *options, "--out", "plain") == 0
    for name in ("a", "b"):
        assert cluster(path, *options, "--report", "--out", name) == 0
    plain, a, b = (listing(tmp_path / name) for name in ("plain", "a", "b"))
    assert a == b
    assert set(a) - set(plain) == {"report.html", "rows.csv"}
    listed = json.loads(a.pop("result.json"))
    assert sorted(listed.pop("files")) == sorted([*a, "result.json"])
    expected = json.loads(plain.pop("result.json"))
    del expected["files"]
    assert listed == expected
    assert all(a[name] == plain[name] for name in plain)


def test_what_a_report_shows(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "X.npy")
    lines = tmp_path / "captions.txt"
    lines.write_text("".join(f"picture <{i}>\n" for i in range(200)))
    assert cluster(path, "--report", "--show", lines) == 0
    page = (tmp_path / "X-clusters" / "report.html").read_text()
    exemplar = int((tmp_path / "X-clusters" / "rows.csv").read_text().split("\n")[1].split(",")[2])
    assert f"picture \\u003c{exemplar}\\u003e" in page
    before = listing(tmp_path)
    capsys.readouterr()
    lines.write_text("one\n")
    few = ("cluster", path, "-k", 4, "--out", "b", "--report", "--show")
    assert "has 1 lines, and the input has 200 rows" in error_of(capsys, 65, *few, lines)
    error = error_of(capsys, 2, *few, "caption")
    assert "--show caption is no file, so it must be a column of the input" in error
    assert "--id" not in error
    error = error_of(capsys, 2, "cluster", path, "-k", 4, "--out", "b", "--show", "caption")
    assert "--show is about the page of --report" in error
    lines.write_bytes(before["captions.txt"])
    assert listing(tmp_path) == before


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_result_is_the_same_for_any_number_of_threads(tmp_path, metric) -> None:
    """Rows so long that BLAS itself adds in another order on another number of threads."""
    path = save(tmp_path / "X.npy", groups(n=1200, k=12, d=700, spread=3.0)[0])
    options = ("--metric", metric, "--max-iter", 2, "--gap", 0)
    for threads in (1, 2, 3):
        assert cluster(path, *options, "--threads", threads, "--out", tmp_path / f"{threads}") == 0
    assert listing(tmp_path / "1") == listing(tmp_path / "2") == listing(tmp_path / "3")


# Stopped and continued ---------------------------------------------------------------------------

HARD = {"n": 2000, "k": 8, "spread": 3.0}


@pytest.fixture(scope="module", params=["cosine", "euclidean"])
def long_run(request, tmp_path_factory):
    """(input file, options, what an uninterrupted run writes, its last checkpoint)."""
    folder = tmp_path_factory.mktemp("long")
    path = save(folder / "X.npy", groups(**HARD)[0])
    weights = save(folder / "w.npy", np.random.default_rng(0).uniform(1, 2, size=2000))
    options = ("--metric", request.param, "--weights", weights, "--tol", 0, "--max-iter", 6)
    state = folder / "X.state"
    assert cluster(path, *options, "--checkpoint", state, "--out", folder / "whole", k=8) == 0
    assert outputs(folder / "whole")[3]["passes"] == 6
    assert cluster(path, *options, "--out", folder / "without", k=8) == 0
    assert listing(folder / "whole") == listing(folder / "without")
    return path, options, listing(folder / "whole"), state


class StoppedError(RuntimeError):
    pass


@pytest.mark.parametrize("updates", [1, 3, 6])
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, monkeypatch, long_run, updates) -> None:
    path, options, whole, last = long_run
    state, saved, replace = tmp_path / "X.state", [], os.replace

    def stop(source, target):
        """Interrupt once the state has its name so many times."""
        replace(source, target)
        saved.extend([target] * (Path(target) == state))
        if len(saved) == updates:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    here = (*options, "--checkpoint", state, "--out", tmp_path / "out")
    assert cluster(path, *here, k=8) == 130
    assert [p.name for p in tmp_path.iterdir()] == ["X.state"]
    monkeypatch.undo()
    assert cluster(path, *here, "--resume", k=8) == 0
    assert listing(tmp_path / "out") == whole
    assert state.read_bytes() == last.read_bytes()


def test_a_finished_run_resumed_writes_the_same(tmp_path, long_run) -> None:
    path, options, whole, last = long_run
    before = last.read_bytes()
    here = ("--checkpoint", last, "--resume", "--out", tmp_path / "out")
    assert cluster(path, *options, *here, k=8) == 0
    assert listing(tmp_path / "out") == whole
    assert last.read_bytes() == before


KILLED = """
import os, signal, sys
from dualclust.common import files
from dualclust.cli.main import main

where, calls, flush = sys.argv[1], [], os.fsync

def kill(handle):
    flush(handle)
    calls.append(1)
    # The first flush of a checkpoint is of its content, before it is renamed; the second after.
    if len(calls) == {"writing": 5, "between": 6}[where]:
        os.kill(os.getpid(), signal.SIGKILL)

files.os.fsync = kill
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("where", ["writing", "between"])
def test_a_killed_run_resumed_ends_with_the_same_bytes(tmp_path, long_run, where) -> None:
    path, options, whole, _ = long_run
    here = ["cluster", path, "-k", 8, *options, "--checkpoint", tmp_path / "X.state"]
    here = [str(argument) for argument in (*here, "--out", tmp_path / "out")]
    done = run_program(KILLED, where, *here)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "X.state").is_file()
    assert not (tmp_path / "out").exists()
    assert len(list(tmp_path.glob(".X.state.tmp-*"))) == (where == "writing")
    assert main([*here, "--resume"]) == 0
    assert listing(tmp_path / "out") == whole
    assert {path.name for path in tmp_path.iterdir()} == {"X.state", "out"}


def test_more_iterations_go_on_from_the_last(tmp_path, long_run) -> None:
    path, options, _, last = long_run
    state = tmp_path / "X.state"
    state.write_bytes(last.read_bytes())
    here = (*options, "--max-iter", 8, "--checkpoint", state, "--resume")
    assert cluster(path, *here, "--out", tmp_path / "on", k=8) == 0
    assert outputs(tmp_path / "on")[3]["passes"] == 8
    assert cluster(path, *options, "--max-iter", 8, "--out", tmp_path / "at once", k=8) == 0
    assert listing(tmp_path / "on") == listing(tmp_path / "at once")


def test_a_state_is_not_overwritten_by_a_fresh_start(tmp_path, capsys, long_run) -> None:
    path, options, _, last = long_run
    before = last.read_bytes()
    here = ("--checkpoint", last, "--out", tmp_path / "out")
    error = error_of(capsys, 73, "cluster", path, "-k", 8, *options, *here)
    assert "continue with --resume" in error
    assert last.read_bytes() == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--seed", 1), "seed: 0 there, 1 here"),
        (("--lower", 0.8), "bounds: "),
        (("--tol", 0.5), "tol: 0.0 there, 0.5 here"),
        (("--empty", "keep"), "empty: 'relocate' there, 'keep' here"),
        (("--weights", "v.npy"), "weights: "),
    ],
    ids=lambda change: change[0] if isinstance(change, tuple) else "",
)
def test_a_state_of_other_settings_is_refused(
    tmp_path, capsys, monkeypatch, long_run, change, words
) -> None:
    path, options, _, last = long_run
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "v.npy", np.ones(2000))
    here = (*options, "--checkpoint", last, "--resume", "--out", tmp_path / "out", *change)
    error = error_of(capsys, 65, "cluster", path, "-k", 8, *here)
    assert "belongs to another run" in error
    assert words in error
    assert not (tmp_path / "out").exists()


def test_a_state_of_another_input_or_a_damaged_one_is_refused(tmp_path, capsys, long_run) -> None:
    path, options, _, last = long_run
    x = np.load(path)
    x[1999, 0] = np.nextafter(x[1999, 0], 99)
    other = save(tmp_path / "X.npy", x)
    here = ("--resume", "--out", tmp_path / "out", "--checkpoint")
    error = error_of(capsys, 65, "cluster", other, "-k", 8, *options, *here, last)
    assert "belongs to another run (input: " in error
    damaged = bytearray(last.read_bytes())
    damaged[-9] ^= 1
    (tmp_path / "state").write_bytes(damaged)
    error = error_of(capsys, 65, "cluster", path, "-k", 8, *options, *here, tmp_path / "state")
    assert "is damaged" in error
    assert not (tmp_path / "out").exists()
