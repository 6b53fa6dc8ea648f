"""A look at data says what it holds, decodes nothing and passes over what is bad."""

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError, MissingFileError
from dualclust.train.data import look
from dualclust.train.data.look import Look, look_at
from tests.train.pictures import encoded, picture, write_folder

Image = pytest.importorskip("PIL.Image")


def test_a_folder(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "p", 24)
    expected = Look("files", 24, 3, 42, 32, varied=True, folders=4)
    assert look_at(folder) == expected
    assert look_at(folder, folders="classes") == expected._replace(classes=True)
    (folder / "class0" / "000.jpeg").write_bytes(b"bad")
    assert look_at(folder)[:3] == ("files", 24, 3)
    opened, head = [], look.head_of

    def watch(file):
        opened.append(file.name)
        return head(file)

    monkeypatch.setattr(look, "head_of", watch)
    monkeypatch.setattr(look, "LOOKED_AT", 5)
    assert look_at(folder).n == 24
    assert len(opened) == 5
    assert opened[-1].startswith("class3")
    for path in folder.rglob("*.jpeg"):
        path.write_bytes(b"bad")
    with pytest.raises(InvalidValueError, match="none of 5 pictures can be opened; the last one"):
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
