"""`dualclust cluster`: what is replaced, printed as JSON, planned, shown while it runs."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from dualclust.algos.scores.sources import alone
from dualclust.cli.main import main
from dualclust.cluster import command as cluster_command
from dualclust.cluster import launch, output_folder
from dualclust.cluster.progress import Meter
from dualclust.common import files
from tests.cli.cluster_files import OUTPUTS, cluster, error_of, groups, listing, outputs, save

# Replaced ----------------------------------------------------------------------------------------


def test_only_what_the_command_wrote_is_replaced(tmp_path, capsys) -> None:
    path, out = save(tmp_path / "X.npy"), tmp_path / "X-clusters"
    assert cluster(path) == 0
    first = listing(out)
    assert cluster(path, "--seed", 3, "--lower", 0.5, "--overwrite") == 0
    second = listing(out)
    assert set(second) == OUTPUTS
    assert first["result.json"] != second["result.json"]
    assert {p.name for p in tmp_path.iterdir()} == {"X.npy", "X-clusters"}  # nothing is left aside
    capsys.readouterr()
    assert "or replace it with --overwrite" in error_of(capsys, 73, "cluster", path, "-k", 4)


@pytest.mark.parametrize("flag", ["--table", "--checkpoint"])
def test_nothing_beside_the_result_lies_in_its_folder(tmp_path, capsys, flag) -> None:
    """Found after the run, it would cost all of it."""
    path, out = save(tmp_path / "X.npy"), tmp_path / "out"
    before, name = listing(tmp_path), out / "t.csv"
    error = error_of(capsys, 73, "cluster", path, "-k", 4, "--out", out, flag, name)
    assert f"{flag} {name} lies in the output folder" in error
    assert listing(tmp_path) == before


def test_a_result_may_be_replaced_by_what_started_from_it(tmp_path) -> None:
    path = save(tmp_path / "X.npy")
    assert cluster(path) == 0
    assert cluster(path, "--start", tmp_path / "X-clusters", "--overwrite") == 0


def test_what_was_added_meanwhile_is_kept(tmp_path, monkeypatch) -> None:
    path, out = save(tmp_path / "X.npy"), tmp_path / "X-clusters"
    assert cluster(path) == 0
    write = output_folder.write_folder

    def late(*arguments, **options):
        (out / "notes.txt").write_text("mine")
        write(*arguments, **options)

    monkeypatch.setattr(output_folder, "write_folder", late)
    with pytest.warns(RuntimeWarning, match="got other files while it was replaced"):
        assert cluster(path, "--overwrite") == 0
    assert set(listing(out)) == OUTPUTS
    (kept,) = tmp_path.glob("X-clusters-old-*")
    assert (kept / "notes.txt").read_text() == "mine"


def spoil_more(out):
    (out / "notes.txt").write_text("mine")


def spoil_less(out):
    (out / "labels.npy").unlink()


def spoil_folder(out):
    (out / "labels.npy").unlink()
    (out / "labels.npy").mkdir()


def spoil_result(out):
    (out / "result.json").write_text("{}")


def spoil_list(out):
    (out / "result.json").write_text("[1, 2]")


def spoil_link(out):
    out.rename(out.with_name("elsewhere"))
    out.symlink_to(out.with_name("elsewhere"))


def spoil_file(out):
    for path in out.iterdir():
        path.unlink()
    out.rmdir()
    out.write_text("a file")


@pytest.mark.parametrize(
    "spoil",
    [spoil_more, spoil_less, spoil_folder, spoil_result, spoil_list, spoil_link, spoil_file],
)
def test_a_folder_with_anything_else_is_left_alone(tmp_path, capsys, spoil) -> None:
    path, out = save(tmp_path / "X.npy"), tmp_path / "X-clusters"
    assert cluster(path) == 0
    spoil(out)
    capsys.readouterr()
    before = listing(tmp_path)
    error = error_of(capsys, 73, "cluster", path, "-k", 4, "--overwrite")
    assert "--overwrite replaces a folder only if it holds the files that its result.json" in error
    assert listing(tmp_path) == before


@pytest.mark.parametrize("place", ["writing", "moving aside", "moving into place"])
def test_a_failed_replacement_leaves_the_old_one(tmp_path, capsys, monkeypatch, place) -> None:
    path = save(tmp_path / "X.npy")
    assert cluster(path) == 0
    capsys.readouterr()
    before, replace = listing(tmp_path), os.replace
    moves = []

    def failing(source, target):
        moves.append(target)
        if len(moves) == {"moving aside": 1, "moving into place": 2}[place]:
            raise OSError(5, "Input/output error")
        replace(source, target)

    def full(handle):
        raise OSError(28, "No space left on device")

    if place == "writing":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(files.os, "replace", failing)
    error_of(capsys, 73, "cluster", path, "-k", 4, "--seed", 3, "--overwrite")
    monkeypatch.undo()
    assert listing(tmp_path) == before


def test_a_wrong_input_is_told_before_an_output_that_stands(tmp_path, capsys) -> None:
    """After X.npy was clustered, X.npz would write into the same folder."""
    assert cluster(save(tmp_path / "X.npy")) == 0
    np.savez(tmp_path / "X.npz", a=np.ones((9, 2)), b=np.ones((9, 3)))
    capsys.readouterr()
    error = error_of(capsys, 65, "cluster", tmp_path / "X.npz", "-k", 4)
    assert "Only one can be clustered" in error
    assert "X-clusters exists" in error_of(capsys, 73, "cluster", f"{tmp_path}/X.npz:a", "-k", 4)


# JSON and the plan -------------------------------------------------------------------------------


def test_json_is_all_that_is_printed(tmp_path, capsys) -> None:
    path = save(tmp_path / "X.npy")
    assert cluster(path, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (tmp_path / "X-clusters" / "result.json").read_text()
    result = json.loads(out)
    assert set(result["files"]) == OUTPUTS
    assert result["init"] == "k-means++"
    error = error_of(capsys, 73, "cluster", path, "-k", 4, "--json")  # errors are as ever
    assert "exists" in error


def plan_of(capsys, *arguments):
    assert main(["cluster", *map(str, arguments), "--dry-run", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_a_dry_run_writes_nothing_and_says_what_would_be(tmp_path, capsys) -> None:
    x = groups(n=9000, k=10, spread=2.0)[0].astype(np.float16)
    path = save(tmp_path / "X.npy", x)
    before = listing(tmp_path)
    command = (path, "-k", 10, "--min-count", 800, "--max-iter", 7)
    found = plan_of(capsys, *command)
    assert cluster(path, *command[3:], "--dry-run", k=10) == 0
    out = capsys.readouterr().out
    assert listing(tmp_path) == before
    assert (found["n_samples"], found["n_features"], found["n_clusters"]) == (9000, 8, 10)
    assert (found["stored"], found["computed"]) == ("float16", "float32")
    assert (found["min_count"], found["max_count"], found["feasible"]) == (800, 990, True)
    assert found["most_updates"] == 7
    assert 0 < found["seconds"]
    assert 0 < found["updates"] <= 7
    assert found["measured_rows"] == 9000  # so few are clustered as they are
    assert found["out"] == str(tmp_path / "X-clusters")
    assert "rows                9000 of 8 numbers, float16, computed in float32" in out
    assert "bounds              800 to 990 rows: possible" in out
    assert out.endswith("nothing was written\n")
    assert cluster(path, *command[3:], k=10) == 0
    written = {p.name for p in (tmp_path / "X-clusters").iterdir()}
    assert written == set(found["files"])


def test_a_dry_run_of_what_is_impossible(tmp_path, capsys) -> None:
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    command = ("cluster", path, "-k", 4, "--dry-run")
    assert "asks for 204 rows" in error_of(capsys, 65, *command, "--min-count", 51)
    pairs = np.stack([np.repeat(np.arange(60), 3), np.tile([1, 2, 3], 60)], axis=1)
    barred = save(tmp_path / "f.npy", pairs)
    before = listing(tmp_path)
    error = error_of(capsys, 65, *command, "--forbidden", barred)
    assert "60 samples may join only cluster 0, which takes at most 55" in error
    assert listing(tmp_path) == before


# While it runs -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def ticking():
    """A clock that goes on by a second at each look."""
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    return clock


def test_the_line_says_how_far_a_pass_is(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    meter = Meter(True, stream=screen, clock=ticking())

    def last():
        return screen.getvalue().split("\r\x1b[K")[-1]

    meter.begin("choosing the first centers", alone(4000))
    assert last() == "[1 s] choosing the first centers"  # before any row is read
    meter.tell("gap 3.1e-04, 1.20% of labels changed")
    meter.begin("update 3 of 20", alone(4000))
    told = "update 3 of 20: gap 3.1e-04, 1.20% of labels changed"
    assert last() == f"[2 s] {told}"
    for start in (0, 1000, 2000):
        meter.add(start, start + 1000)
    line = f"[5 s] {told}; pass 1, 75% of 4,000 rows, 1,500 rows/s, 0.67 s left"
    assert meter.line(6.0) == line
    assert last() == line[:79]
    meter.add(0, 1000)  # the next pass
    assert "pass 2, 25% of 4,000 rows" in meter.line(7.0)
    meter.end()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_the_time_goes_on_while_no_row_is_read() -> None:
    screen = Terminal()
    meter = Meter(True, stream=screen, clock=ticking())
    with meter.running():
        meter.begin("choosing the first centers")
        while screen.getvalue().count("choosing the first centers") < 3:
            pass
        meter.end()
        shown = screen.getvalue()
    seconds = [int(s) for s in re.findall(r"\[(\d+) s\] choosing the first centers", shown)]
    assert seconds == sorted(set(seconds))
    assert shown == screen.getvalue()  # nothing is drawn after the end
    assert shown.endswith("\r\x1b[K")
    log = io.StringIO()  # no terminal: no line that changes
    meter = Meter(True, stream=log, clock=ticking())
    with meter.running():
        meter.begin("choosing the first centers")
        meter.tell("update 1: gap 0.0e+00")
    assert log.getvalue() == "update 1: gap 0.0e+00; 2 s\n"


def test_a_terminal_sees_progress_and_the_result_is_the_same(tmp_path, monkeypatch, capsys) -> None:
    path = save(tmp_path / "X.npy", groups(n=3000, spread=3.0)[0])
    assert cluster(path, "--out", tmp_path / "plain") == 0
    assert capsys.readouterr().err == ""  # no terminal
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(launch, "Meter", lambda shown: Meter(shown, clock=ticking()))
    assert cluster(path, "--out", tmp_path / "shown") == 0
    shown = screen.getvalue()
    assert listing(tmp_path / "plain") == listing(tmp_path / "shown")
    phases = re.findall(r"\] ([a-z ]+)[^\r]*", shown)
    firsts = ["opening ", "checking the rows", "choosing the first centers", "the first labels"]
    assert [*dict.fromkeys(phases)][:4] == firsts
    assert re.search(r"checking the rows; pass 1, 100% of 3,000 rows", shown)
    assert re.search(r"update \d+ of 100: gap \d.*% of labels changed; pass \d", shown)
    assert shown.endswith("\r\x1b[K")
    screen.truncate(0)
    assert cluster(path, "--out", tmp_path / "quiet", "--no-progress") == 0
    assert screen.getvalue().strip("\0") == ""


def test_a_log_gets_a_line_for_each_update(tmp_path, capsys) -> None:
    path = save(tmp_path / "X.npy", groups(spread=3.0)[0])
    assert cluster(path, "--progress", "--max-iter", 3, "--tol", 0) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["update 1", "update 2", "update 3"]


# Stopped -----------------------------------------------------------------------------------------


def test_who_stops_it_learns_how_to_go_on(tmp_path, capsys, monkeypatch) -> None:
    path, state = save(tmp_path / "X.npy", groups(spread=3.0)[0]), tmp_path / "X.state"
    replace, fsync, saved = os.replace, os.fsync, []

    def rename(source, target):
        replace(source, target)
        saved.extend([target] * (Path(target) == state))

    def stop(handle):
        """Interrupt while the next state is written."""
        if saved and stat.S_ISREG(os.fstat(handle).st_mode):
            saved.clear()
            raise KeyboardInterrupt
        fsync(handle)

    monkeypatch.setattr(os, "replace", rename)
    monkeypatch.setattr(os, "fsync", stop)
    options = ("--checkpoint", state, "--tol", 0)
    assert cluster(path, *options) == 130
    told = f"dualclust: interrupted; the state is in {state}. To go on, give the same command"
    assert capsys.readouterr().err == f"{told} and --resume\n"
    assert cluster(path, *options, "--resume") == 130
    assert capsys.readouterr().err == f"{told}\n"
    monkeypatch.undo()
    assert cluster(path, *options, "--resume") == 0
    assert outputs(tmp_path / "X-clusters")[3]["passes"] > 2


def test_who_stops_it_before_the_first_update(tmp_path, capsys, monkeypatch) -> None:
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_command, "drawn_centers", stop)
    path = save(tmp_path / "X.npy")
    assert cluster(path, "--checkpoint", tmp_path / "state") == 130
    said = "dualclust: interrupted; no center update was finished, and nothing was written\n"
    assert capsys.readouterr().err == said
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]


@pytest.mark.parametrize("change", ["--seeds", "--forbidden", "--init", "--start"])
def test_a_state_of_other_rows_pairs_or_starts_is_refused(tmp_path, capsys, change) -> None:
    x = groups(spread=3.0)[0]
    path, state = save(tmp_path / "X.npy", x), tmp_path / "X.state"
    options = ("--checkpoint", state, "--max-iter", 2, "--tol", 0)
    fixed = np.full(200, -1)
    fixed[3] = 1
    given = {
        "--seeds": save(tmp_path / "s.npy", fixed),
        "--forbidden": save(tmp_path / "f.npy", np.asarray([[0, 1]])),
        "--init": save(tmp_path / "c.npy", x[:4]),
        "--start": tmp_path / "a",
    }
    assert cluster(path, *options, "--out", tmp_path / "a") == 0
    capsys.readouterr()
    name = {"--start": "init"}.get(change, change[2:])
    again = ("--resume", "--out", tmp_path / "b", change, given[change])
    error = error_of(capsys, 65, "cluster", path, "-k", 4, *options, *again)
    assert f"belongs to another run ({name}: " in error
