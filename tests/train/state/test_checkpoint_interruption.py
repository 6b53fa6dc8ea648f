"""A checkpoint that could not be written leaves the ones before it whole."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common import files
from dualclust.train.state.checkpoint import checkpoint_folder, latest_checkpoint, save_checkpoint
from tests.faults.disk import Disk, on_disk, removing
from tests.train.stored import (
    names,
    save_epochs,
    small,
)


class Killed(BaseException):
    pass


def kill_at(monkeypatch, n):
    """Let the n-th operation on the disk be the one that does not happen, nor any after it."""
    left = [n]

    def wrap(module, name):
        original = getattr(module, name)

        def operation(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                if name == "_write_flushed" and left[0] == -1:  # killed in the middle of the file
                    content = b"".join(args[1])
                    args[0].write_bytes(content[: len(content) // 2])
                raise Killed
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, operation)

    wrap(files, "_write_flushed")
    wrap(os, "fsync")
    wrap(os, "replace")
    wrap(os, "rmdir")
    wrap(os, "unlink")
    wrap(shutil, "rmtree")
    return left


@pytest.mark.parametrize("epochs", [(1, 2, 3), (3,)], ids=["next", "same epoch again"])
def test_killed_anywhere_a_good_checkpoint_remains(tmp_path, monkeypatch, epochs):
    for n in range(100):
        run = tmp_path / f"run{n}"
        save_epochs(run, *epochs)
        before, after = {"epoch": 3}, {"epoch": 4 if len(epochs) > 1 else 3, "new": True}
        with monkeypatch.context() as patch:
            left = kill_at(patch, n)
            try:
                save_checkpoint(checkpoint_folder(run, after["epoch"]), {}, after)
                finished = left[0] >= 0
            except Killed:
                finished = False
        found = latest_checkpoint(run).metadata
        assert found == after if finished else found in (before, after)
        # The next save cleans up.
        save_checkpoint(checkpoint_folder(run, 5), *small(5))
        assert len(names(run)) == 2
        assert latest_checkpoint(run).metadata == {"epoch": 5}
        if finished:
            break
    assert n > 8


@pytest.mark.parametrize("n_written", [0, 2])
def test_a_full_disk_leaves_the_old_one_intact(tmp_path, monkeypatch, n_written):
    """While its tensors are written, or its manifest, which is the last of three files."""
    save_epochs(tmp_path, 1)
    fsync, flushed = os.fsync, []

    def full(handle):
        flushed.append(handle)
        if len(flushed) > n_written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"epoch-000002: No space left on device\. Earlier"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))
    assert names(tmp_path) == ["epoch-000001"]
    assert latest_checkpoint(tmp_path).metadata == {"epoch": 1}


def test_a_failed_rename_leaves_the_old_one_intact(tmp_path, monkeypatch):
    save_epochs(tmp_path, 1)

    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match="Permission denied"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))
    assert names(tmp_path) == ["epoch-000001"]


def test_a_folder_that_vanishes_anywhere_is_an_error_of_ours_or_none(tmp_path):
    for n in range(100):
        run = tmp_path / f"run{n}"
        save_epochs(run, 1, 2)

        with on_disk(Disk(n, removing(run))) as disk, suppress(OutputError):
            save_checkpoint(checkpoint_folder(run, 3), *small(3))
        if disk.at >= 0:  # it was saved before
            assert latest_checkpoint(run).metadata == {"epoch": 3}
            break
    assert n > 8


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(OutputError, match="cannot save the checkpoint"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))


@pytest.mark.skipif(os.name != "posix", reason="file size limits are POSIX")
def test_a_real_limit_on_file_size(tmp_path):
    code = """
        import resource, sys, torch
        from dualclust.algos.core.errors import OutputError
        from dualclust.train.state.checkpoint import *
        save_checkpoint(checkpoint_folder(sys.argv[1], 1), {}, {"epoch": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            save_checkpoint(checkpoint_folder(sys.argv[1], 2), {"w": torch.ones(9999)}, {})
        except OutputError as error:
            print(error)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "File too large. Earlier checkpoints are unchanged" in out.stdout
    assert names(tmp_path) == ["epoch-000001"]
    assert latest_checkpoint(tmp_path).metadata == {"epoch": 1}


def test_files_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    log = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda a, b: (replace(a, b), log.append("rename"))[0])
    monkeypatch.setattr(os, "fsync", lambda h: (fsync(h), log.append("flush"))[0])
    save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    # Three files and their folder, and after the rename the folder above.
    assert log == [*["flush"] * 4, "rename", "flush"]
