"""One writer a folder: what is asked of the lock, what is left, and what a refusal says."""

from __future__ import annotations

import errno
from pathlib import Path

import filelock
import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common.locks import LOCK_FILES, only_writer


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> list[filelock.FileLock]:
    """The locks that are made, each with what it was asked, and where (`asked`)."""
    made: list[filelock.FileLock] = []

    class Lock(filelock.FileLock):
        def __init__(self, path: Path, **options: object) -> None:
            super().__init__(path, **options)  # type: ignore[arg-type]
            self.asked: list[object] = [Path(path).name, options["fallback_to_soft"]]
            made.append(self)

        def acquire(self, **options: object) -> object:  # type: ignore[override]
            self.asked += [options, Path(self.lock_file).parent.is_dir()]
            return super().acquire(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(filelock, "FileLock", Lock)
    return made


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_writer_does_not_wait_and_releases_what_it_held(tmp_path, locks):
    folder = tmp_path / "one" / "two"
    with only_writer(folder):
        assert names(folder) == LOCK_FILES
        assert locks[0].is_locked
        assert locks[0].asked == [".lock", False, {"timeout": 0}, True]
        with pytest.raises(OutputError, match="is in use by process"), only_writer(folder):
            pytest.fail("two writers")
        assert names(folder) == LOCK_FILES
    assert not locks[0].is_locked
    assert names(folder) == set()
    with pytest.raises(ZeroDivisionError), only_writer(folder):
        raise ZeroDivisionError
    assert not locks[2].is_locked
    assert names(folder) == set()


@pytest.mark.parametrize("gone", sorted(LOCK_FILES))
def test_a_lock_file_that_somebody_has_removed_is_no_error(tmp_path, locks, gone):
    with only_writer(tmp_path):
        (tmp_path / gone).unlink()
    assert names(tmp_path) == set()
    assert not locks[0].is_locked


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EROFS, "Read-only file system"), "run: Read-only file system$"),
        (OSError("pulled out"), "run: pulled out$"),
    ],
)
def test_a_folder_that_cannot_be_locked_is_an_error(tmp_path, monkeypatch, error, says):
    def refuse(self: object, timeout: object = None) -> None:
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.raises(OutputError, match=f"cannot write into .*{says.rstrip('$')}"):
        with only_writer(tmp_path / "run"):
            pytest.fail("not locked")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_without_locks_a_writer_is_warned_once(tmp_path, monkeypatch, code):
    fcntl, entered = pytest.importorskip("fcntl"), []

    def refuse(handle: int, operation: int) -> None:
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(RuntimeWarning, match="without locks: see that nobody else") as warned:
        with only_writer(tmp_path):
            entered.append(True)
    assert entered == [True]
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert ".lock-holder" not in names(tmp_path)


def test_a_file_of_a_folder_has_a_lock_of_its_own(tmp_path):
    with only_writer(tmp_path, file="X.state"):
        assert names(tmp_path) == {".X.state.lock", ".X.state.lock-holder"}
        with pytest.raises(OutputError, match=r"X\.state is in use by process \d+ on "):
            with only_writer(tmp_path, file="X.state"):
                pytest.fail("two writers")
        with only_writer(tmp_path, file="Y.state"), only_writer(tmp_path):
            pass
    assert names(tmp_path) == set()
