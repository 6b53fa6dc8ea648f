"""model.npz: what is read is what was written, and anything else is refused before it is used."""

from __future__ import annotations

import io
import random
import zipfile

import numpy as np
import pytest

from dualclust.algos.core.errors import DualclustError, InvalidValueError, MissingFileError
from dualclust.cluster.model import MODEL_FILE, model_bytes, read_model
from dualclust.cluster.output import Clusters


def clusters(dtype=np.float32):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 5))
    centers = (centers / np.linalg.norm(centers, axis=1)[:, None]).astype(dtype)
    return Clusters(
        labels=np.asarray([0, 1, 1, 2, 2, 2, 0]),
        centers=centers,
        counts=np.asarray([2, 2, 3]),
        lower=np.asarray([2, 0, 1]),
        upper=np.asarray([2, 7, 3]),
        prices=np.asarray([0.5, -0.0, -1e-300]),
        objective=1.0,
        upper_bound=1.0,
        gap=0.0,
        n_iter=4,
        converged=True,
    )


@pytest.fixture
def path(tmp_path):
    (tmp_path / MODEL_FILE).write_bytes(model_bytes(clusters(), "cosine"))
    return tmp_path / MODEL_FILE


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_read_is_what_was_written(tmp_path, dtype) -> None:
    found, file = clusters(dtype), tmp_path / MODEL_FILE
    file.write_bytes(model_bytes(found, "cosine"))
    for place in (file, tmp_path):
        model = read_model(place)
        for name in ("centers", "prices", "counts", "lower", "upper"):
            ours, theirs = getattr(model, name), getattr(found, name)
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()
        assert (model.metric, model.n_samples) == ("cosine", 7)
    assert model_bytes(found, "cosine") == file.read_bytes()  # no time, no place


def test_any_bit_that_changes_is_noticed(path) -> None:
    """One of each byte: of numbers, dates and the seal itself; so is each end that is cut off."""
    whole, rng = path.read_bytes(), random.Random(0)
    for length in [*range(0, len(whole) - 150, 7), *range(len(whole) - 150, len(whole))]:
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidValueError, match="To fix this"):
            read_model(path)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InvalidValueError, match="To fix this"):
            read_model(path)
    path.write_bytes(whole)
    read_model(path)


def test_an_archive_of_numpy_is_a_model_too(path) -> None:
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    model = read_model(path)
    np.savez(path, **arrays)
    assert read_model(path).prices.tobytes() == model.prices.tobytes()
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"the one of Tuesday"
    with pytest.raises(InvalidValueError, match=r"is damaged \(its SHA-256 is not the one"):
        read_model(path)


def test_numpy_reads_it_without_pickles(path) -> None:
    with np.load(path, allow_pickle=False) as archive:
        names = {"format", "metric", "n_samples", "centers", "prices", "counts", "lower", "upper"}
        assert set(archive.files) == names
        assert archive["format"] == 1
        assert str(archive["metric"]) == "cosine"


def test_no_model(tmp_path) -> None:
    with pytest.raises(MissingFileError, match=r"no model at .*model.npz. To fix this, name an"):
        read_model(tmp_path)


def arrays():
    with np.load(io.BytesIO(model_bytes(clusters(), "cosine"))) as archive:
        return dict(archive)


def without(name):
    return {key: value for key, value in arrays().items() if key != name}


def nan(name):
    value = arrays()[name].copy()
    value.flat[-1] = np.nan
    return arrays() | {name: value}


WRONG = {
    "format": (lambda: arrays() | {"format": np.int64(2)}, "has the format 2. This version reads"),
    "metric": (lambda: arrays() | {"metric": np.str_("manhattan")}, "has the metric 'manhattan'"),
    "no prices": (lambda: without("prices"), "holds no prices"),
    "short prices": (lambda: arrays() | {"prices": np.zeros(2)}, "prices holds float64 of shape"),
    "whole prices": (lambda: arrays() | {"prices": np.zeros(3, int)}, "prices holds int64 of"),
    "one center": (lambda: arrays() | {"centers": np.zeros(5)}, "centers has the shape (5,)"),
    "no center": (lambda: arrays() | {"centers": np.zeros((0, 5))}, "centers has the shape (0, 5)"),
    "NaN": (lambda: nan("centers"), "centers holds NaN or infinity"),
    "NaN price": (lambda: nan("prices"), "prices holds NaN or infinity"),
    "long": (lambda: arrays() | {"centers": 2 * arrays()["centers"]}, "a center of length 2"),
    "sizes": (lambda: arrays() | {"counts": np.asarray([2, 2, 2])}, "sizes that do not fit"),
    "caps": (lambda: arrays() | {"upper": np.asarray([2, 1, 3])}, "sizes that do not fit"),
    "bounds": (lambda: arrays() | {"lower": np.asarray([3, 0, 1])}, "sizes that do not fit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(path, name) -> None:
    make, words = WRONG[name]
    with path.open("wb") as file:
        np.savez(file, **make())
    with pytest.raises(InvalidValueError) as error:
        read_model(path)
    assert words in str(error.value)
    assert "To fix this, " in str(error.value)


def test_packed_pickled_and_huge_entries_are_refused(path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays())
    with pytest.raises(InvalidValueError, match="is packed"):
        read_model(path)
    with path.open("wb") as file:
        np.savez(file, **(arrays() | {"metric": np.asarray({"a": 1}, dtype=object)}))
    with pytest.raises(InvalidValueError, match="metric"):
        read_model(path)
    header = io.BytesIO()
    huge = {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
    np.lib.format.write_array_header_1_0(header, huge)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("centers.npy", header.getvalue())
    with pytest.raises(InvalidValueError, match="bytes under a header for 800000000000"):
        read_model(path)


def test_damage_is_an_error_and_never_a_model_of_other_numbers(path) -> None:
    whole, want = path.read_bytes(), read_model(path)
    noticed = 0
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0x24
        path.write_bytes(damaged)
        try:
            found = read_model(path)
        except DualclustError:
            noticed += 1
            continue
        for ours, theirs in zip(found, want, strict=True):
            assert np.array_equal(ours, theirs)  # a byte that nothing depends on
    assert noticed > 0.5 * len(whole) / 5
    for end in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(DualclustError):
            read_model(path)


@pytest.mark.parametrize("content", [b"1,2\n", b"\x80\x04K\x01.", b"\x89PNG\r\n\x1a\n" + bytes(99)])
def test_another_file_is_named_for_what_it_is(path, content) -> None:
    path.write_bytes(content)
    with pytest.raises(InvalidValueError, match=r"model.npz is .*\. A model is the file"):
        read_model(path)
