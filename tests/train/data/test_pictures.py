"""Pictures in their files: the same views for any threads and ranks, in bounded memory."""

import gc
import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.common.cores import cpu_count
from dualclust.common.ranks import Ranks
from dualclust.train.augment.crops import NUMBERS, random_cut
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data import pictures
from dualclust.train.data.pictures import PictureData
from dualclust.train.data.samples import ImageData, load_source, normalize
from dualclust.train.loop.execution import Execution
from dualclust.train.loop.loader import Loader
from dualclust.train.loop.prefetch import AHEAD
from dualclust.train.state.seeding import generator
from tests.train.data.test_picture_files import resized
from tests.train.pictures import encoded, picture, write_folder

Image = pytest.importorskip("PIL.Image")

CROPS = ("data.size=8", "data.folders=classes", "augment.crop=[0.2, 1.0]", "augment.flip=true")


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # one that an interrupt found at work ends in its own time
    assert set(threading.enumerate()) <= before


@pytest.fixture(params=["JPEG", "PNG"])
def folder(request, tmp_path):
    return write_folder(tmp_path / "pictures", kind=request.param)


def settings(folder, *changes):
    return override(RunConfig(), [f"data.source={folder}", "batch_size=10", *CROPS, *changes])


def load(config, rank=0, world=1):
    return Loader(config, Ranks(rank, world), Execution(config.execution, torch.device("cpu")))


def views(config, rank=0, world=1, *, epoch=0, names=("first", "second", "plain")):
    loader = load(config, rank, world)
    return [found for _, found in loader.views(loader.batches(epoch), epoch, names)]


def same_views(a, b):
    return len(a) == len(b) and all(
        len(x) == len(y) and all(map(torch.equal, x, y)) for x, y in zip(a, b, strict=True)
    )


