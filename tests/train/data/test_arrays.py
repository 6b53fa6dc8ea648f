"""Arrays of samples: where a wrong row lies, which numbers a background and a class have."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.train.data.arrays import (
    CHUNK,
    channels_first,
    check_rows,
    image_statistics,
    join,
    recode,
    row_statistics,
)
from dualclust.train.data.in_memory import _digest
from dualclust.train.data.samples import embedding_data, image_data


@pytest.mark.parametrize("row", [0, CHUNK - 1, CHUNK, CHUNK + 2])
def test_a_row_that_is_not_finite_is_named_by_its_place_among_all(row):
    rows = np.zeros((CHUNK + 3, 3), np.float32)
    check_rows(rows)
    rows[row, 2] = rows[-1, 0] = np.inf
    with pytest.raises(InvalidValueError, match=f"row {row} holds NaN or infinity"):
        check_rows(rows)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 3, 1)])
def test_rows_of_no_numbers_are_refused(shape):
    with pytest.raises(InvalidValueError, match=r"shape \(n, d\), got \("):
        check_rows(np.zeros(shape, np.float32))
    with pytest.raises(InvalidTypeError, match="got complex128"):
        check_rows(np.zeros((2, 2), complex))


def test_statistics_of_rows_are_those_of_all_chunks(rng):
    rows = rng.normal(2, 3, size=(2 * CHUNK + 3, 3)).astype(np.float32)
    rows[:, 1] = 5.0
    mean, std = row_statistics(torch.from_numpy(rows))
    assert (mean.dtype, std.dtype) == (torch.float32, torch.float32)
    wide = rows.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(std, [wide[:, 0].std(), 1.0, wide[:, 2].std()], rtol=1e-6)


def test_a_background_is_the_lower_of_two_middle_values():
    """Of 2 by 2 pixels each counts twice, so that the frame has 10, 10, 20, 20, 30, 30, 40, 40."""
    pixels = torch.tensor([[[[10, 20], [30, 40]]]], dtype=torch.uint8)
    mean, std, background = image_statistics(pixels)
    assert float(mean) == pytest.approx(25 / 255)
    assert float(background * std + mean) * 255 == pytest.approx(20, abs=1e-4)
    lower = torch.tensor([[[[10, 10], [10, 40]]]], dtype=torch.uint8)
    mean, std, background = image_statistics(lower)
    assert float(background * std + mean) * 255 == pytest.approx(10, abs=1e-4)


def test_splits_are_joined_where_they_are_alike():
    a, b = np.zeros((2, 3)), np.ones((4, 3))
    assert join([a], "rows") is a
    assert join([a, b], "rows").tolist() == [[0.0] * 3] * 2 + [[1.0] * 3] * 4
    words, more = np.array(["a", "long"]), np.array(["b"])
    assert join([words, more], "labels").tolist() == ["a", "long", "b"]
    for wrong in ([a, b, np.zeros((1, 4))], [words, np.array([1])], [np.array([1]), words]):
        with pytest.raises(InvalidValueError, match=r"labels of the splits must be alike, got "):
            join(wrong, "labels")


@pytest.mark.parametrize(
    ("shape", "first"),
    [((2, 3, 5, 4), True), ((2, 1, 5, 4), True), ((2, 5, 4, 3), False), ((2, 5, 4, 1), False)],
)
def test_the_axis_of_colors_is_the_one_that_is_short(shape, first):
    images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    expected = images if first else np.moveaxis(images, 3, 1)
    assert np.array_equal(channels_first(images), expected)
    for wrong in ((2, 2, 5, 4), (2, 3, 5, 3), (2, 1, 5, 3), (2, 0, 5), (2, 5), (1, 2, 3, 4, 3)):
        with pytest.raises(InvalidValueError, match="images"):
            channels_first(np.zeros(wrong, np.uint8))


def test_classes_are_numbered_by_all_splits():
    every = np.array([7, -1, 3, 9])
    codes, names = recode(np.array([9, -1, 7], np.int16), 3, None, every)
    assert (codes.tolist(), names) == ([2, -1, 1], ("3", "7", "9"))
    codes, names = recode(np.array(["b", "d"]), 2, None, np.array(["d", "c", "b"]))
    assert (codes.tolist(), codes.dtype, names) == ([0, 2], torch.int64, ("b", "c", "d"))
    codes, names = recode(np.array([2, 0]), 2, ["x", "y", "z"], np.array([0, 2]))
    assert (codes.tolist(), names) == ([1, 0], ("x", "z"))
    codes, names = recode(np.array([-1, -1]), 2, ["x"])
    assert (codes.tolist(), names) == ([-1, -1], ("x",))
    for labels in ([0, 3], [-2, 0]):
        with pytest.raises(InvalidValueError, match="must index the 3 class_names"):
            recode(np.array(labels), 2, ["x", "y", "z"])
    for wrong in ([[0, 1]], [0]):
        with pytest.raises(InvalidValueError, match=r"labels must have shape \(2,\)"):
            recode(np.array(wrong), 2, None)


def test_no_class_in_unsigned_numbers_is_no_class():
    """-1 in 64 bits without a sign is what a cast has made of it."""
    labels = np.array([2**64 - 1, 5, 7], np.uint64)
    for every in (None, labels):
        codes, names = recode(labels, 3, None, every)
        assert (codes.tolist(), names) == ([-1, 0, 1], ("5", "7"))


def test_a_digest_changes_with_every_sample_of_a_small_set(rng):
    rows = rng.normal(size=(20, 3)).astype(np.float32)
    found = {embedding_data(rows).digest()}
    for i in range(20):
        other = rows.copy()
        other[i, i % 3] += 1.0
        found.add(embedding_data(other).digest())
    found.add(embedding_data(rows[:19]).digest())
    assert len(found) == 22
    pixels = rng.integers(0, 256, size=(3, 2, 8), dtype=np.uint8)
    shapes = (pixels, pixels.reshape(3, 4, 4), pixels.reshape(2, 3, 8))
    assert len({image_data(images).digest() for images in shapes}) == 3


def test_of_a_large_set_every_few_samples_say_which_it_is():
    rows = torch.zeros(3 * 4096, 1)
    found = {_digest(rows)}
    for i, told in ((0, True), (1, False), (2, False), (3, True), (3 * 4095, True)):
        other = rows.clone()
        other[i] = 1.0
        assert (_digest(other) not in found) == told, i
    # As many samples are looked at, of other sets.
    assert len({_digest(torch.zeros(n * 4096, 1)) for n in (1, 2, 3)}) == 3
    assert _digest(torch.zeros(8191, 1)) != _digest(torch.ones(8191, 1))
