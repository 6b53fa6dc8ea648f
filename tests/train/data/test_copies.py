"""Copies of pictures on disk: made once, made again where they must be, whole or not there."""

import shutil
import threading
import weakref
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, OutputError
from dualclust.train.data import copies
from dualclust.train.data.copies import cache_folder, copies_of
from dualclust.train.data.picture_files import shrunk
from dualclust.train.data.samples import load_source
from dualclust.train.data.splits import File
from tests.train.data.test_pictures import load, same_views, settings, views
from tests.train.pictures import encoded, picture, write_folder

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch):
    """Names of the files that were decoded for a copy."""
    seen, lock = [], threading.Lock()

    def watch(file, side, *, channels):
        with lock:
            seen.append(file.name)
        return shrunk(file, side, channels=channels)

    monkeypatch.setattr(copies, "shrunk", watch)
    return seen


def files_of(folder):
    return [File(path.name, str(path)) for path in sorted(folder.rglob("*.jpeg"))]


def test_copies_are_made_once_and_serve_all_runs(tmp_path, made):
    folder = write_folder(tmp_path / "p", 24)
    files = files_of(folder)
    found = copies_of(files, 16, skip=True)
    assert sorted(made) == sorted(file.name for file in files)
    assert found.positions.tolist() == list(range(24))
    again = copies_of(files, 16, skip=False)
    assert len(made) == 24
    for file, one, other in zip(files, found.files, again.files, strict=True):
        expected = shrunk(file, 16, channels=3)
        assert one.content.size == other.content.size == expected.size
        assert np.array_equal(one.content.pixels, expected.pixels)
        assert np.array_equal(other.content.pixels, expected.pixels)
        assert min(expected.pixels.shape[:2]) == 16
    copies_of(files, 20, skip=True)
    assert len(made) == 48
    # Another picture of the same name and length: the time tells.
    path = folder / "class0" / "000.jpeg"
    path.write_bytes(encoded(picture(30, 40, seed=99)))
    changed = copies_of(files, 16, skip=True)
    assert len(made) == 72
    assert not np.array_equal(changed.files[0].content.pixels, found.files[0].content.pixels)


def test_what_a_killed_process_leaves_is_no_copy(tmp_path, cache, made):
    files = files_of(write_folder(tmp_path / "p", 6))
    copies_of(files, 16, skip=True)
    (folder,) = (cache / "pictures").iterdir()
    (folder / "copies.json").unlink()
    (folder / "pixels").write_bytes(b"half")
    assert len(copies_of(files, 16, skip=True).files) == 6
    assert len(made) == 12
    shutil.rmtree(cache)
    assert len(copies_of(files, 16, skip=True).files) == 6


def test_bad_files_are_remembered(tmp_path, cache, made):
    folder = write_folder(tmp_path / "p", 8)
    bad = folder / "class1" / "005.jpeg"
    bad.write_bytes(bad.read_bytes()[:300])
    files = files_of(folder)
    with pytest.raises(InvalidValueError, match=r"cannot decode 005\.jpeg"):
        copies_of(files, 16, skip=False)
    assert not list(cache.rglob("pixels"))
    for _ in range(2):
        found = copies_of(files, 16, skip=True)
        ((name, reason),) = found.skipped
        assert (name, "cannot decode 005.jpeg" in reason) == ("005.jpeg", True)
        assert len(found.files) == 7
        assert [files[i].name for i in found.positions] == [file.name for file in found.files]
    seen = len(made)
    with pytest.raises(InvalidValueError, match=r"cannot decode 005\.jpeg"):
        copies_of(files, 16, skip=False)
    assert len(made) == seen


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize(
    "how",
    ["objects", "cut", "half a word", "no channels", "few columns", "empty", "half an archive"],
)
def test_a_damaged_cache_is_made_again_and_nothing_of_it_runs(tmp_path, cache, made, how):
    files, canary = files_of(write_folder(tmp_path / "p", 3)), tmp_path / "canary"
    expected = copies_of(files, 16, skip=True)
    pixels = [file.content.pixels.copy() for file in expected.files]
    ((table,), (sign,), (flat,)) = map(list, map(cache.rglob, ("table.npy", "*.json", "pixels")))
    whole = sign.read_bytes(), table.read_bytes(), flat.read_bytes()
    if how == "objects":
        np.save(table, np.array([Bomb(str(canary))], dtype=object))
    if how == "cut":
        flat.write_bytes(flat.read_bytes()[:-1])
    if how == "half a word":
        sign.write_bytes(whole[0][:9])
    if how == "no channels":
        sign.write_text('{"skipped": []}')
    if how == "few columns":
        np.save(table, np.ones((3, 1), np.int64))
    if how == "empty":
        table.write_bytes(b"")
    if how == "half an archive":
        table.write_bytes(b"PK\3\4")
    found = copies_of(files, 16, skip=True)
    assert len(made) == 6
    assert not canary.exists()
    assert all(map(np.array_equal, (file.content.pixels for file in found.files), pixels))
    assert (sign.read_bytes(), table.read_bytes(), flat.read_bytes()) == whole


