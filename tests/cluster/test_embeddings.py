"""Rows of a file, read by blocks and by ids, are those of the array; what is wrong is named."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError, MissingFileError
from dualclust.algos.core.projections import project_sphere
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import Group, feature_source
from dualclust.cluster.embeddings import (
    check_embeddings,
    embedding_source,
    open_embeddings,
)
from dualclust.cluster.start import drawn_centers
from dualclust.cluster.values_of_rows import read_weights
from dualclust.common.formats import plain

DTYPES = ["float16", "float32", "float64", "longdouble", "int8", "uint16", "int64", ">f2", ">f8"]


def save(folder, array, name="X.npy"):
    np.save(folder / name, array)
    return folder / name


def numbers(n=500, d=7, seed=0):
    return np.random.default_rng(seed).integers(1, 100, size=(n, d)) / 4


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_ids_are_those_of_the_array(tmp_path, dtype, order) -> None:
    x = np.asarray(numbers().astype(dtype), order=order)
    rows = open_embeddings(save(tmp_path, x))
    wide = dtype in ("float64", "longdouble", ">f8")
    want = np.asarray(x, dtype=np.float64 if wide else np.float32)
    assert (rows.n_samples, rows.n_features, rows.dtype) == (500, 7, want.dtype)
    for start, stop in [(0, 500), (0, 0), (3, 4), (100, 377), (500, 500)]:
        got = rows.rows(start, stop)
        assert got.dtype == want.dtype
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, want[start:stop])
    ids = np.random.default_rng(1).integers(0, 500, size=300)
    for some in (ids, np.sort(ids), np.arange(0, 500, 9), ids[:1], ids[:0]):
        np.testing.assert_array_equal(rows.take(some), want[some])


@pytest.mark.parametrize("step", [1, 100, 3_000])
@pytest.mark.parametrize("order", "CF")
def test_scattered_rows_by_spans_and_one_by_one(tmp_path, step, order):
    """In spans of a megabyte over gaps of up to 8 KiB, and alone where they are further apart."""
    x = np.random.default_rng(0).normal(size=(200_000, 8)).astype(np.float32, order=order)
    rows = open_embeddings(save(tmp_path, x))
    for ids in (np.arange(0, 200_000, step), np.random.default_rng(1).integers(0, 200_000, 300)):
        np.testing.assert_array_equal(rows.take(ids), x[ids])
        np.testing.assert_array_equal(rows.take(ids[::-1]), x[ids[::-1]])


def test_where_the_system_has_no_positioned_read(tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(plain.os, "preadv", raising=False)
    x = numbers().astype(np.float32)
    rows = open_embeddings(save(tmp_path, x))
    np.testing.assert_array_equal(rows.rows(100, 377), x[100:377])
    np.testing.assert_array_equal(rows.take(np.asarray([499, 0])), x[[499, 0]])


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_header(tmp_path, version) -> None:
    x = numbers()
    with (tmp_path / "X.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=version)
    np.testing.assert_array_equal(open_embeddings(tmp_path / "X.npy").rows(5, 9), x[5:9])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_source_of_unit_rows_and_one_of_points(tmp_path, dtype) -> None:
    x = numbers().astype(dtype)
    rows = open_embeddings(save(tmp_path, x))
    wide = np.float64 if dtype == "float64" else np.float32
    for metric, want in [
        ("cosine", project_sphere(x.astype(wide))),
        ("euclidean", x.astype(wide)),
    ]:
        source = embedding_source(rows, metric)
        assert source.n_features == 7
        assert source.group[:3] == (0, 500, 500)
        np.testing.assert_array_equal(source.rows(17, 230), want[17:230])
        assert source.rows(9, 9).shape == (0, 7)
        np.testing.assert_array_equal(source.take(np.asarray([3, 499, 3])), want[[3, 499, 3]])


def test_a_rank_reads_its_own_rows_and_no_others(tmp_path) -> None:
    x = numbers().astype(np.float32)
    other = {"low": x[[0, 3]], "high": x[[499]]}  # what two other ranks send

    def gather(array):
        return np.concatenate([other["low"], array, other["high"]])

    source = embedding_source(
        open_embeddings(save(tmp_path, x)), "euclidean", Group(100, 50, 500, gather)
    )
    np.testing.assert_array_equal(source.rows(0, 50), x[100:150])
    ids = np.asarray([499, 120, 0, 101, 3])
    np.testing.assert_array_equal(source.take(ids), x[ids])


def test_tensors_on_request(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    x = numbers().astype(np.float32)
    source = embedding_source(open_embeddings(save(tmp_path, x)), "euclidean", device="meta")
    assert isinstance(source.rows(0, 5), torch.Tensor)
    assert source.rows(0, 5).device.type == "meta"


@pytest.mark.parametrize("order", "CF")
def test_memory_is_one_block(tmp_path, order) -> None:
    x = np.asarray(np.ones((100_000, 32), np.float16), order=order)  # 6.4 MB, 12.8 MB as float32
    source = embedding_source(open_embeddings(save(tmp_path, x)), "cosine")
    tracemalloc.start()
    try:
        for start in range(0, 100_000, 1000):
            source.rows(start, start + 1000)
        source.take(np.arange(0, 100_000, 100))
        assert tracemalloc.get_traced_memory()[1] < 6e6
    finally:
        tracemalloc.stop()


# The check ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(tmp_path, value) -> None:
    x = np.ones((2 * MOST_ROWS + 5, 3), np.float32)
    x[MOST_ROWS + 7, 1] = x[-1, 0] = value
    rows = open_embeddings(save(tmp_path, x))
    for metric in ("cosine", "euclidean"):
        with pytest.raises(
            InvalidValueError, match=f"in 2 rows, the first of them row {MOST_ROWS + 7}"
        ):
            check_embeddings(rows, metric)


def test_a_zero_row_is_named_and_is_a_point(tmp_path) -> None:
    x = np.ones((MOST_ROWS + 5, 3))
    x[[3, MOST_ROWS + 2]] = 0.0
    rows = open_embeddings(save(tmp_path, x))
    with pytest.raises(InvalidValueError, match="only zeros in 2 rows, the first of them row 3"):
        check_embeddings(rows, "cosine")
    assert check_embeddings(rows, "euclidean") == ""


def test_the_hash_is_of_the_values_whatever_the_ranks(tmp_path) -> None:
    x = np.random.default_rng(0).normal(size=(3 * MOST_ROWS - 5, 3)).astype(np.float32)
    rows = open_embeddings(save(tmp_path, x))
    whole = check_embeddings(rows, "cosine", digest=True)
    assert len(whole) == 64
    by_columns = open_embeddings(save(tmp_path, np.asfortranarray(x), "F.npy"))
    assert check_embeddings(by_columns, "cosine", digest=True) == whole
    sent: list[np.ndarray] = []  # rank 1 of 2 is asked first, and its answers are kept

    def keep(array):
        sent.append(array)
        return array

    last = len(x) - 2 * MOST_ROWS
    check_embeddings(rows, "cosine", Group(2 * MOST_ROWS, last, len(x), keep), digest=True)
    others = iter(sent)
    group = Group(0, 2 * MOST_ROWS, len(x), lambda array: np.concatenate([array, next(others)]))
    assert check_embeddings(rows, "cosine", group, digest=True) == whole
    x[-1, -1] = np.nextafter(x[-1, -1], np.float32(9))
    changed = open_embeddings(save(tmp_path, x, "Y.npy"))
    assert check_embeddings(changed, "cosine", digest=True) != whole


# Files that cannot be read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "kind", "words"),
    [
        (np.ones((3, 2), complex), InvalidTypeError, r"complex numbers \(complex128\)"),
        (np.ones(3), InvalidValueError, r"has the shape \(3,\)"),
        (np.ones((0, 2)), InvalidValueError, r"has the shape \(0, 2\): no rows"),
    ],
)
def test_a_header_that_does_not_fit(tmp_path, array, kind, words) -> None:
    with pytest.raises(kind, match=words):
        open_embeddings(save(tmp_path, array))


def test_a_file_that_is_none(tmp_path) -> None:
    with pytest.raises(MissingFileError, match="no file at"):
        open_embeddings(tmp_path / "X.npy")
    (tmp_path / "X.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(InvalidValueError, match="cut off within its header"):
        open_embeddings(tmp_path / "X.npy")


def test_a_file_that_shrinks_meanwhile(tmp_path) -> None:
    path = save(tmp_path, numbers())
    rows = open_embeddings(path)
    path.write_bytes(path.read_bytes()[:-100])
    rows.rows(0, 400)
    with pytest.raises(InvalidValueError, match="become shorter"):
        rows.rows(400, 500)


def test_weights(tmp_path) -> None:
    path = save(tmp_path, np.asarray([1, 0, 3], np.int32), "w.npy")
    weights = read_weights(path, 3)
    assert weights.dtype == np.float64
    np.testing.assert_array_equal(weights, [1, 0, 3])
    with pytest.raises(InvalidValueError, match=r"holds int32 of shape \(3,\)"):
        read_weights(path, 4)
    with pytest.raises(InvalidValueError, match="at least 0"):
        read_weights(save(tmp_path, np.asarray([1.0, -1.0]), "v.npy"), 2)
    with pytest.raises(InvalidValueError, match="at least 0"):
        read_weights(save(tmp_path, np.asarray([1.0, np.nan]), "u.npy"), 2)


@pytest.mark.parametrize("seed", [0, 4, 1000])
def test_random_rows_to_start_from_are_different_ones_of_the_file(seed) -> None:
    given = {"init": "random", "seed": seed, "metric": "cosine", "weights": None, "fixed": None}
    source = feature_source(np.eye(5))
    assert drawn_centers(source, 5, **given).sum(axis=0).tolist() == [1.0] * 5
    with pytest.raises(InvalidValueError, match="at most the 5 rows of the file, got 6"):
        drawn_centers(source, 6, **given)
