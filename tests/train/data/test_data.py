"""Images and their labels as training sees them, from the digits and from files of arrays."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import (
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    UsageError,
)
from dualclust.train.data.samples import image_data, load_source, normalize


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pixels(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


def save(tmp_path, **arrays):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def test_digits():
    from sklearn.datasets import load_digits

    data = load_source("digits")
    bunch = load_digits()
    assert data.images.shape == (1797, 1, 8, 8)
    assert data.images.dtype == torch.uint8
    assert int(data.images.max()) == 255
    assert np.abs(data.images[:, 0].numpy() - bunch.images * 255 / 16).max() <= 0.5
    assert np.array_equal(data.labels.numpy(), bunch.target)
    assert data.ids.tolist() == list(range(1797))
    assert data.class_names == tuple("0123456789")
    # A digit stands on empty paper.
    assert float(data.background[0]) == pytest.approx(-float(data.mean[0] / data.std[0]))


@pytest.mark.parametrize("shape", [(50, 9, 7), (50, 9, 7, 3), (50, 3, 9, 7), (50, 9, 7, 1)])
def test_normalized_data_have_mean_0_and_deviation_1(rng, shape):
    data = image_data(pixels(rng, *shape) // 3)
    views = normalize(data.images, data.mean, data.std)
    assert views.dtype == torch.float32
    assert views.shape == data.images.shape
    torch.testing.assert_close(
        views.mean((0, 2, 3)), torch.zeros(len(data.mean)), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        views.std((0, 2, 3), correction=0), torch.ones(len(data.mean)), atol=1e-5, rtol=0
    )


def test_a_constant_channel_does_not_divide_by_zero():
    data = image_data(np.full((4, 5, 5), 255, np.uint8))
    assert data.std.tolist() == [1.0]
    assert normalize(data.images, data.mean, data.std).abs().max() == 0


def test_background_is_the_median_of_the_frame(rng):
    images = pixels(rng, 30, 6, 6, 3)
    data = image_data(images)
    frame = np.ones((6, 6), bool)
    frame[1:-1, 1:-1] = False
    # Corners belong to two edges and count twice.
    for c in range(3):
        values = images[:, frame][:, :, c]
        corners = images[:, [0, 0, -1, -1], [0, -1, 0, -1], c]
        expected = np.quantile(np.hstack([values, corners]), 0.5, method="inverted_cdf")
        raw = (data.background[c] * data.std[c] + data.mean[c]) * 255
        assert float(raw) == pytest.approx(expected, abs=1e-3)


def test_layouts_agree(rng, tmp_path):
    images = pixels(rng, 5, 8, 6, 3)
    last = load_source(save(tmp_path, images=images)).images
    first = load_source(save(tmp_path, images=images.transpose(0, 3, 1, 2))).images
    assert torch.equal(last, first)
    assert torch.equal(last, torch.from_numpy(images).permute(0, 3, 1, 2))
    assert last.is_contiguous()


def test_labels_are_recoded_in_order(rng, tmp_path):
    path = save(tmp_path, images=pixels(rng, 4, 8, 8), labels=np.array([7, 3, 7, 9], np.uint8))
    data = load_source(path)
    assert data.labels.tolist() == [1, 0, 1, 2]
    assert data.labels.dtype == torch.int64
    assert data.class_names == ("3", "7", "9")


def test_class_names_and_string_labels(rng):
    images = pixels(rng, 3, 8, 8)
    assert image_data(images, [2, 0, 2], ["cat", "dog", "ship"]).class_names == ("cat", "ship")
    named = image_data(images, np.array(["b", "a", "b"]))
    assert (named.labels.tolist(), named.class_names) == ([1, 0, 1], ("a", "b"))
    assert image_data(images).labels is None
    assert image_data(images).class_names == ()


def test_minus_1_is_no_class(rng):
    images = pixels(rng, 4, 8, 8)
    data = image_data(images, [-1, 3, 1, -1])
    assert (data.labels.tolist(), data.class_names) == ([-1, 1, 0, -1], ("1", "3"))
    named = image_data(images, [-1, 2, 0, 2], ["cat", "dog", "ship"])
    assert (named.labels.tolist(), named.class_names) == ([-1, 1, 0, 1], ("cat", "ship"))


def test_a_class_has_one_number_in_all_splits(rng, tmp_path):
    path = save(
        tmp_path,
        train_images=pixels(rng, 3, 8, 8),
        train_labels=[5, 2, 9],
        test_images=pixels(rng, 2, 8, 8),
        test_labels=[9, 5],
    )
    train, test = (load_source(path, split=split) for split in ("train", "test"))
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 2], [2, 1])
    assert train.class_names == test.class_names == ("2", "5", "9")


def test_splits_must_be_alike(rng, tmp_path):
    path = save(tmp_path, train_images=pixels(rng, 3, 8, 8), test_images=pixels(rng, 2, 9, 8))
    with pytest.raises(InvalidValueError, match=r"images of the splits must be alike, got uint8"):
        load_source(path, split="all")


def test_statistics_of_many_images_are_those_of_all(rng):
    """In two chunks."""
    images = pixels(rng, 9_000, 2, 2, 3)
    found = image_data(images)
    torch.testing.assert_close(found.mean.double(), torch.from_numpy(images / 255).mean((0, 1, 2)))
    deviation = torch.from_numpy((images / 255).std((0, 1, 2)))
    torch.testing.assert_close(found.std.double(), deviation, rtol=1e-5, atol=0)


def test_splits(rng, tmp_path):
    train, test = pixels(rng, 6, 8, 8), pixels(rng, 4, 8, 8)
    path = save(
        tmp_path,
        train_images=train,
        train_labels=np.arange(6) % 2,
        test_images=test,
        test_labels=np.arange(4) % 2,
    )
    whole = load_source(path, split="all")
    assert np.array_equal(load_source(path).images[:, 0], train)
    assert np.array_equal(load_source(path, split="test").images[:, 0], test)
    assert np.array_equal(whole.images[:, 0], np.concatenate([train, test]))
    assert whole.labels.shape == (10,)
    assert whole.ids.tolist() == list(range(10))


def test_a_missing_split_is_named(rng, tmp_path):
    path = save(tmp_path, train_images=pixels(rng, 6, 8, 8))
    assert load_source(path).labels is None
    with pytest.raises(UsageError, match=r"has no split 'test'; it has train"):
        load_source(path, split="test")
    with pytest.raises(UsageError, match="'digits' is not split into train and test"):
        load_source("digits", split="test")
    with pytest.raises(UsageError, match=r"split must be one of 'auto', 'train', .*, got 'val'"):
        load_source("digits", split="val")


def test_moving_keeps_everything():
    data = load_source("digits")
    moved = data.to("cpu")
    assert moved.class_names == data.class_names
    assert all(torch.equal(a, b) for a, b in zip(moved, data, strict=True) if torch.is_tensor(a))


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (np.zeros((2, 8, 8)), InvalidTypeError, r"images must be uint8 .* got float64"),
        (np.zeros((8, 8), np.uint8), InvalidValueError, r"images must have shape .* got \(8, 8\)"),
        (np.zeros((0, 8, 8), np.uint8), InvalidValueError, r"got \(0, 8, 8\)"),
        (np.zeros((2, 3, 8, 3), np.uint8), InvalidValueError, "both ends fit"),
        (np.zeros((2, 8, 8, 4), np.uint8), InvalidValueError, "neither end fits"),
    ],
)
def test_wrong_images_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        image_data(images)


@pytest.mark.parametrize(
    ("labels", "names", "error", "message"),
    [
        ([0.0, 1.0], None, InvalidTypeError, "labels must be integers or strings, got float64"),
        ([0, 1, 2], None, InvalidValueError, r"labels must have shape \(2,\).* got \(3,\)"),
        ([0, 2], ["a", "b"], InvalidValueError, "labels must index the 2 class_names"),
        ([-2, 0], ["a", "b"], InvalidValueError, "labels must index the 2 class_names"),
    ],
)
def test_wrong_labels_are_refused(labels, names, error, message):
    with pytest.raises(error, match=message):
        image_data(np.zeros((2, 8, 8), np.uint8), labels, names)


def test_unsupported_sources_are_named(tmp_path):
    with pytest.raises(
        MissingFileError,
        match=r"no data at 'digit'\. To fix this, name one of these sources: 'digits'",
    ):
        load_source("digit")
    with pytest.raises(
        UsageError, match=r"holds no image\. To fix: name a folder with files of \.avif, \.bmp"
    ):
        load_source(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"Python version .*To fix.* cifar-10-batches-bin"):
        load_source(tmp_path)
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(
        UsageError, match=r"cannot read .*a\.png, which is of another kind\. To fix this, name"
    ):
        load_source(tmp_path / "a.png")
    with pytest.raises(InvalidValueError, match=r":x has the shape \(3,\)"):
        load_source(save(tmp_path, x=np.zeros(3)))


def test_damaged_files_are_refused(tmp_path, rng):
    path = save(tmp_path, images=pixels(rng, 6, 8, 8))
    content = path.read_bytes()
    for broken in (b"", content[:40], content[: len(content) // 2], b"\x80\x04junk"):
        path.write_bytes(broken)
        with pytest.raises(InvalidValueError, match=r"cannot be unpacked|damaged|cut off"):
            load_source(path)


def test_a_bare_array_is_not_an_archive(tmp_path):
    with (tmp_path / "data.npz").open("wb") as file:
        np.save(file, np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(InvalidValueError, match=r"rename it to data\.npy"):
        load_source(tmp_path / "data.npz")


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickled_object_is_not_run(tmp_path):
    canary = tmp_path / "canary"
    path = tmp_path / "data.npz"
    np.savez(path, images=np.array([Bomb(str(canary))], dtype=object))
    with pytest.raises(InvalidTypeError, match="holds Python objects"):
        load_source(path)
    assert not canary.exists()
    # The canary can fly: the same file does run its payload when it is trusted.
    with np.load(path, allow_pickle=True) as archive:
        archive["images"][0].close()
    assert canary.exists()
