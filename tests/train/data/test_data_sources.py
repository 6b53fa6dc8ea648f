"""Folders, archives, embeddings and subsets: what was written is what is read."""

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError, UsageError
from dualclust.train.data.long_tail import profile, subset
from dualclust.train.data.samples import EmbeddingData, embedding_data, image_data, load_source

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def picture(rng, height=6, width=5, channels=3):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return rng.integers(0, 256, shape, dtype=np.uint8)


def write(path: Path, pixels) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def test_a_flat_folder_has_names_and_no_classes(rng, tmp_path):
    pixels = {name: picture(rng) for name in ("b.png", "a.bmp", "c.PNG")}
    for name, values in pixels.items():
        write(tmp_path / name, values)
    (tmp_path / "notes.txt").write_text("not an image")
    write(tmp_path / ".cache" / "d.png", picture(rng))
    data = load_source(tmp_path)
    assert data.names == ("a.bmp", "b.png", "c.PNG")
    assert data.labels is None
    assert data.ids.dtype == torch.int64
    for name, image in zip(data.names, data.images, strict=True):
        assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels[name])


def test_sub_folders_are_names_and_classes_where_they_are_said_to_be(rng, tmp_path):
    for name in ("dog/1.png", "cat/2.png", "cat/deep/3.png"):
        write(tmp_path / name, picture(rng))
    assert load_source(tmp_path).labels is None
    data = load_source(tmp_path, folders="classes")
    assert data.names == load_source(tmp_path).names == ("cat/2.png", "cat/deep/3.png", "dog/1.png")
    assert (data.labels.tolist(), data.class_names) == ([0, 0, 1], ("cat", "dog"))
    write(tmp_path / "4.png", picture(rng))
    assert load_source(tmp_path).names == ("4.png", *data.names)
    with pytest.raises(
        UsageError, match=r"holds 1 images beside sub-folders .* leave out --classes"
    ):
        load_source(tmp_path, folders="classes")


def test_folders_of_train_and_val_are_splits(rng, tmp_path):
    for name in ("train/a/1.png", "train/b/2.png", "val/b/3.png"):
        write(tmp_path / name, picture(rng))
    assert load_source(tmp_path).names == ("train/a/1.png", "train/b/2.png")
    test = load_source(tmp_path, split="test")
    assert test.names == ("val/b/3.png",)
    assert load_source(tmp_path, split="test", folders="classes").labels.tolist() == [1]
    assert len(load_source(tmp_path, split="all").ids) == 3
    (tmp_path / ".cache").mkdir()
    assert len(load_source(tmp_path).ids) == 2
    write(tmp_path / "4.png", picture(rng))
    assert len(load_source(tmp_path).ids) == 4
    (tmp_path / "4.png").unlink()
    write(tmp_path / "test" / "a" / "1.png", picture(rng))
    with pytest.raises(UsageError, match=r"has both test/ and val/"):
        load_source(tmp_path)


@pytest.mark.parametrize(("height", "width"), [(20, 31), (31, 20), (9, 9), (5, 7)])
def test_images_are_resized_and_cut_out(rng, tmp_path, height, width):
    pixels = picture(rng, height, width)
    write(tmp_path / "a.png", pixels)
    write(tmp_path / "b.png", picture(rng, 12, 12))
    found = load_source(tmp_path, size=8).images[0].permute(1, 2, 0).numpy()
    scale = 8 / min(height, width)
    new = [max(8, round(side * scale)) for side in (width, height)]
    whole = np.asarray(Image.fromarray(pixels).resize(new, Image.Resampling.BICUBIC))
    top, left = (new[1] - 8) // 2, (new[0] - 8) // 2
    assert np.array_equal(found, whole[top : top + 8, left : left + 8])
    with pytest.raises(UsageError, match=r"different sizes: a.png is .*, b.png is 12 × 12"):
        load_source(tmp_path)


def test_gray_folders_have_one_channel(rng, tmp_path):
    gray = picture(rng, channels=1)
    write(tmp_path / "a.png", gray)
    assert np.array_equal(load_source(tmp_path).images[0, 0].numpy(), gray)
    write(tmp_path / "b.png", picture(rng))
    both = load_source(tmp_path).images
    assert both.shape[1] == 3
    assert np.array_equal(both[0, 2].numpy(), gray)


