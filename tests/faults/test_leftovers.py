"""What killed writers leave goes with the next write; what living ones write stays."""

from __future__ import annotations

import errno
import json
import shutil
import signal

import numpy as np
import pytest

from dualclust.cli.main import main
from dualclust.cluster.output_folder import is_ours
from dualclust.common.files import remove_leftovers, remove_leftovers_of, write_file, write_folder
from dualclust.train.state.checkpoint import is_begun
from tests.cli.cluster_files import groups, listing
from tests.faults.disk import Disk, Killed, failing, killing, on_disk
from tests.faults.tasks import TASKS, without_pictures
from tests.forked import run_program

# Real processes ---------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from dualclust.common import files
from dualclust.cli.main import main

name, write = sys.argv[1], files._write_flushed

def kill(path, parts):
    write(path, parts)
    if f".{name}.tmp-" in str(path):
        os.kill(os.getpid(), signal.SIGKILL)

files._write_flushed = kill
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Rows and a model of them."""
    folder = tmp_path_factory.mktemp("model")
    np.save(folder / "X.npy", groups(n=60)[0])
    assert main(["cluster", str(folder / "X.npy"), "-k", "4", "--out", str(folder / "M")]) == 0
    return folder / "X.npy", folder / "M"


COMMANDS = {
    "state": ("cluster", "X", "-k", "4", "--out", "out", "--checkpoint", "state"),
    ".state.lock-holder": ("cluster", "X", "-k", "4", "--out", "out", "--checkpoint", "state"),
    "out": ("cluster", "X", "-k", "4", "--out", "out"),
    "table.csv": ("cluster", "X", "-k", "4", "--out", "out", "--table", "table.csv"),
    "labels.npy": ("assign", "M", "X", "--out", "labels.npy"),
    "few": ("cluster", "X", "--k-range", "2,4", "--out", "few"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_next_run_of_a_killed_command_removes_what_it_left(tmp_path, model, name):
    places = {"X": str(model[0]), "M": str(model[1])}
    written = {"out", "state", "table.csv", "labels.npy", "few"}
    command = [
        places.get(word, str(tmp_path / word) if word in written else word)
        for word in COMMANDS[name]
    ]
    done = run_program(KILLED, name, *command)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = tmp_path.glob(".*.tmp-*")
    assert left.name.startswith(f".{name}.tmp-")
    alike = tmp_path / f".{name}x.tmp-{'0' * 12}"
    alike.write_bytes(b"somebody's")
    assert main(command) == 0
    assert {path.name for path in tmp_path.glob(".*")} == {alike.name}


# One process ------------------------------------------------------------------------------------


def test_what_a_living_process_writes_is_no_leftover(tmp_path):
    """A second writer of the same name, and who removes all leftovers, come in between."""

    def disturb(path):
        (temporary,) = tmp_path.glob(f".{path.name}.tmp-*")
        remove_leftovers_of(path)
        remove_leftovers(tmp_path)
        assert temporary.exists()

    def parts():
        yield b"first "
        write_file(tmp_path / "a", b"another")
        disturb(tmp_path / "a")
        yield b"second"

    class Files(dict):
        def items(self):
            yield "one", b"1"
            write_folder(tmp_path / "b", {"other": b""})
            disturb(tmp_path / "b")
            shutil.rmtree(tmp_path / "b")
            yield "two", b"2"

    write_file(tmp_path / "a", parts())
    write_folder(tmp_path / "b", Files())
    assert (tmp_path / "a").read_bytes() == b"first second"
    assert listing(tmp_path) == {
        "a": b"first second",
        "b": None,
        "b/one": b"1",
        "b/two": b"2",
    }


def test_leftovers_are_those_of_this_very_name(tmp_path):
    left = [".a.tmp-0123456789ab", ".b.tmp-0123456789ab", ".a.tmp-0", "a.tmp-0123456789ab"]
    for name in left:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".a.tmp-ffffffffffff").mkdir()
    (tmp_path / ".a.tmp-ffffffffffff" / "x").write_bytes(b"")
    write_file(tmp_path / "a", b"1")
    assert sorted(listing(tmp_path)) == sorted(["a", *left[1:]])
    remove_leftovers_of(tmp_path / "no folder" / "a")


def test_a_result_that_was_being_replaced_is_never_lost_and_leaves_nothing(tmp_path, model):
    """Killed at each operation: one of both results stands, and the next run leaves one folder."""
    command = ["cluster", str(model[0]), "-k", "4", "--out", str(tmp_path / "out"), "--overwrite"]
    assert main([*command, "--seed", "1"]) == 0
    disk = Disk(-1, failing(0))
    with on_disk(disk):
        assert main([*command, "--seed", "2"]) == 0
    assert disk.count >= 12
    for at in range(disk.count):
        with pytest.raises(Killed), on_disk(Disk(at, killing(really=False))):
            main([*command, "--seed", "1"])
        results = [p for p in tmp_path.iterdir() if is_ours(p)]
        assert results, f"killed at operation {at}"
        assert main([*command, "--seed", "2"]) == 0
        assert [p.name for p in tmp_path.iterdir()] == ["out"], f"killed at operation {at}"
        assert json.loads((tmp_path / "out" / "result.json").read_text())["seed"] == 2


# Advice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_a_full_disk_advises_to_resume_only_what_can_be_resumed(tmp_path, capsys, name):
    task, advised = TASKS[name](tmp_path), set()
    for at in range(0, 34, 2):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        with without_pictures(), on_disk(Disk(at, failing(errno.ENOSPC))):
            code = main(task.command(folder))
        said = capsys.readouterr().err
        if not code:
            continue
        there = is_begun(folder / "run") or (folder / "state").is_file()
        assert code == 73
        assert said.count("To fix this") == 1
        assert "resume" not in said or there, f"full at operation {at}: {said}"
        advised.add("resume" in said)
        if not there:
            with without_pictures():
                assert main(task.command(folder)) == 0  # the same command begins again
    assert False in advised
    if name == "train":
        assert True in advised
