"""What is asked of readers and copies for a data set, and whose labels and names it has."""

import tracemalloc

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError, UsageError
from dualclust.train.data import pictures, sources
from dualclust.train.data.look import Look, look_at
from dualclust.train.data.samples import embedding_data, image_data, load_source
from dualclust.train.data.splits import File, Reading
from dualclust.train.models.arrays import of_array
from dualclust.train.models.spec import InputSpec
from tests.train.pictures import encoded, picture, write_folder


@pytest.mark.parametrize(("asked", "side"), [({}, 16), ({"copy_side": 20}, 20)])
def test_copies_have_twice_the_side_of_a_view_or_what_is_asked(tmp_path, monkeypatch, asked, side):
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    folder = write_folder(tmp_path / "p", 3, 1)
    copied = load_source(folder, size=8, decode="copies", workers=2, bad="stop", **asked)
    assert [min(file.content.pixels.shape[:2]) for file in copied.files] == [side] * 3
    plain = load_source(folder, size=8, decode="views", **asked)
    assert all(isinstance(file.content, str) for file in plain.files)
    (folder / "class0" / "bad.jpeg").write_bytes(b"bad")
    with pytest.raises(InvalidValueError, match=r"bad\.jpeg"):
        load_source(folder, size=8, decode="copies", bad="stop", **asked)
    assert len(load_source(folder, size=8, decode="copies", **asked).files) == 3


def test_labels_of_one_split_alone_are_no_labels(tmp_path):
    pixels = np.arange(5 * 64, dtype=np.int64).astype(np.uint8).reshape(5, 8, 8)
    path = tmp_path / "x.npz"
    np.savez(path, train_images=pixels[:3], train_labels=[4, 2, 4], test_images=pixels[3:])
    assert load_source(path).labels.tolist() == [1, 0, 1]
    both = load_source(path, split="all")
    assert (both.labels, both.class_names, len(both.ids)) == (None, (), 5)
    assert load_source(path, split="test").labels is None


def test_a_subset_keeps_places_labels_and_pixels_together(tmp_path):
    pixels = np.arange(9 * 64, dtype=np.int64).astype(np.uint8).reshape(9, 8, 8)
    path = tmp_path / "x.npz"
    np.savez(path, images=pixels, labels=np.arange(9)[::-1])
    found = load_source(path, limit=4, seed=5)
    assert len(found.ids) == 4
    assert np.array_equal(found.images[:, 0], pixels[found.ids.numpy()])
    assert found.labels.tolist() == [8 - i for i in found.ids.tolist()]


@pytest.mark.parametrize("ending", [".npy", ".NPY"])
def test_embeddings_are_known_by_the_ending_of_their_file(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    with path.open("wb") as file:
        np.save(file, np.ones((3, 2), np.float32))
    found = load_source(path, standardize=True, resident="never")
    assert found.shape == (2,)
    assert torch.equal(found.take(torch.arange(3)), torch.zeros(3, 2))


def test_memory_of_arrays_is_not_shared():
    """What somebody does to an array later is nothing to the data set."""
    pixels = np.zeros((2, 8, 8), np.uint8)
    data = image_data(pixels)
    pixels[:] = 9
    assert int(data.images.max()) == 0
    rows = np.zeros((2, 3), np.float32)
    kept = embedding_data(rows)
    rows[:] = 9
    assert float(kept.rows.max()) == 0.0


def test_samples_lie_one_after_another_in_memory(rng):
    """Whatever the order of the axes was: a batch is read in one piece."""
    pixels = rng.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    images = image_data(pixels).images
    assert images.is_contiguous()
    assert np.array_equal(images.numpy(), pixels.transpose(0, 3, 1, 2))
    rows = rng.normal(size=(3, 7)).T
    assert embedding_data(rows).rows.is_contiguous()
    spec = InputSpec((3, 6, 5))
    assert of_array(pixels, spec).read(0, 4).is_contiguous()
    swapped = rows.astype(">f8")  # as a file of another machine has it
    found = of_array(swapped, InputSpec((3,))).read(1, 3)
    assert torch.equal(found, torch.from_numpy(rows[1:3].copy()))


def test_embeddings_that_stay_on_the_host_are_not_copied_into_memory(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2**16, 16), np.float32))  # 4 MiB
    tracemalloc.start()
    try:
        data = load_source(path, resident="never")
        assert look_at(path) == Look("embeddings", 2**16, dim=16)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 2**21
    assert torch.equal(data.take(torch.tensor([7])), torch.ones(1, 16))


