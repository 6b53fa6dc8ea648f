"""A run folder has one writer, and the lock ends with it."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys

import filelock
import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common.locks import LOCK_FILES, only_writer
from dualclust.train.loop import resume, train
from tests.train.runs import Interrupted, assert_same_run, interrupt_after, listing, tiny

HOLD = (
    "import sys; from pathlib import Path; from dualclust.common.locks import only_writer\n"
    "with only_writer(Path(sys.argv[1])):\n"
    "    print('held', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def holder(tmp_path):
    """A process that holds a folder until its input ends, or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_refused_and_named(holder, tmp_path, source):
    folder = tmp_path / "run"
    before = listing(folder)
    says = f"in use by process {holder.pid} on '{socket.gethostname()}'"
    with pytest.raises(OutputError, match=says), only_writer(folder):
        pytest.fail("two writers")
    with pytest.raises(OutputError, match=says):
        train(tiny(source), folder)
    assert listing(folder) == before
    holder.communicate()
    with only_writer(folder):
        pass
    assert listing(folder) == {}


def test_a_killed_process_holds_nothing(holder, tmp_path, source):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    folder = tmp_path / "run"
    assert set(listing(folder)) == LOCK_FILES  # nobody has removed them
    train(tiny(source), folder)
    assert not LOCK_FILES & set(listing(folder))


def test_a_run_holds_its_folder(source, tmp_path):
    """It is refused to a second run from the first epoch to the last."""
    refused = []

    def second(record):
        for start in (lambda: resume(tmp_path), lambda: train(tiny(source), tmp_path)):
            with pytest.raises(OutputError) as caught:
                start()
            refused.append(str(caught.value))

    train(tiny(source), tmp_path, progress=second)
    resumed, fresh = refused[::2], refused[1::2]
    assert all(f"in use by process {os.getpid()}" in text for text in resumed)
    assert all("exists and is not empty" in text for text in fresh)
    assert len(resumed) == len(fresh) == tiny(source).epochs


def test_a_run_that_began_meanwhile_is_not_overwritten(source, tmp_path, monkeypatch):
    from dualclust.train.loop import train_and_resume

    folder, begun = tmp_path / "run", []
    ready = train_and_resume._maker

    def late(*arguments):
        made = ready(*arguments)

        def fresh(settings):
            run = made(settings)
            if not begun:  # between the look at the folder and the first file
                begun.append(True)
                train(tiny(source), folder)
            return run

        return fresh

    monkeypatch.setattr(train_and_resume, "_maker", late)
    with pytest.raises(OutputError, match="exists and is not empty"):
        train(tiny(source, "seed=5"), folder)
    monkeypatch.undo()
    train(tiny(source), tmp_path / "other")
    assert_same_run(folder, tmp_path / "other")


def test_an_interrupted_run_leaves_no_lock(source, tmp_path):
    with pytest.raises(Interrupted):
        train(tiny(source), tmp_path, progress=interrupt_after(1))
    assert not LOCK_FILES & set(listing(tmp_path))


def test_a_holder_that_has_not_said_so_yet(tmp_path):
    with filelock.FileLock(tmp_path / ".lock"):
        for note in (None, "", "{}", "[]", '{"pid": "x", "host": "y"}'):
            if note is not None:
                (tmp_path / ".lock-holder").write_text(note)
            with pytest.raises(OutputError, match="in use by another process"):
                with only_writer(tmp_path):
                    pytest.fail("two writers")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(self, timeout=None):
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.warns(RuntimeWarning, match="without locks"), only_writer(tmp_path):
        (tmp_path / "file").write_text("written")
    assert set(listing(tmp_path)) == {"file"}


def test_the_note_is_json(tmp_path):
    with only_writer(tmp_path):
        note = json.loads((tmp_path / ".lock-holder").read_text())
    assert note == {"pid": os.getpid(), "host": socket.gethostname()}


def test_an_interruption_while_the_note_is_removed_releases_the_lock(tmp_path, monkeypatch):
    def interrupted(path, missing_ok=False):
        raise KeyboardInterrupt

    held = only_writer(tmp_path)
    held.__enter__()
    with monkeypatch.context() as patched:
        patched.setattr(type(tmp_path), "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            held.__exit__(None, None, None)
    with only_writer(tmp_path):
        assert caught.tb  # whose frames still hold what they held
