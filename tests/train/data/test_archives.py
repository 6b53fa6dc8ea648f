"""Archives of which a part is missing, or that are not what their names say."""

import gzip
import struct

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.train.data.archives import FOLDERS, archive_reader
from dualclust.train.data.splits import File, Reading, Split

FINE = Reading()


def test_settings_of_a_reader_by_default():
    assert FINE[:4] == ("fine", 0, False, "crop")
    split = Split(list)
    assert (split.labels, split.names, split.files) == (None, None, None)


def test_a_file_is_read_from_its_path_or_from_memory(tmp_path):
    (tmp_path / "a").write_bytes(b"123")
    assert File("a", str(tmp_path / "a")).read() == b"123"
    found = File("a", memoryview(b"0123")[1:3]).read()
    assert found == b"12"
    assert type(found) is bytes


def cifar(path, labels, n=3):
    """Write records whose first bytes are `labels` and whose pixels are all different."""
    records = np.arange(n * 3072).reshape(n, 3072) % 251
    heads = np.tile(labels, (n, 1)) + np.arange(n)[:, None]
    np.hstack([heads, records]).astype(np.uint8).tofile(path)
    return records.reshape(n, 3, 32, 32)


def test_an_archive_is_found_in_the_folder_that_it_unpacks_to(tmp_path):
    assert archive_reader(tmp_path) is None
    assert FOLDERS[1] == "cifar-100-binary"
    inner = tmp_path / FOLDERS[1]
    inner.mkdir()
    pixels = cifar(inner / "train.bin", [3, 50])
    assert archive_reader(tmp_path) is None  # half of one
    cifar(inner / "test.bin", [4, 60], n=2)
    (inner / "coarse_label_names.txt").write_text("a\nb\n")
    for classes, first, names in (("fine", 50, None), ("coarse", 3, ("a", "b"))):
        found = archive_reader(tmp_path)(Reading(classes=classes))
        assert found.class_names == names
        assert list(found.splits) == ["train", "test"]
        assert found.splits["train"].labels.tolist() == [first, first + 1, first + 2]
        assert found.splits["train"].labels.dtype == np.int64
        assert np.array_equal(found.splits["train"].read(), pixels)
        assert found.splits["test"].read().shape == (2, 3, 32, 32)


def test_cifar10_without_images_to_test_on(tmp_path):
    parts = [cifar(tmp_path / f"data_batch_{i}.bin", [i], n=i) for i in (1, 2)]
    found = archive_reader(tmp_path)(FINE)
    assert list(found.splits) == ["train"]
    assert found.class_names is None
    assert found.splits["train"].labels.tolist() == [1, 2, 3]
    assert np.array_equal(found.splits["train"].read(), np.concatenate(parts))
    (tmp_path / "data_batch_2.bin").write_bytes(b"")
    with pytest.raises(InvalidValueError, match="0 bytes are no whole number of records of 3073"):
        archive_reader(tmp_path)(FINE)


def test_stl10_without_labels(tmp_path):
    pixels = (np.arange(2 * 3 * 96 * 96) % 251).astype(np.uint8).reshape(2, 3, 96, 96)
    pixels.tofile(tmp_path / "train_X.bin")
    found = archive_reader(tmp_path)(FINE)
    assert list(found.splits) == ["train"]
    assert found.splits["train"].labels.tolist() == [-1, -1]
    assert found.splits["train"].labels.dtype == np.int64
    assert np.array_equal(found.splits["train"].read(), pixels.swapaxes(2, 3))
    with pytest.raises(UsageError, match="is for CIFAR-100, and the source is STL-10"):
        archive_reader(tmp_path)(Reading(classes="coarse"))


def idx(shape, *, kind=8, axes=None):
    head = struct.pack(f">4B{len(shape)}I", 0, 0, kind, axes or len(shape), *shape)
    return head + bytes(range(int(np.prod(shape))))


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("point", ["-", "."])
def test_mnist_by_either_of_its_names_without_labels(tmp_path, point, end):
    content = idx((2, 3, 4))
    path = tmp_path / f"train-images{point}idx3-ubyte{end}"
    path.write_bytes(gzip.compress(content) if end else content)
    found = archive_reader(tmp_path)(FINE)
    assert list(found.splits) == ["train"]
    assert found.splits["train"].labels is None
    assert np.array_equal(found.splits["train"].read(), np.arange(24).reshape(2, 3, 4))
    with pytest.raises(UsageError, match="is for CIFAR-100, and the source is MNIST"):
        archive_reader(tmp_path)(Reading(classes="coarse"))


@pytest.mark.parametrize(
    "content",
    [
        idx((2, 3, 4), kind=9),
        idx((2, 3, 4), axes=2),
        idx((2, 3, 4)) + b"x",
        idx((2, 3, 4))[:-1],
        idx((2, 3, 4))[:10],
        b"",
    ],
    ids=["no bytes", "two axes", "more", "less", "half a head", "empty"],
)
def test_what_is_no_idx_file_is_named(tmp_path, content):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx((2,)))
    found = archive_reader(tmp_path)(FINE)
    assert found.splits["train"].labels.tolist() == [0, 1]
    with pytest.raises(InvalidValueError, match=r"cannot read .*train-images-idx3-ubyte"):
        found.splits["train"].read()


def test_a_head_that_promises_a_disk_is_not_believed(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 1000, 1000, 1000))
    found = archive_reader(tmp_path)(FINE)
    with pytest.raises(InvalidValueError, match="it promises 1000000000 bytes in a file of 16"):
        found.splits["train"].read()


def test_names_of_classes_are_no_film(tmp_path):
    cifar(tmp_path / "data_batch_1.bin", [1])
    names = tmp_path / "batches.meta.txt"
    names.write_text("a b")
    assert archive_reader(tmp_path)(FINE).class_names == ("a", "b")
    with names.open("r+b") as file:
        file.truncate(2**24 + 1)
    with pytest.raises(InvalidValueError, match="16777217 bytes are no list of names"):
        archive_reader(tmp_path)(FINE)
