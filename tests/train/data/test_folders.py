"""Folders as strangers keep them: what is found, what is left alone, what is left out."""

import os

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.train.data.samples import load_source
from tests.train.data.test_data_sources import picture, rng, write

__all__ = ["rng"]  # the fixture


def test_links_hidden_files_and_circles(rng, tmp_path):
    home = tmp_path / "photos"
    write(home / "a" / "1.png", picture(rng))
    write(tmp_path / "elsewhere" / "2.png", picture(rng))
    for name in (".git/3.png", "__MACOSX/4.png", "a/._1.png", "a/.thumbs/5.png"):
        write(home / name, picture(rng))
    links = {"0": "a", "circle": ".", "a/up": "..", "far": "../elsewhere", "6.png": "a/1.png"}
    for name, target in links.items():
        (home / name).symlink_to(target)
    (home / "notes.txt").write_text("text")
    os.mkfifo(home / "pipe.png")
    assert load_source(home).names == ("6.png", "a/1.png", "far/2.png")
    (home / "gone.png").symlink_to("nowhere.png")
    data = load_source(home)
    assert (data.names, data.ids.tolist()) == (("6.png", "a/1.png", "far/2.png"), [0, 1, 2])
    ((name, reason),) = data.skipped
    assert name == "gone.png"
    assert "No such file" in reason


@pytest.mark.parametrize("names", [("test",), ("val",), ("train", "more")])
def test_folders_that_are_no_splits_are_names_like_any_others(rng, tmp_path, names):
    for name in names:
        write(tmp_path / name / "1.png", picture(rng))
    found = load_source(tmp_path, folders="classes")
    assert found.names == tuple(f"{name}/1.png" for name in sorted(names))
    assert found.class_names == tuple(sorted(names))


def test_pictures_have_one_set_of_classes(rng, tmp_path):
    write(tmp_path / "1.png", picture(rng))
    content = np.frombuffer((tmp_path / "1.png").read_bytes(), np.uint8)
    np.savez(tmp_path / "x.npz", train_jpeg=content, train_offsets=[0, len(content)])
    for source, what in ((tmp_path, "is image files"), (tmp_path / "x.npz", "CIFAR-100, got ")):
        with pytest.raises(UsageError, match=f"classes='coarse' is for .*{what}"):
            load_source(source, classes="coarse")


def test_a_folder_that_cannot_be_opened_is_told(rng, tmp_path, monkeypatch):
    write(tmp_path / "a" / "1.png", picture(rng))
    write(tmp_path / "b" / "2.png", picture(rng))
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert load_source(tmp_path).skipped == (("b/", "cannot open the folder: Permission denied"),)
    with pytest.raises(InvalidValueError, match=r"b/: cannot open the folder"):
        load_source(tmp_path, bad="stop")


@pytest.mark.parametrize("decode", ["once", "views", "copies"])
def test_bad_files_are_left_out_and_told(rng, tmp_path, monkeypatch, decode):
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "photos"
    for i in range(6):
        write(home / f"{'xy'[i % 2]}" / f"{i}.png", picture(rng, 40, 40))
    clean = load_source(home, size=8, decode=decode, folders="classes")
    short = (home / "y" / "1.png").read_bytes()[:200]
    (home / "y" / "1.png").write_bytes(short)
    (home / "x" / "2.png").write_bytes(b"no picture")
    options = {"size": 8, "decode": decode, "folders": "classes"}
    data = load_source(home, **options)
    assert [skipped.name for skipped in data.skipped] == ["x/2.png", "y/1.png"]
    assert "not a kind of picture" in data.skipped[0].reason
    # What is left keeps its place in the folder, its class and its pixels.
    assert data.ids.tolist() == [0, 2, 4, 5]
    assert data.names == ("x/0.png", "x/4.png", "y/3.png", "y/5.png")
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert torch.equal(data.images[:], clean.images[[0, 2, 4, 5]])
    assert load_source(home, **options, limit=2).skipped == data.skipped
    with pytest.raises(InvalidValueError, match=r"cannot decode x/2\.png"):
        load_source(home, **options, bad="stop").images[:]
    for name in data.names:
        (home / name).write_bytes(b"")
    with pytest.raises(InvalidValueError, match="none of 6 pictures can be read; the first one"):
        load_source(home, **options)