@pytest.mark.parametrize("name", ["x.npy", "x_labels.npy"])
def test_a_file_of_numbers_is_as_long_as_its_header_says(tmp_path, name):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    np.save(tmp_path / "x_labels.npy", np.arange(3))
    assert load_source(tmp_path / "x.npy").labels.tolist() == [0, 1, 2]
    with (tmp_path / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(InvalidValueError, match="must be as long as its header says"):
        load_source(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("n", "said"),
    [(8, "'x6' (float64, 1); 'x7' (float64, 1). To fix this"),
     (9, "'x6' (float64, 1); 'x7' (float64, 1); and 1 more. To fix this")],
)  # fmt: skip
def test_of_many_arrays_some_are_named(tmp_path, n, said):
    path = tmp_path / "x.npz"
    np.savez(path, **{f"x{i}": np.zeros(1) for i in range(n)})
    with pytest.raises(InvalidValueError) as error:
        load_source(path)
    assert f"holds {n} arrays. One of them must have the shape (n, d)" in str(error.value)
    assert said in str(error.value)


def test_a_file_of_arrays_has_one_set_of_classes():
    with pytest.raises(UsageError, match=r"classes='coarse' is for a folder of CIFAR-100, got 'di"):
        sources.read_source("digits", Reading(classes="coarse"))


def test_pictures_of_a_run_are_known_by_what_is_cut_from_them(tmp_path, monkeypatch):
    """Their number, their bytes, side and cut; of many, some tell which they are."""
    monkeypatch.setattr(pictures, "STATISTICS", 2)
    files = [File(f"{i}.png", memoryview(encoded(picture(9, 12, seed=i), "PNG"))) for i in range(4)]

    def digest(files, size=8, fit="crop"):
        ids = torch.arange(len(files))
        return pictures.picture_data(files, None, ids, (), None, size=size, fit=fit).digest()

    base = digest(files)
    assert digest([files[0], files[3], files[2], files[1]]) == base  # 0 and 2 are looked at
    others = [files[:3], [files[1], *files[1:]], [*files[:2], files[0], files[3]]]
    found = {base, digest(files, 9), digest(files, fit="squash"), *map(digest, others)}
    assert len(found) == 6


FILES = [encoded(picture(9, 9, seed=i), "PNG") for i in range(2)]
FIRST, BOTH = len(FILES[0]), len(FILES[0]) + len(FILES[1])


def packed(tmp_path, offsets, content=None):
    """The files that a container with these offsets holds."""
    path = tmp_path / "packed.npz"
    content = np.frombuffer(b"".join(FILES), np.uint8) if content is None else content
    np.savez(path, train_jpeg=content, train_offsets=offsets)
    found = sources.read_source(path, Reading(size=8, max_pixels=99))
    return found.splits["train"].files()


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32])
@pytest.mark.parametrize(
    ("offsets", "files"),
    [([0, FIRST, BOTH], FILES), ([FIRST, BOTH], FILES[1:]), ([0, FIRST], FILES[:1])],
)
def test_packed_files_lie_between_their_offsets(tmp_path, offsets, files, kind):
    found = packed(tmp_path, np.array(offsets, kind))
    assert [file.read() for file in found] == files
    assert [file.name for file in found] == [f"train[{i}]" for i in range(len(files))]
    assert {file.max_pixels for file in found} == {99}


@pytest.mark.parametrize(
    ("offsets", "error", "words"),
    [
        (np.array([0.0, 9.0]), InvalidTypeError, r"must be n \+ 1 integers, got \(2,\)"),
        (np.array([[0], [9]]), InvalidTypeError, r"must be n \+ 1 integers, got \(2, 1\)"),
        (np.array([0]), InvalidTypeError, r"must be n \+ 1 integers, got \(1,\)"),
        (np.array([-1, FIRST]), InvalidValueError, "must rise within"),
        (np.array([0, FIRST, FIRST]), InvalidValueError, "must rise within"),
        (np.array([BOTH, FIRST], np.uint64), InvalidValueError, "must rise within"),
        (np.array([0, BOTH + 1]), InvalidValueError, f"must rise within the {BOTH} bytes"),
    ],
)
def test_offsets_that_do_not_rise_within_the_bytes_are_refused(tmp_path, offsets, error, words):
    with pytest.raises(error, match=words):
        packed(tmp_path, offsets)
    with pytest.raises(InvalidValueError, match="must rise within"):
        packed(tmp_path, np.array([0, FIRST]), np.zeros(FIRST, np.int8))