def test_the_camera_is_turned_upright(rng, tmp_path):
    pixels = picture(rng, 4, 7)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter clockwise
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    upright = load_source(tmp_path).images[0].permute(1, 2, 0).numpy()
    assert np.array_equal(upright, np.rot90(pixels, -1))


def test_broken_image_files_are_named(rng, tmp_path):
    path = write(tmp_path / "a.png", picture(rng, 40, 40))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InvalidValueError, match=r"cannot decode a\.png"):
        load_source(tmp_path)
    path.write_bytes(b"not a picture")
    with pytest.raises(InvalidValueError, match=r"cannot decode a\.png"):
        load_source(tmp_path)


def jpeg(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def test_packed_jpeg_files(rng, tmp_path):
    files = [jpeg(picture(rng, 8, 8)) for _ in range(5)]
    offsets = np.cumsum([0, *map(len, files)])
    content = np.frombuffer(b"".join(files), np.uint8)
    path = tmp_path / "packed.npz"
    arrays = {"train_jpeg": content, "train_offsets": offsets, "train_labels": [0, 1, 1, 0, 2]}
    np.savez(path, **arrays, test_jpeg=content, test_offsets=offsets[:3], test_labels=[2, 0])
    data = load_source(path)
    for file, image in zip(files, data.images, strict=True):
        with Image.open(io.BytesIO(file)) as expected:
            assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(expected))
    assert data.labels.tolist() == [0, 1, 1, 0, 2]
    assert load_source(path, split="test").labels.tolist() == [2, 0]
    assert len(load_source(path, split="all").images) == 7
    np.savez(path, train_jpeg=content, train_offsets=offsets + 9)
    with pytest.raises(InvalidValueError, match=r"train_offsets of .* must rise within"):
        load_source(path)
    np.savez(path, train_jpeg=content)
    with pytest.raises(UsageError, match="'train_jpeg' without 'train_offsets'"):
        load_source(path)


def test_the_shared_jpeg_copy_of_cifar10():
    folder = os.environ.get("DUALCLUST_DATA")
    if folder is None or not (Path(folder) / "cifar10_jpeg.npz").is_file():
        pytest.skip("DUALCLUST_DATA names no folder with cifar10_jpeg.npz")
    data = load_source(Path(folder) / "cifar10_jpeg.npz", split="test")
    assert data.images.shape == (10_000, 3, 32, 32)
    assert torch.bincount(data.labels).tolist() == [1000] * 10


def cifar(path, rng, n, labels):
    """Write records of some label bytes and 3072 pixels; returns them."""
    records = rng.integers(0, 256, (n, labels + 3072), dtype=np.uint8)
    records[:, :labels] %= 10
    path.parent.mkdir(parents=True, exist_ok=True)
    records.tofile(path)
    return records


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar10(rng, tmp_path, inner):
    folder = tmp_path / inner
    names = [f"data_batch_{i}.bin" for i in range(1, 6)]
    train = np.concatenate([cifar(folder / name, rng, 8, 1) for name in names])
    test = cifar(folder / "test_batch.bin", rng, 6, 1)
    train[:10, 0] = np.arange(10)
    train[:8].tofile(folder / names[0])
    train[8:16].tofile(folder / names[1])
    kinds = "airplane automobile bird cat deer dog frog horse ship truck".split()
    (folder / "batches.meta.txt").write_text("\n".join(kinds) + "\n\n")
    data = load_source(tmp_path)
    assert np.array_equal(data.images.numpy().reshape(40, -1), train[:, 1:])
    assert np.array_equal(data.labels.numpy(), train[:, 0])
    assert data.class_names == tuple(kinds)
    both = load_source(tmp_path, split="all")
    assert np.array_equal(both.labels.numpy(), np.concatenate([train, test])[:, 0])
    with pytest.raises(UsageError, match="is for CIFAR-100, and the source is CIFAR-10"):
        load_source(tmp_path, classes="coarse")
    with pytest.raises(UsageError, match="has no split 'unlabeled'; it has train, test"):
        load_source(tmp_path, split="unlabeled")
    (folder / names[2]).write_bytes(b"short")
    with pytest.raises(InvalidValueError, match="5 bytes are no whole number of records of 3073"):
        load_source(tmp_path)


