"""Errors of `dualclust cluster`: each is one line, names the fix, and leaves nothing behind."""

import math
import os

import numpy as np
import pytest

from tests.cli.cluster_files import cluster, error_of, groups, listing, save


def with_entry(value):
    x = groups()[0]
    x[17, 3] = x[30, 0] = value
    return x


def with_zero_row():
    x = groups()[0]
    x[42] = 0.0
    return x


# What is saved, the exit code, and words of the message.
BAD_FILES = {
    "missing": (None, 66, "no file at"),
    "folder": ("folder", 66, "is a folder without files"),
    "text": (b"1.0 2.0\n3.0 4.0\n", 65, "is text"),
    "empty file": (b"", 65, "is empty (0 bytes)"),
    "cut off": (b"cut", 65, "is cut off: its header promises"),
    "pickle": (b"\x80\x04K\x01.", 65, "is a Python pickle"),
    "object": (np.array([[1, "a"]], dtype=object), 65, "Python objects"),
    "archive": ("archive", 65, "is an .npz archive, by its first bytes"),
    "strings": (np.array([["a", "b"]]), 65, "holds text (<U1)"),
    "complex": (np.ones((9, 2), complex), 65, "complex numbers (complex128)"),
    "dates": (np.zeros((9, 2), "M8[s]"), 65, "holds dates (datetime64[s])"),
    "record": (np.zeros(9, [("a", "f4")]), 65, "records with the fields 'a'"),
    "scalar": (np.float64(3.0), 65, "holds a single number"),
    "one axis": (np.ones(9), 65, "has the shape (9,)"),
    "three axes": (np.ones((9, 2, 2)), 65, "has the shape (9, 2, 2)"),
    "no row": (np.ones((0, 2)), 65, "has the shape (0, 2): no rows"),
    "no column": (np.ones((9, 0)), 65, "has the shape (9, 0): rows without numbers"),
    "NaN": (with_entry(math.nan), 65, "NaN or infinity in 2 rows, the first of them row 17"),
    "infinity": (with_entry(-math.inf), 65, "NaN or infinity in 2 rows, the first of them row 17"),
    "zero row": (with_zero_row(), 65, "only zeros in row 42"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_clustered(tmp_path, capsys, name):
    content, code, words = BAD_FILES[name]
    path = tmp_path / "X.npy"
    if isinstance(content, bytes):
        path.write_bytes(
            save(tmp_path / "Y.npy").read_bytes()[:200] if content == b"cut" else content
        )
    elif isinstance(content, str) and content == "folder":
        path.mkdir()
    elif isinstance(content, str):
        np.savez(tmp_path / "X.npz", a=np.ones((9, 2)))
        (tmp_path / "X.npz").rename(path)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    before = listing(tmp_path)
    error = error_of(capsys, code, "cluster", path, "-k", 3)
    assert words in error
    assert str(path) in error
    assert listing(tmp_path) == before


# Options, and words of the message.
BAD_OPTIONS = {
    "k zero": (["-k", 0], "-k must be at least 1, got 0"),
    "k negative": (["-k", -3], "-k must be at least 1, got -3"),
    "k above n": (["-k", 201], "-k must be at most the number of rows, got 201 for the 200 rows"),
    "k beyond memory": (["-k", 999999999999], "got 999999999999 for the 200 rows"),
    "k above n, no bounds": (
        ["-k", 201, "--lower", 0, "--upper", "inf"],
        "-k must be at most the number of rows, got 201 for the 200 rows",
    ),
    "lower too large": (
        ["-k", 7, "--lower", 1, "--rounding", "inward"],
        "--lower 1 --upper 1.1, where the mean size n/k is 28.5714 rows: lower bounds add up to "
        "203 samples, 3 more than the 200 rows of the file. To fix this, lower them, or leave out "
        "--rounding",
    ),
    "upper too small": (
        ["-k", 7, "--lower", 0, "--upper", 1, "--rounding", "inward"],
        "upper bounds add up to 196 samples, 4 fewer",
    ),
    "rows as a share": (
        ["-k", 4, "--lower", 45],
        "--lower is in units of the mean size n/k and must be at most 1, got 45. To fix this, give "
        "a number of rows with --min-count",
    ),
    "rows as an upper share": (["-k", 4, "--upper", 0.5], "--upper is in units of the mean size"),
    "count too large": (
        ["-k", 4, "--min-count", 51],
        "--min-count 51 asks for 204 rows in 4 clusters, 4 more than the 200 rows of the file. "
        "To fix this, give at most 50",
    ),
    "count too small": (
        ["-k", 7, "--max-count", 28],
        "--max-count 28 allows 196 rows in 7 clusters, 4 fewer than the 200 rows of the file. "
        "To fix this, give at least 29",
    ),
    "negative count": (["-k", 4, "--min-count=-1"], "--min-count must be at least 0, got -1"),
    "tolerance": (["-k", 4, "--tol", 2], "--tol must lie in [0, 1], got 2.0"),
    "gap": (["-k", 4, "--gap", "nan"], "--gap must lie in [0, 1], got nan"),
    "negative ratio": (["-k", 4, "--lower=-1"], "--lower must lie in [0, inf"),
    "NaN ratio": (["-k", 4, "--lower", "nan"], "--lower must lie in [0, inf"),
    "infinite lower": (["-k", 4, "--lower", "inf"], "--lower must lie in [0, inf), got inf"),
    "iterations": (["-k", 4, "--max-iter", -1], "--max-iter must be at least 0"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_do_not_fit_the_rows(tmp_path, capsys, name):
    options, words = BAD_OPTIONS[name]
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    assert words in error_of(capsys, 65, "cluster", path, *options)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("name", ["", ".", "/", "a" * 300, "b" * 5000, "nul\0.npy"])
@pytest.mark.parametrize(
    "option", ["X.npy", "--weights", "--out", "--checkpoint", "--bounds", "--seeds", "--start"]
)
def test_names_that_no_file_can_have(tmp_path, capsys, option, name):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    given = [name] if option == "X.npy" else [path, option, name]
    error = error_of(capsys, 2, "cluster", *given, "-k", 4)
    assert f"{option} must be the path of a file or folder, got" in error
    assert "To fix this, give another path" in error
    assert listing(tmp_path) == before


def test_a_device_without_values(tmp_path, capsys):
    pytest.importorskip("torch")
    path = save(tmp_path / "X.npy")
    for device in ("meta", "meta:0"):
        error = error_of(capsys, 2, "cluster", path, "-k", 4, "--device", device)
        assert "--device meta has no values to compute with" in error


def test_resume_without_a_state(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    error = error_of(capsys, 2, "cluster", path, "-k", 4, "--resume")
    assert "--resume needs --checkpoint" in error
    state = tmp_path / "state"
    error = error_of(capsys, 66, "cluster", path, "-k", 4, "--resume", "--checkpoint", state)
    assert f"no checkpoint at {state}" in error
    assert listing(tmp_path) == before


def test_a_negative_seed(tmp_path, capsys):
    assert cluster(save(tmp_path / "X.npy"), "--seed", -1) in (2, 65)
    assert "seed" in capsys.readouterr().err


def test_an_existing_output_is_left_alone(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    assert cluster(path) == 0
    capsys.readouterr()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    before = listing(tmp_path)
    for out in ("X-clusters", "empty", "file"):
        error = error_of(capsys, 73, "cluster", path, "-k", 4, "--out", tmp_path / out)
        assert f"{tmp_path / out} exists" in error
        assert "--out" in error
    assert "X-clusters exists" in error_of(capsys, 73, "cluster", path, "-k", 4)
    error = error_of(capsys, 73, "cluster", path, "-k", 4, "--out", tmp_path / "file" / "deeper")
    assert "cannot write into" in error
    assert listing(tmp_path) == before


def test_a_full_disk_leaves_nothing(tmp_path, capsys, monkeypatch):
    path = save(tmp_path / "X.npy")
    before, flushed, fsync = listing(tmp_path), [], os.fsync

    def full(handle):
        flushed.append(handle)
        if len(flushed) == 3:  # two files are there
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    error = error_of(capsys, 73, "cluster", path, "-k", 4)
    assert "X-clusters: No space left on device" in error
    assert listing(tmp_path) == before


def test_an_interrupt_while_writing_leaves_nothing(tmp_path, capsys, monkeypatch):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)

    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    assert cluster(path) == 130
    assert capsys.readouterr().err == (
        "dualclust: interrupted; nothing was written. With --checkpoint FILE, a run that is "
        "stopped goes on after its last center update by --resume\n"
    )
    monkeypatch.undo()
    assert listing(tmp_path) == before
