"""Samples read ahead are the samples; errors come through; no thread stays behind."""

import threading
import time

import numpy as np
import pytest
import torch

from dualclust.train.data.samples import embedding_data, image_data
from dualclust.train.loop import Run, train
from dualclust.train.loop.prefetch import AHEAD, prefetch
from tests.train.runs import assert_same_run, tiny, write_images


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (50, 8, 8), dtype=np.uint8)


@pytest.fixture
def parts():
    return list(torch.randperm(50, generator=torch.Generator().manual_seed(0)).split(7))


def test_batches_are_those_of_resident_samples(images, parts, device):
    rows = images.reshape(50, -1).astype(np.float32)
    for make, array in ((image_data, images), (embedding_data, rows)):
        here, there = (make(array, resident=r, device=device) for r in ("always", "never"))
        with prefetch(here, parts) as resident, prefetch(there, parts) as read:
            pairs = list(zip(resident, read, strict=True))
        assert len(pairs) == len(parts)
        for ids, (a, b) in zip(parts, pairs, strict=True):
            assert a.device == b.device == device
            assert torch.equal(a, b)
            assert torch.equal(a, here.take(ids))


def test_no_parts_no_batches(images):
    with prefetch(image_data(images, resident="never"), []) as batches:
        assert list(batches) == []


class Watched:
    """Image data that says what was fetched, and fails where it is told to."""

    def __init__(self, data, fails_at=None):
        self.data, self.fails_at, self.fetched = data, fails_at, []
        self.mean, self.resident, self.finish = data.mean, data.resident, data.finish

    def fetch(self, ids):
        if len(self.fetched) == self.fails_at:
            msg = "the disk is gone"
            raise OSError(msg)
        self.fetched.append(ids.tolist())
        return self.data.fetch(ids)


def test_what_goes_wrong_is_raised_at_its_batch(images, parts, device):
    data = Watched(image_data(images, resident="never", device=device), fails_at=3)
    seen = []
    with pytest.raises(OSError, match="the disk is gone"), prefetch(data, parts) as batches:
        seen += batches
    with prefetch(data.data, parts[:3]) as batches:
        expected = list(batches)
    # A list that is extended by an iterator keeps what came before the error.
    assert len(seen) in (0, 3)
    assert all(torch.equal(a, b) for a, b in zip(seen, expected, strict=False))
    assert data.fetched == [ids.tolist() for ids in parts[:3]]


def test_leaving_early_ends_the_thread(images, parts, device):
    data = Watched(image_data(images, resident="never", device=device))
    with prefetch(data, parts) as batches:
        next(batches)
        while len(data.fetched) < AHEAD + 2:
            time.sleep(0.001)
    # One is taken, some wait, one is in hand: the rest was never read.
    assert len(data.fetched) == AHEAD + 2 < len(parts)


def test_an_error_in_the_block_ends_the_thread(images, parts):
    data = image_data(images, resident="never")
    with pytest.raises(KeyError, match="absent"), prefetch(data, parts) as batches:
        dict.fromkeys(range(len(next(batches))))["absent"]


def test_a_run_is_the_same_with_samples_read_ahead(tmp_path):
    source = write_images(tmp_path / "images.npz")
    for resident in ("always", "never"):
        train(tiny(source, f"data.resident={resident}"), tmp_path / resident)
        (tmp_path / resident / "config.toml").unlink()
    assert_same_run(tmp_path / "never", tmp_path / "always")


def test_an_error_in_the_step_leaves_no_thread(tmp_path, monkeypatch):
    source = write_images(tmp_path / "images.npz")
    run = Run(tiny(source, "data.resident=never"), "cpu")
    run.init()

    def fail(*_):
        msg = "in the step"
        raise ArithmeticError(msg)

    monkeypatch.setattr(run.execution, "train_step", fail)
    with pytest.raises(ArithmeticError, match="in the step"):
        run.run_epoch()


def embeddings(path, n=120):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10, 16))
    np.save(path, (centers[np.arange(n) % 10] + 0.1 * rng.normal(size=(n, 16))).astype(np.float32))
    np.save(path.with_name(f"{path.stem}_labels.npy"), np.arange(n) % 10)
    return path


PLAIN = [
    f"augment.{k}"
    for k in (
        "rotate=0",
        "translate=0",
        "scale=[1, 1]",
        "shear=0",
        "elastic=0",
        "contrast=0",
        "mask=0.2",
    )
]


def test_a_run_on_embeddings(tmp_path):
    source = embeddings(tmp_path / "rows.npy")
    config = tiny(source, "network.name=none", "data.standardize=true", *PLAIN)
    result = train(config, tmp_path / "run")
    # Nothing to draw a gallery of; the table has the classes.
    assert not (tmp_path / "run" / "gallery.png").exists()
    assert (tmp_path / "run" / "sizes.png").exists()
    lines = (tmp_path / "run" / "assignments.csv").read_text().splitlines()
    assert lines[0] == "id,cluster,margin,runner_up,nearest,class"
    assert len(lines) == 121
    assert "acc" in result.metrics[-1]


def test_a_run_on_a_folder_lists_its_files(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(64):
        pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02}.png")
    train(
        tiny(folder, "epochs=1", "optim.warmup_epochs=0", "heads.clusters=[10]"), tmp_path / "run"
    )
    lines = (tmp_path / "run" / "assignments.csv").read_text().splitlines()
    assert lines[0] == "id,cluster,margin,runner_up,nearest,file"
    assert [line.rpartition(",")[2] for line in lines[1:]] == [f"{i:02}.png" for i in range(64)]