def test_cifar100_has_two_sets_of_classes(rng, tmp_path):
    train = cifar(tmp_path / "train.bin", rng, 30, 2)
    cifar(tmp_path / "test.bin", rng, 5, 2)
    kinds = [f"fine{i}" for i in range(10)]
    (tmp_path / "fine_label_names.txt").write_text("\n".join(kinds))
    fine, coarse = (load_source(tmp_path, classes=c) for c in ("fine", "coarse"))
    assert torch.equal(fine.images, coarse.images)
    for data, column in ((fine, 1), (coarse, 0)):
        values = np.unique(train[:, column])
        expected = np.array([values[code] for code in data.labels])
        assert len(values) == 10
        assert np.array_equal(expected, train[:, column])
    assert fine.class_names == tuple(kinds)


def test_stl10_has_images_without_classes(rng, tmp_path):
    images = rng.integers(0, 256, (9, 3, 96, 96), dtype=np.uint8)
    for name, part in (("train", slice(0, 4)), ("test", slice(4, 6)), ("unlabeled", slice(6, 9))):
        images[part].transpose(0, 1, 3, 2).tofile(tmp_path / f"{name}_X.bin")
    np.array([1, 10, 2, 1], np.uint8).tofile(tmp_path / "train_y.bin")
    np.array([3, 10], np.uint8).tofile(tmp_path / "test_y.bin")
    kinds = [f"kind{i}" for i in range(10)]
    (tmp_path / "class_names.txt").write_text("\n".join(kinds))
    data = load_source(tmp_path, split="train+unlabeled")
    assert torch.equal(data.images, torch.from_numpy(images[[0, 1, 2, 3, 6, 7, 8]]))
    assert data.labels.tolist() == [0, 3, 1, 0, -1, -1, -1]
    assert data.class_names == ("kind0", "kind1", "kind2", "kind9")
    assert load_source(tmp_path, split="all").labels.tolist() == [0, 3, 1, 0, 2, 3]
    assert load_source(tmp_path).labels.tolist() == [0, 3, 1, 0]
    with pytest.raises(UsageError, match="needs the class of every sample"):
        load_source(tmp_path, split="train+unlabeled", imbalance=10.0)
    np.array([1, 10], np.uint8).tofile(tmp_path / "train_y.bin")
    with pytest.raises(InvalidValueError, match=r"train_y\.bin holds 2 labels of 4 images"):
        load_source(tmp_path)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_mnist(rng, tmp_path, packed):
    images = {
        p: rng.integers(0, 256, (n, 7, 5), dtype=np.uint8) for p, n in (("train", 6), ("t10k", 3))
    }
    for prefix, pixels in images.items():
        for what, array in (
            ("images-idx3", pixels),
            ("labels-idx1", np.arange(len(pixels), dtype=np.uint8)),
        ):
            content = idx(array)
            name = f"{prefix}-{what}-ubyte" + (".gz" if packed else "")
            (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    data = load_source(tmp_path, split="all")
    assert np.array_equal(data.images[:, 0].numpy(), np.concatenate(list(images.values())))
    assert data.labels.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    name = next(tmp_path.glob("train-images*"))
    content = idx(images["train"])[:-1]
    name.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InvalidValueError, match="not an idx file of 3 axes of bytes, or cut short"):
        load_source(tmp_path)


