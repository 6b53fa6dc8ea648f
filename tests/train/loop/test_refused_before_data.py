"""What needs no samples to be refused is refused before any is read or decoded."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dualclust.algos.core.errors import (
    DualclustError,
    InfeasibleBoundsError,
    InvalidValueError,
    MissingFileError,
    UsageError,
)
from dualclust.cli.train_settings import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.look import Look, look_at
from dualclust.train.loop.run import Run

REFUSED = {
    "secu_digits": ["network.name=digits-cn"],
    "coke_digits": ["coke.second_stage=999"],
    "propos_digits": ["network.predictor=0"],
    "gatcluster_digits": ["heads.clusters=[10, 20]"],
    "mi_margin_digits": ["network.out_dim=11"],
    "secu_cifar10_selflabel": ["heads.clusters=[10, 20]"],
}


@pytest.mark.parametrize("recipe", REFUSED)
def test_settings_are_refused_before_the_source_is_looked_for(recipe) -> None:
    nowhere = override(read_recipe(recipe), ["data.source=nowhere"])
    with pytest.raises(UsageError) as caught:
        Run(override(nowhere, REFUSED[recipe]), "cpu")
    assert "nowhere" not in str(caught.value)
    with pytest.raises(MissingFileError):
        Run(nowhere, "cpu")


def jpegs(path, n) -> str:
    """A file of n pictures, none of which can be decoded."""
    content = np.frombuffer(b"no picture" * n, np.uint8)
    np.savez(
        path,
        train_jpeg=content,
        train_offsets=np.arange(n + 1) * 10,
        train_labels=np.arange(n, dtype=np.uint8) % 10,
    )
    return str(path)


def refusal(source: str, *settings: str) -> DualclustError:
    items = [f'data.source="{source}"', "data.split=train", "data.bad=stop", *settings]
    config = override(RunConfig(), ["heads.clusters=[10, 70]", "assignment.lower=0.9", *items])
    with pytest.raises(DualclustError) as caught:
        Run(override(config, ["assignment.rounding=inward"]), "cpu")
    return caught.value


def test_sizes_are_refused_before_a_picture_is_decoded(tmp_path) -> None:
    source = jpegs(tmp_path / "pictures.npz", 600)
    early = refusal(source, "data.limit=256")
    assert isinstance(early, InfeasibleBoundsError)
    assert "head of 70 clusters (heads.clusters) has no sizes for 256 samples" in str(early)
    # What the number is known to suit, or may still change, is decoded, and found damaged.
    for settings in (["data.limit=280"], [], ["data.limit=512"]):
        assert type(refusal(source, *settings)) is InvalidValueError


def test_sizes_are_refused_without_a_limit(tmp_path) -> None:
    """The header says how many there are; files that may be left out do not count for sure."""
    source = jpegs(tmp_path / "pictures.npz", 256)
    early = refusal(source)
    assert isinstance(early, InfeasibleBoundsError)
    assert "has no sizes for 256 samples" in str(early)
    assert type(refusal(source, "data.bad=skip")) is InvalidValueError
    assert type(refusal(source, "data.limit=250")) is InfeasibleBoundsError
    assert type(refusal(source, "data.limit=9", "data.bad=skip")) is InfeasibleBoundsError
    tail = refusal(source, "data.imbalance=10.0")  # the longest class has 26 samples
    assert "has no sizes for 103 samples" in str(tail)


def damaged(path) -> str:
    """Overwrite the middle of a file: numbers that cannot be unpacked, behind a sound header."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    return str(path)


def packed_npz(folder):
    np.savez_compressed(folder / "X.npz", X=ROWS)
    return damaged(folder / "X.npz")


def images_npz(folder):
    np.savez_compressed(folder / "X.npz", images=(ROWS * 9).astype(np.uint8).reshape(-1, 8, 8))
    return damaged(folder / "X.npz")


def parquet(folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"emb": list(WRONG)}), folder / "X.parquet")
    return str(folder / "X.parquet")


def matlab(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.mat", "w", userblock_size=512) as file:
        held = file.create_dataset("X", data=ROWS.T, chunks=(64, 16), compression="gzip")
        held.attrs["MATLAB_class"] = np.bytes_("double")
    return damaged(folder / "X.mat")


def mnist(folder):
    content = (ROWS * 9).astype(np.uint8).tobytes()
    head = bytes([0, 0, 8, 3]) + np.asarray([256, 8, 8], ">u4").tobytes()
    packed = bytearray(gzip.compress(head + content))
    packed[-600:-500] = bytes(100)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(packed)
    return str(folder)


def fvecs(folder):
    lengths = np.full((256, 1), 64, "<i4").view(np.uint8)
    lengths[200] = 7
    rows = ROWS.astype("<f4").view(np.uint8)
    np.hstack([lengths, rows]).tofile(folder / "X.fvecs")
    return str(folder / "X.fvecs")


def npy(folder):
    np.save(folder / "X.npy", WRONG)
    return str(folder / "X.npy")


ROWS = np.random.default_rng(0).normal(size=(256, 64)) ** 2
WRONG = np.where(np.arange(256)[:, None] == 200, np.nan, ROWS)


@pytest.mark.parametrize(
    "write", [packed_npz, images_npz, parquet, matlab, mnist, fvecs, npy], ids=lambda w: w.__name__
)
def test_a_header_that_tells_how_many_is_enough(tmp_path, write) -> None:
    """Each file is wrong behind its header, and what is said first is about the number."""
    source = write(tmp_path)
    split = ["data.split=auto"]
    early = refusal(source, *split)
    assert isinstance(early, InfeasibleBoundsError)
    assert "has no sizes for 256 samples" in str(early)
    assert "no sizes for 3 samples" in str(refusal(source, "data.limit=3", *split))
    assert "at least 2 samples, got 1" in str(refusal(source, "data.limit=1", *split))
    late = refusal(source, "heads.clusters=[10]", *split)  # what the number suits is read
    assert type(late) is InvalidValueError, late


def test_a_batch_that_needs_all_samples_is_refused_by_their_number(tmp_path) -> None:
    config = override(read_recipe("propos_digits"), [f'data.source="{npy(tmp_path)}"'])
    config = override(config, ["propos.batch_norm=shuffled", "batch_size=300"])
    with pytest.raises(UsageError, match="256 images make none of 300"):
        Run(config, "cpu")


@pytest.mark.parametrize("write", [parquet, matlab, packed_npz], ids=lambda w: w.__name__)
def test_a_look_at_embeddings_reads_the_header_alone(tmp_path, write) -> None:
    assert look_at(write(tmp_path)) == Look("embeddings", 256, dim=64)