def test_a_folder_with_crops_stays_in_its_files(folder):
    data = load(settings(folder)).data
    assert isinstance(data, PictureData)
    assert data.resident is False
    assert data.shape == (3, 8, 8)
    assert data.labels.tolist() == [i // 6 for i in range(24)]
    assert [name.partition(".")[0] for name in data.names[:2]] == ["class0/000", "class0/004"]
    assert data.class_names == ("class0", "class1", "class2", "class3")
    assert isinstance(load(settings(folder, "data.decode=once")).data, ImageData)
    assert isinstance(load(settings(folder, "augment.crop=[1, 1]")).data, ImageData)
    asked = settings(folder, "augment.crop=[1, 1]", "data.decode=views")
    assert isinstance(load(asked).data, PictureData)


def test_what_is_no_folder_of_pictures_is_kept(tmp_path, folder):
    np.savez(tmp_path / "a.npz", images=np.zeros((2000, 8, 8), np.uint8))
    assert isinstance(load(settings(tmp_path / "a.npz")).data, ImageData)
    with pytest.raises(UsageError, match=r"a\.npz holds no picture files\. To fix: set data\.size"):
        load(settings(tmp_path / "a.npz", "data.decode=views"))
    with pytest.raises(UsageError, match=r"decode='views' .* and data\.size is 0"):
        load(settings(folder, "data.size=0", "data.decode=views"))


@pytest.mark.parametrize("fit", ["crop", "squash", "imagenet"])
def test_plain_pictures_are_those_kept_in_memory(folder, fit):
    options = {"size": 8, "fit": fit, "folders": "classes"}
    here = load_source(folder, **options)
    there = load_source(folder, decode="views", **options)
    assert isinstance(here, ImageData)
    assert isinstance(there, PictureData)
    ids = torch.tensor([3, 23, 0, 3])
    assert torch.equal(here.fetch(ids), there.fetch(ids))
    # Statistics are those of all pictures where there are few of them.
    assert torch.equal(here.take(ids), there.take(ids))
    for name in ("mean", "std", "background", "labels", "ids"):
        assert torch.equal(getattr(here, name), getattr(there, name))
    assert here.names == there.names
    images = there.images
    assert (images.shape, len(images), images.dtype) == ((24, 3, 8, 8), 24, torch.uint8)
    assert torch.equal(images[[3, 23]], here.images[[3, 23]])
    assert torch.equal(images[:2], here.images[:2])


def test_statistics_are_of_pictures_spread_over_all(folder, monkeypatch):
    monkeypatch.setattr(pictures, "STATISTICS", 5)
    found = load_source(folder, size=8, decode="views")
    some = load_source(folder, size=8).images[[0, 4, 9, 14, 19]].double() / 255
    axes = (0, 2, 3)
    torch.testing.assert_close(found.mean.double(), some.mean(axes), rtol=1e-6, atol=0)
    deviation = some.std(axes, correction=0)
    torch.testing.assert_close(found.std.double(), deviation, rtol=1e-6, atol=0)


def test_squashed_pictures_show_all_of_themselves(tmp_path):
    pixels = np.zeros((30, 60, 3), np.uint8)
    pixels[:, :8] = 255  # beyond the middle square
    (tmp_path / "a.png").write_bytes(encoded(pixels, "PNG"))
    (tmp_path / "b.png").write_bytes(encoded(pixels, "PNG"))
    kept = {
        fit: load_source(tmp_path, size=15, fit=fit).images[0, 0].float().mean(0).tolist()
        for fit in ("crop", "squash", "imagenet")
    }
    assert kept["squash"][0] == 255
    assert 0 < kept["squash"][1] < 255
    assert kept["squash"][3:] == [0] * 12
    assert kept["crop"] == kept["imagenet"] == [0] * 15


def test_views_are_the_boxes_of_the_whole_picture(folder):
    """Each view, by Pillow alone, from the uniform numbers of its stream."""
    config = settings(folder, "augment.flip=false", "seed=5")
    loader = load(config)
    drawn = loader.views(loader.batches(2), 2, ("first", "second"))
    for i, (ids, (first, second)) in enumerate(drawn):
        for v, found in enumerate((first, second)):
            draws = generator(5, "crop", 2, i, v)
            numbers = torch.rand(len(ids), NUMBERS, generator=draws, dtype=torch.float64).tolist()
            for position, row, view in zip(ids.tolist(), numbers, found, strict=True):
                with Image.open(loader.data.files[position].content) as image:
                    cut = random_cut(
                        *image.size, row, size=8, crop=(0.2, 1.0), ratio=(3 / 4, 4 / 3)
                    )
                    expected = torch.from_numpy(resized(image.convert("RGB"), cut).copy())
                expected = normalize(expected.permute(2, 0, 1), loader.data.mean, loader.data.std)
                assert torch.equal(view, expected)


def test_workers_and_ranks_do_not_matter(folder):
    config = settings(folder, "small.size=5", "small.crop=[0.05, 0.6]", "augment.gray=0.5")
    names = ("first", "second", "small", "small", "plain")
    expected = views(config, names=names)
    assert [tuple(v.shape) for v in expected[0]] == [(8, 3, s, s) for s in (8, 8, 5, 5, 8)]
    for workers in (1, 4):
        data = replace(config.data, workers=workers)
        assert same_views(views(replace(config, data=data), names=names), expected)
    for world in (2, 3):
        ranks = [views(config, rank, world, names=names) for rank in range(world)]
        joined = [
            tuple(torch.cat([part[i][v] for part in ranks]) for v in range(len(names)))
            for i in range(len(expected))
        ]
        assert same_views(joined, expected)


def test_views_differ_by_epoch_seed_and_number(folder):
    config = settings(folder, "augment.flip=false")  # so that boxes alone differ
    first = views(config)
    for other in (views(config, epoch=1), views(replace(config, seed=1))):
        assert not same_views(first, other)
    assert all(not torch.equal(one, two) for one, two, _ in first)
    assert same_views(first, views(config))


def test_a_picture_that_comes_twice_in_an_epoch_is_drawn_twice(folder):
    loader = load(settings(folder))
    ids = torch.zeros(8, dtype=torch.int64)
    ((_, (found,)),) = loader.views([ids], 0, ("first",))
    assert len({view.numpy().tobytes() for view in found}) == 8
    assert torch.equal(found, loader.view(ids, 0, 0, 0))


class Count:
    """How many objects that it was shown are alive, and the most at any time."""

    def __init__(self):
        self.alive, self.most, self.total, self.lock = 0, 0, 0, threading.Lock()

    def show(self, thing):
        with self.lock:
            self.total += 1
            self.alive += 1
            self.most = max(self.most, self.alive)
        weakref.finalize(thing, self._gone)

    def _gone(self):
        with self.lock:
            self.alive -= 1


@pytest.mark.parametrize("workers", [1, 4])
def test_memory_is_bounded_and_each_picture_decoded_once(tmp_path, monkeypatch, workers):
    folder = write_folder(tmp_path / "pictures", 120)
    config = settings(folder, f"data.workers={workers}", "batch_size=6")
    loader = load(config)
    decoded, batches = Count(), Count()
    upright, cut = pictures.cut_picture.__globals__["upright"], PictureData.cut

    def watch(image, *, gray):
        picture = upright(image, gray=gray)
        decoded.show(picture)
        return picture

    def watch_batch(*arguments):
        found = cut(*arguments)
        batches.show(found[0])
        return found

    monkeypatch.setitem(pictures.cut_picture.__globals__, "upright", watch)
    monkeypatch.setattr(PictureData, "cut", watch_batch)
    gc.disable()  # bounded by the code, not by when the collector comes
    try:
        epoch = loader.views(loader.batches(0), 0, ("first", "second"))
        next(epoch)
        # The reader goes as far as it can: the rest must wait for the step.
        for _ in range(500):
            if batches.total <= AHEAD + 2:
                time.sleep(0.001)
        assert batches.total <= AHEAD + 2
        for _ in epoch:
            pass
    finally:
        gc.enable()
    assert (decoded.total, batches.total) == (120, 20)
    # One with the step, one that it lets go of as it asks, one in hand, the others wait.
    assert batches.most <= AHEAD + 3
    assert decoded.most <= workers


def test_a_broken_file_ends_the_epoch_and_is_named(folder):
    config = settings(folder)
    loader = load(config)
    broken = loader.data.files[17]
    with open(broken.content, "r+b") as file:
        file.truncate(200)
    with pytest.raises(InvalidValueError, match=rf"cannot decode {broken.name}: "):
        for _ in loader.views(loader.batches(0), 0, ("first",)):
            pass


@pytest.mark.parametrize("wrong", [ArithmeticError("in a worker"), MemoryError(), SystemExit(3)])
def test_what_goes_wrong_in_a_worker_is_raised(folder, monkeypatch, wrong):
    loader = load(settings(folder, "data.workers=3"))
    cut, seen = pictures.cut_picture, []

    def fail(*arguments, **options):
        seen.append(threading.current_thread())
        if len(seen) == 15:
            raise wrong
        return cut(*arguments, **options)

    monkeypatch.setattr(pictures, "cut_picture", fail)
    with pytest.raises(type(wrong)) as found:
        for _ in loader.views(loader.batches(0), 0, ("first",)):
            pass
    assert found.value is wrong
    assert threading.main_thread() not in seen


def test_an_interrupt_ends_an_epoch_in_the_middle_of_a_batch(folder, monkeypatch):
    """A signal arrives while the step waits for pictures that are being decoded."""
    cut, started, goes_on = pictures.cut_picture, [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            goes_on.set()  # what is being decoded ends in its own time
            super().shutdown(wait=wait)

    def slow(*arguments, **options):
        started.append(1)
        if len(started) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        goes_on.wait(60)
        return cut(*arguments, **options)

    def handler(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pictures, "ThreadPoolExecutor", Pool)
    loader = load(settings(folder, "data.workers=2", "batch_size=24"))
    goes_on.clear()  # the pool that has looked at the files is closed
    monkeypatch.setattr(pictures, "cut_picture", slow)
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in loader.views(loader.batches(0), 0, ("first",)):
                pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 2  # the rest of the batch was dropped


def test_what_waits_when_decoders_are_closed_is_dropped(monkeypatch):
    began, goes_on, done = threading.Event(), threading.Event(), []

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            goes_on.set()
            super().shutdown(wait=wait)

    def slow(i):
        began.set()
        goes_on.wait(60)
        done.append(i)

    monkeypatch.setattr(pictures, "ThreadPoolExecutor", Pool)
    decoders = pictures.Decoders(1)
    waiting = [decoders.pool.submit(slow, i) for i in range(4)]
    assert began.wait(60)
    decoders.close()
    assert done == [0]
    assert [future.cancelled() for future in waiting] == [False, True, True, True]


def test_leaving_early_drops_the_rest(folder, monkeypatch):
    loader = load(settings(folder, "data.workers=1", "batch_size=2"))
    cut, seen = pictures.cut_picture, []

    def count(*arguments, **options):
        seen.append(1)
        return cut(*arguments, **options)

    monkeypatch.setattr(pictures, "cut_picture", count)
    epoch = loader.views(loader.batches(0), 0, ("first",))
    next(epoch)
    epoch.close()
    assert len(seen) <= 2 * (AHEAD + 3) < 24


def test_subsets_and_packed_files(tmp_path):
    files = [encoded(picture(30, 40 + i, seed=i)) for i in range(20)]
    content = np.frombuffer(b"".join(files), np.uint8)
    path = tmp_path / "packed.npz"
    offsets = np.cumsum([0, *map(len, files)])
    np.savez(path, train_jpeg=content, train_offsets=offsets, train_labels=np.arange(20) % 2)
    for limit in (0, 8):
        data = load_source(path, size=8, decode="views", limit=limit)
        here = load_source(path, size=8, decode="once", limit=limit)
        assert len(data.files) == len(here.ids) == (limit or 20)
        assert data.names is None
        ids = torch.arange(len(data.files))
        assert torch.equal(data.fetch(ids), here.images)
        assert torch.equal(data.ids, here.ids)
        assert torch.equal(data.labels, here.labels)


def test_gray_is_what_all_files_are(tmp_path):
    for i in range(4):
        gray = picture(20, 20, seed=i, channels=1)
        (tmp_path / f"{i}.png").write_bytes(encoded(gray, "PNG"))
    assert load_source(tmp_path, size=8, decode="views").shape == (1, 8, 8)
    (tmp_path / "9.png").write_bytes(encoded(picture(20, 20), "PNG"))
    assert load_source(tmp_path, size=8, decode="views").shape == (3, 8, 8)


def test_ranks_of_a_machine_share_its_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    found = []
    for ranks in (1, 5, 64):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        found.append(cpu_count())
    assert found == [12, 2, 1]