def test_embeddings(rng, tmp_path):
    rows = rng.normal(3, 2, (20, 6)).astype(np.float32)
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    data = load_source(path)
    assert isinstance(data, EmbeddingData)
    assert (data.shape, data.labels, data.background, data.class_names) == ((6,), None, None, ())
    ids = torch.tensor([3, 1, 3])
    assert torch.equal(data.take(ids), torch.from_numpy(rows[[3, 1, 3]]))
    np.save(tmp_path / "rows_labels.npy", np.arange(20) % 3)
    labelled = load_source(path, standardize=True)
    assert labelled.labels.tolist() == [i % 3 for i in range(20)]
    whole = labelled.take(labelled.ids).double()
    torch.testing.assert_close(whole.mean(0), torch.zeros(6).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(whole.std(0, correction=0), torch.ones(6).double())
    assert labelled.digest() == data.digest() != embedding_data(rows + 1).digest()
    mapped = load_source(path, resident="never")
    assert not mapped.resident
    assert torch.equal(mapped.take(ids), data.take(ids))
    half = embedding_data(rows.astype(np.float16))
    assert half.take(ids).dtype == torch.float32


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros((3, 2), int), InvalidTypeError, "embeddings must be floats, got int64"),
        (np.zeros(3), InvalidValueError, r"embeddings must have shape \(n, d\), got \(3,\)"),
        (np.array([[0.0], [np.nan]]), InvalidValueError, "finite, and row 1 holds"),
    ],
)
def test_wrong_embeddings_are_refused(tmp_path, rows, error, message):
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(error, match=message):
        load_source(tmp_path / "rows.npy")


def test_a_constant_column_does_not_divide_by_zero():
    data = embedding_data(np.ones((4, 2), np.float32), standardize=True)
    assert torch.equal(data.take(torch.arange(4)), torch.zeros(4, 2))


@pytest.mark.parametrize("ratio", [1.0, 10.0, 100.0])
def test_the_long_tail_has_the_published_profile(ratio):
    sizes = profile([500] * 10, ratio)
    assert sizes[0] == 500
    assert sizes[-1] == 500 / ratio
    for k, size in enumerate(sizes):
        assert size == int(500 * ratio ** (-k / 9) + 1e-4)
    assert profile([3, 500, 2], 10.0) == [3, 158, 2]


def test_a_long_tail_takes_samples_of_each_class_at_random(rng, tmp_path):
    labels = np.repeat(np.arange(5), 40)
    path = tmp_path / "data.npz"
    np.savez(path, images=rng.integers(0, 256, (200, 8, 8), dtype=np.uint8), labels=labels)
    whole = load_source(path)
    data = load_source(path, imbalance=10.0, seed=3)
    assert torch.bincount(data.labels).tolist() == profile([40] * 5, 10.0) == [40, 22, 12, 7, 4]
    assert torch.equal(data.images, whole.images[data.ids])
    assert torch.equal(data.labels, whole.labels[data.ids])
    assert bool((data.ids.diff() > 0).all())
    again, other = (load_source(path, imbalance=10.0, seed=s) for s in (3, 4))
    assert torch.equal(data.ids, again.ids)
    assert not torch.equal(data.ids, other.ids)


def test_a_limit_keeps_that_many(rng):
    labels = torch.arange(100) % 4
    kept = subset(100, labels, imbalance=1.0, limit=30, seed=0)
    assert len(kept.unique()) == 30
    assert bool((kept.diff() > 0).all())
    assert int(kept.max()) > 60
    assert torch.equal(subset(100, None, imbalance=1.0, limit=0, seed=0), torch.arange(100))
    assert torch.equal(subset(100, None, imbalance=1.0, limit=200, seed=0), torch.arange(100))
    both = subset(100, labels, imbalance=5.0, limit=10, seed=0)
    assert len(both) == 10
    with pytest.raises(UsageError, match=r"data.imbalance=5.0 needs the class of every sample"):
        subset(100, None, imbalance=5.0, limit=0, seed=0)


def test_subsets_keep_the_names_of_files(rng, tmp_path):
    for i in range(9):
        write(tmp_path / f"{i}.png", picture(rng))
    data = load_source(tmp_path, limit=4)
    assert data.names == tuple(f"{i}.png" for i in data.ids.tolist())
    assert data.images.shape[0] == 4


def test_images_may_stay_on_the_host(rng):
    images = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    here, there = (image_data(images, resident=r) for r in ("always", "never"))
    assert (here.resident, there.resident) == (True, False)
    ids = torch.tensor([5, 5, 0])
    assert torch.equal(here.take(ids), there.take(ids))
