"""A look at data says what it holds, decodes nothing and passes over what is bad."""

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError, MissingFileError
from dualclust.train.data.look import LOOKED_AT, Look, look_at
from tests.train.pictures import encoded, picture, write_folder

Image = pytest.importorskip("PIL.Image")


def test_a_folder(tmp_path):
    folder = write_folder(tmp_path / "p", 24)
    expected = Look("files", 24, 3, 42, 32, varied=True, folders=4)
    assert look_at(folder) == expected
    assert look_at(folder, folders="classes") == expected._replace(classes=True)
    (folder / "class0" / "000.jpeg").write_bytes(b"bad")
    assert look_at(folder)[:3] == ("files", 24, 3)
    for path in folder.rglob("*.jpeg"):
        path.write_bytes(b"bad")
    with pytest.raises(InvalidValueError, match="none of 24 pictures can be opened; the last one"):
        look_at(folder)


def test_gray_files_and_files_of_one_size(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(encoded(picture(20, 30, channels=1), "PNG"))
    assert look_at(tmp_path) == Look("files", 3, 1, 30, 20)


def test_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((9, 8, 10), np.uint8), labels=np.arange(9))
    assert look_at(tmp_path / "a.npz") == Look("images", 9, 1, 10, 8, classes=True)
    half = {"train_images": np.zeros((3, 8, 8), np.uint8), "train_labels": np.arange(3)}
    np.savez(tmp_path / "b.npz", **half, test_images=np.zeros((2, 8, 8), np.uint8))
    assert look_at(tmp_path / "b.npz") == Look("images", 3, 1, 8, 8, classes=True)
    assert look_at(tmp_path / "b.npz", split="all") == Look("images", 5, 1, 8, 8)
    np.save(tmp_path / "x.npy", np.ones((7, 5), np.float32))
    assert look_at(tmp_path / "x.npy") == Look("embeddings", 7, dim=5)
    assert look_at("digits") == Look("images", 1797, 1, 8, 8, classes=True)
    with pytest.raises(MissingFileError):
        look_at(tmp_path / "gone")


def test_a_look_in_words():
    look = Look("files", 12_345, 1, 30, 20, folders=2)
    assert look.describe() == "12,345 pictures in gray, 30 × 20 pixels, in 2 sub-folders"
    varied = look._replace(channels=3, varied=True, folders=0)
    assert varied.describe() == "12,345 pictures in color, 30 × 20 pixels (median)"
    assert (
        look._replace(kind="images", folders=0).describe()
        == "12,345 images in gray, 30 × 20 pixels"
    )
    assert Look("embeddings", 5000, dim=1024).describe() == "5,000 embeddings of 1,024 numbers"
    assert (look.side, look._replace(width=7).side) == (20, 7)


def test_sizes_are_medians_and_folders_those_of_the_first_level(tmp_path):
    sizes = [(20, 10), (20, 30), (40, 50), (60, 12)]  # height and width
    for i, (height, width) in enumerate(sizes):
        place = tmp_path / "a" / "deep" if i == 1 else tmp_path / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.png").write_bytes(
            encoded(picture(height, width, channels=1 + 2 * (i > 2)), "PNG")
        )
    (tmp_path / "4.png").write_bytes(encoded(picture(20, 30), "PNG"))
    assert look_at(tmp_path) == Look("files", 5, 3, 30, 20, varied=True, folders=2)


@pytest.mark.parametrize("rows", [np.ones(5), np.ones((2, 3, 4))])
def test_rows_that_are_no_embeddings(tmp_path, rows):
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(InvalidValueError):
        look_at(tmp_path / "x.npy")


def test_heads_are_read_evenly_over_all_files(tmp_path):
    """Of twice as many as are looked at, every second one: the others are never opened."""
    seen, other = (encoded(picture(*size), "PNG") for size in ((4, 5), (9, 9)))
    for i in range(2 * LOOKED_AT):
        (tmp_path / f"{i:04d}.png").write_bytes(other if i % 2 else seen)
    assert look_at(tmp_path) == Look("files", 2 * LOOKED_AT, 3, 5, 4)
    (tmp_path / "0000.png").unlink()  # now the others, and the last of these
    assert look_at(tmp_path).varied
