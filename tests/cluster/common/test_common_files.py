"""Files appear complete or not at all: what reaches the disk and when, and what an error leaves."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common import files
from dualclust.common.files import doomed, remove_leftovers, write_file, write_folder


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: content by name, None for folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What is flushed, with its size if it is a file, renamed and closed, in this order."""
    log: list[tuple[object, ...]] = []
    fsync, replace, opened, close = os.fsync, os.replace, os.open, os.close
    folders: dict[int, str] = {}

    def flush(handle: int) -> None:
        log.append(("flush", folders.get(handle) or os.fstat(handle).st_size))
        fsync(handle)

    def rename(old: Path, new: Path) -> None:
        replace(old, new)
        log.append(("rename", new.name))

    def open_folder(path: object, flags: int, *rest: object, **kwargs: object) -> int:
        handle = opened(path, flags, *rest, **kwargs)  # type: ignore[call-overload]
        if isinstance(path, Path) and path.is_dir():
            folders[handle] = path.name
        return int(handle)

    def close_folder(handle: int) -> None:
        if handle in folders:
            log.append(("close", folders.pop(handle)))
        close(handle)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    monkeypatch.setattr(os, "open", open_folder)
    monkeypatch.setattr(os, "close", close_folder)
    return log


@pytest.mark.parametrize(
    "content", ["größer\n", "größer\n".encode(), [b"gr\xc3\xb6", b"\xc3\x9fer\n"]]
)
def test_a_file_is_flushed_then_named_then_its_folder_is_flushed(tmp_path, disk, content):
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.txt").write_text("older and longer than what is new")
    write_file(home / "a.txt", content)
    assert tree(home) == {"a.txt": "größer\n".encode()}
    assert disk == [("flush", 9), ("rename", "a.txt"), ("flush", "home"), ("close", "home")]


def test_a_folder_is_flushed_file_by_file_then_named(tmp_path, disk):
    home = tmp_path / "above" / "home"
    write_folder(home / "new", {"b": b"12", "a": b"345"})
    assert tree(home) == {"new": None, "new/b": b"12", "new/a": b"345"}
    temporary = disk[2][1]
    assert str(temporary).startswith(".new.tmp-")
    assert disk == [
        ("flush", 2),
        ("flush", 3),
        ("flush", temporary),
        ("close", temporary),
        ("rename", "new"),
        ("flush", "home"),
        ("close", "home"),
        ("close", temporary),  # what was locked until it had its name
    ]
    write_folder(home / "other", {"c": b""})  # the folder above may be there


def test_a_system_whose_folders_cannot_be_flushed_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "os", SimpleNamespace(name="nt"))
    files._flush_folder(tmp_path)  # `os.open` would be missing


def test_a_folder_that_refuses_to_be_flushed_is_no_error(tmp_path, monkeypatch):
    fsync, flushed = os.fsync, []

    def refuse(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").is_dir():
            flushed.append(handle)
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    write_file(tmp_path / "a", b"1")
    assert tree(tmp_path) == {"a": b"1"}
    assert len(flushed) == (1 if Path("/proc/self/fd").is_dir() else 0)


def test_folders_above_are_made_only_if_asked(tmp_path):
    path = tmp_path / "one" / "two" / "a"
    with pytest.raises(OutputError, match=r"cannot write .*a: No such file or directory"):
        write_file(path, b"1")
    assert tree(tmp_path) == {}
    for content in (b"1", b"2"):  # and may be there
        write_file(path, content, parents=True)
        assert path.read_bytes() == content
    with pytest.raises(OutputError, match=r"cannot write into .*a: (Not a directory|File exists)"):
        write_file(path / "b", b"", parents=True)


@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (
            OSError(errno.ENOSPC, "No space left"),
            OutputError,
            r"cannot write .*/a: No space left\.",
        ),
        (OSError("pulled out"), OutputError, r"cannot write .*/a: pulled out\."),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
        (ValueError("of the parts"), ValueError, "of the parts"),
    ],
)
def test_whatever_ends_a_write_what_stood_there_stands(tmp_path, error, raised, says):
    def parts():
        yield b"half"
        raise error

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(raised, match=says):
        write_file(tmp_path / "a", parts())
    assert tree(tmp_path) == {"a": b"old"}


def test_an_interruption_after_the_rename_leaves_the_new_file(tmp_path, monkeypatch):
    fsync, place = os.fsync, tmp_path.stat().st_ino

    def interrupt(handle: int) -> None:
        if os.fstat(handle).st_ino == place:  # the folder, after the rename
            raise KeyboardInterrupt
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", b"new")
    assert tree(tmp_path) == {"a": b"new"}


def test_the_name_of_what_is_not_there_yet_is_a_leftover(tmp_path):
    names = {files._temporary(tmp_path / "a").name for _ in range(20)}
    assert len(names) == 20
    assert all(files._LEFTOVER.fullmatch(name) for name in names)
    assert files._temporary(tmp_path / "a").parent == tmp_path
    for name in ("a", ".a"):
        assert doomed(tmp_path / name) == tmp_path / ".a.tmp-doomed"
    assert files._LEFTOVER.fullmatch(".a.tmp-doomed")


# A folder that replaces another ----------------------------------------------------------------