def test_no_room_and_no_place(tmp_path, cache, monkeypatch):
    files = files_of(write_folder(tmp_path / "p", 6))
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patch:
        patch.setattr(copies.shutil, "disk_usage", lambda _: usage(6 * 16 * 16))
        with pytest.raises(OutputError, match=r"take 0\.0 GB.* To fix this, .*DUALCLUST_CACHE"):
            copies_of(files, 16, skip=True)
    cache.write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write into .* DUALCLUST_CACHE"):
        copies_of(files, 16, skip=True)
    monkeypatch.delenv("DUALCLUST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / "dualclust"


def test_another_process_may_make_them_at_the_same_time(tmp_path, monkeypatch):
    """Whoever fails to write takes what the other one has written."""
    files = files_of(write_folder(tmp_path / "p", 6))
    write = copies.write_file

    def other_was_faster(path, content, **options):
        write(path, content, **options)
        if path.name == "copies.json":
            msg = "cannot write: gone"
            raise OutputError(msg)

    monkeypatch.setattr(copies, "write_file", other_was_faster)
    assert len(copies_of(files, 16, skip=True).files) == 6


def test_few_pictures_are_held_while_copies_are_made(tmp_path, monkeypatch):
    """The writer is slow: decoding waits for it."""
    files = files_of(write_folder(tmp_path / "p", 60))
    held, most = set(), []

    def watch(file, side, *, channels):
        held.add(file.name)
        most.append(len(held))
        return shrunk(file, side, channels=channels)

    def slow(path, content, **options):
        parts = [content] if isinstance(content, bytes | str) else content
        taken = []
        for i, part in enumerate(parts):
            taken.append(part if isinstance(part, bytes) else part.encode())
            if path.name == "pixels":
                held.discard(files[i].name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(taken))

    monkeypatch.setattr(copies, "shrunk", watch)
    monkeypatch.setattr(copies, "write_file", slow)
    copies_of(files, 16, skip=True, workers=2)
    assert len(most) == 60
    assert max(most) <= 2 * 2 + 2


def test_a_copy_that_is_written_is_let_go(tmp_path, monkeypatch):
    files, alive, most = files_of(write_folder(tmp_path / "p", 30)), set(), []

    def watch(file, side, *, channels):
        copy = shrunk(file, side, channels=channels)
        alive.add(file.name)
        most.append(len(alive))
        weakref.finalize(copy.pixels, alive.discard, file.name)
        return copy

    monkeypatch.setattr(copies, "shrunk", watch)
    copies_of(files, 16, skip=True, workers=2)
    assert len(most) == 30
    assert max(most) <= 2 * 2 + 3


def test_views_of_copies_are_those_of_the_files(tmp_path):
    """Where pictures are no larger than a copy, to the bit; for any threads and ranks."""
    folder = write_folder(tmp_path / "p", 24, height=12, width=10, kind="PNG")
    config = settings(folder, "batch_size=10")
    copied = settings(folder, "batch_size=10", "data.decode=copies", "data.workers=3")
    assert same_views(views(config), views(copied))
    loader, other = load(config), load(copied)
    for name in ("mean", "std", "background", "labels", "ids"):
        assert torch.equal(getattr(loader.data, name), getattr(other.data, name))
    assert other.data.digest() != loader.data.digest()


def test_gray_pictures_have_gray_copies(tmp_path, cache):
    for i in range(3):
        gray = encoded(picture(40, 50, seed=i, channels=1), "PNG")
        (tmp_path / f"{i}.png").write_bytes(gray)
    data = load_source(tmp_path, size=8, decode="copies")
    assert data.shape == (1, 8, 8)
    (sign,) = cache.rglob("copies.json")
    assert sign.read_text() == '{\n "channels": 1,\n "skipped": []\n}\n'
    assert len(sign.parent.name) == 32
    assert sign.parent.parent == cache / "pictures"


class Pool:
    """Does nothing before a result is asked for; notes what is waiting then."""

    def __init__(self):
        self.waiting, self.log = [], []

    def submit(self, function, i):
        def result():
            self.log.append((i, list(self.waiting)))
            self.waiting.remove(i)
            return function(i)

        def cancel():
            self.log.append(("cancelled", i))

        self.waiting.append(i)
        return SimpleNamespace(result=result, cancel=cancel)


def test_so_many_pictures_are_under_way_ahead_of_the_writer():
    pool = Pool()
    assert list(copies._in_order(pool, lambda i: 10 * i, range(5), 2)) == [0, 10, 20, 30, 40]
    # The next one is begun before the first is waited for, and at the end none is left.
    assert pool.log == [
        *((0, [0, 1, 2]), (1, [1, 2, 3]), (2, [2, 3, 4])),
        *((3, [3, 4]), (4, [4])),
    ]
    stopped = Pool()
    found = copies._in_order(stopped, lambda i: i, range(9), 3)
    assert next(found) == 0
    found.close()
    assert stopped.log[1:] == [("cancelled", 1), ("cancelled", 2), ("cancelled", 3)]