def test_a_folder_that_stood_there_is_set_aside(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    for content in (b"1", b"2", b"3"):
        write_folder(new, {"a": content}, aside=old)
    assert tree(tmp_path) == {"new": None, "new/a": b"3", "old": None, "old/a": b"2"}


def test_a_folder_with_content_is_not_replaced_without_a_place_aside(tmp_path):
    write_folder(tmp_path / "new", {"a": b"1"})
    with pytest.raises(OutputError, match=r"cannot write .*/new: Directory not empty"):
        write_folder(tmp_path / "new", {"a": b"2"})
    assert tree(tmp_path) == {"new": None, "new/a": b"1"}


@pytest.mark.parametrize("aside", [True, False])
@pytest.mark.parametrize("stands", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_failed_rename_puts_back_what_was_set_aside(tmp_path, monkeypatch, aside, stands, error):
    """Also where there was nothing to set aside: then what lies there is not this writer's."""
    new, old = tmp_path / "new", tmp_path / "old"
    write_folder(old, {"a": b"older"})
    if stands:
        write_folder(new, {"a": b"old"})
    before, replace = tree(tmp_path), os.replace

    def rename(source: Path, target: Path) -> None:
        if ".tmp-" in source.name:
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_folder(new, {"a": b"new"}, aside=old if aside else None)
    if aside and stands:  # what was aside had to go, and what stood there is back
        before = {"new": None, "new/a": b"old"}
    assert tree(tmp_path) == before


def test_an_interruption_after_the_rename_leaves_the_new_folder(tmp_path, monkeypatch):
    new, old = tmp_path / "new", tmp_path / "old"
    write_folder(new, {"a": b"old"})
    fsync, place = os.fsync, tmp_path.stat().st_ino

    def interrupt(handle: int) -> None:
        if os.fstat(handle).st_ino == place:
            raise KeyboardInterrupt
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_folder(new, {}, aside=old)
    assert tree(tmp_path) == {"new": None, "old": None, "old/a": b"old"}


def test_a_folder_inside_another_is_never_written_without_that(tmp_path):
    home, files = tmp_path / "home", {"a": b"1"}
    with pytest.raises(OutputError, match=r"cannot write into .*home/b/c: No such file"):
        write_folder(home / "b" / "c" / "d", files, inside=home)
    assert tree(tmp_path) == {}
    home.mkdir()
    for _ in range(2):
        write_folder(home / "b" / "c" / "d", files, inside=home, aside=home / "e")
    write_folder(home / "f", files, inside=home)
    whole = {"b": None, "b/c": None, "b/c/d": None, "b/c/d/a": b"1", "f": None, "f/a": b"1"}
    assert tree(home) == whole | {f"e{name}": each for name, each in {"": None, "/a": b"1"}.items()}


def test_a_folder_that_cannot_be_begun_leaves_nothing(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*new"):
        write_folder(tmp_path / "new", {"no/such/place": b""})
    assert tree(tmp_path) == {}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"cannot write into .*file"):
        write_folder(tmp_path / "file" / "new", {})


def test_a_folder_whose_temporary_cannot_be_made_says_why(tmp_path, monkeypatch):
    (tmp_path / "taken").write_bytes(b"")
    monkeypatch.setattr(files, "_temporary", lambda path: tmp_path / "taken" / "x")
    with pytest.raises(OutputError, match=r"cannot write .*new: Not a directory"):
        write_folder(tmp_path / "new", {})
    with pytest.raises(OutputError, match=r"cannot write .*b: Not a directory"):
        write_file(tmp_path / "b", b"")


# Leftovers -------------------------------------------------------------------------------------


def leave(folder: Path) -> set[str]:
    """Leftovers of every kind in a folder and below it, and names that only look alike."""
    below, kept = folder / "below", folder / "kept"
    below.mkdir(parents=True)
    kept.mkdir()
    (kept / "a").write_bytes(b"1")
    half = f".run.tmp-{'0a' * 6}"
    (below / half).mkdir()
    (below / half / "a").write_bytes(b"")
    (below / half / half).mkdir()  # is gone when its turn comes
    (folder / half).write_bytes(b"")
    (folder / ".run.tmp-doomed").mkdir()
    (folder / f".link.tmp-{'f' * 12}").symlink_to(kept, target_is_directory=True)
    alike = {".run.tmp-0a", "run.tmp-doomed", ".run.tmp-0A0A0A0A0A0A", f"{half}.txt"}
    for name in alike:
        (folder / name).write_bytes(b"")
    return {"below", "kept", "kept/a", *alike}


def test_leftovers_go_and_nothing_else(tmp_path):
    left = leave(tmp_path / "run")
    remove_leftovers(tmp_path / "run")
    assert set(tree(tmp_path / "run")) == left
    remove_leftovers(tmp_path / "no such folder")


def test_leftovers_go_where_locks_need_a_handle_that_can_write(tmp_path, monkeypatch):
    """As NFS does, which makes POSIX locks of all."""
    left = leave(tmp_path / "run")
    file = tmp_path / "run" / f".file.tmp-{'1' * 12}"
    file.write_bytes(b"")

    def lock(handle: int, how: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            fcntl.lockf(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock)
    remove_leftovers(tmp_path / "run")
    assert set(tree(tmp_path / "run")) == left


def test_leftovers_that_cannot_be_removed_stay(tmp_path, monkeypatch):
    left = leave(tmp_path / "run")

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(os, "rmdir", refuse)
        patch.setattr(Path, "unlink", refuse)
        remove_leftovers(tmp_path / "run")
    assert set(tree(tmp_path / "run")) > left
    shutil.rmtree(tmp_path / "run")


def test_what_lay_aside_before_does_not_come_back_in_place_of_nothing(tmp_path, monkeypatch):
    folder, aside = tmp_path / "run", tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(os, "fsync", disk_error)
    with pytest.raises(OutputError):
        write_folder(folder, {"a": b"1"}, aside=aside)
    assert list(tmp_path.iterdir()) == [aside]


def disk_error(*_: object) -> None:
    raise OSError(errno.EIO, "broken")
