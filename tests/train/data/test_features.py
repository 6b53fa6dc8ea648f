"""The file of features: what is written is what is read, and nothing else is taken."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch

from dualclust.algos.core.errors import OutputError
from dualclust.train.data import copies
from dualclust.train.data.features import (
    LONGEST_HEADER,
    check_room,
    feature_file,
    read_features,
    samples_digest,
    write_features,
)
from dualclust.train.data.samples import embedding_data, image_data, load_source

MADE = {"encoder": "Edges", "samples": "those"}


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("n", [5, 3_000_000])
def test_what_is_written_is_read(tmp_path, kind, n):
    """In parts of any length; safetensors reads the file too, whose numbers begin at a word."""
    rows = torch.randn(n, 3).to(kind)
    for made_of in (
        (MADE,)
        if n > 5
        else (MADE, {**MADE, "more": "x"}, {**MADE, "more": "xy"}, {**MADE, "more": "xyz"})
    ):
        path = tmp_path / "a" / f"{len(str(made_of))}.safetensors"
        write_features(path, rows, made_of)
        found = read_features(path, dict(reversed(made_of.items())))
        assert (found.dtype, torch.equal(found, rows)) == (kind, True)
        assert torch.equal(safetensors.torch.load_file(path)["features"], rows)
        length = int.from_bytes(path.read_bytes()[:8], "little")
        assert (8 + length) % 8 == 0
        assert path.stat().st_size == 8 + length + rows.nbytes
    strided = torch.randn(3, 5).to(kind).T
    write_features(path, strided, MADE)
    assert torch.equal(read_features(path, MADE), strided)


def rewritten(path, change):
    """The file with another header."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize("how", ["format", "made of", "hash", "one axis", "cut", "gone"])
def test_other_files_are_not_taken(tmp_path, how):
    path = tmp_path / "f.safetensors"
    write_features(path, torch.ones(4, 2), MADE)
    if how == "format":
        rewritten(path, lambda header: header["__metadata__"].update(format="other"))
    if how == "made of":
        assert read_features(path, {**MADE, "encoder": "Other"}) is None
        return
    if how == "hash":
        rewritten(path, lambda header: header["__metadata__"].update(sha256=64 * "0"))
    if how == "one axis":
        rewritten(path, lambda header: header["features"].update(shape=[8]))
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    if how == "gone":
        path.unlink()
    assert read_features(path, MADE) is None


def test_a_header_may_be_as_long_as_the_longest(tmp_path):
    path = tmp_path / "f.safetensors"
    write_features(path, torch.ones(4, 2), MADE)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    for longest, taken in ((LONGEST_HEADER, True), (LONGEST_HEADER + 8, False)):
        header = content[8 : 8 + length].ljust(longest)
        path.write_bytes(longest.to_bytes(8, "little") + header + content[8 + length :])
        assert (read_features(path, MADE) is not None) is taken


def test_a_file_is_named_by_what_it_is_made_of(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path))
    found = feature_file(MADE)
    assert found.parent == tmp_path / "features"
    assert len(found.stem) == 32
    assert feature_file(dict(reversed(MADE.items()))) == found
    assert feature_file({**MADE, "samples": "others"}) != found


@pytest.mark.parametrize("check", [check_room, copies._check_room])
def test_room_is_looked_for_where_the_folder_will_be(tmp_path, monkeypatch, check):
    asked = []
    monkeypatch.setattr(
        "shutil.disk_usage", lambda place: asked.append(place) or SimpleNamespace(free=100)
    )
    path = tmp_path / "not" / "yet" / "there"
    check(path, 100)
    with pytest.raises(OutputError, match=rf"take 0\.0 GB, and {tmp_path} has 0\.0"):
        check(path, 101)
    assert asked == [tmp_path] * 2


def test_a_digest_is_of_every_sample_and_its_kind(rng):
    rows = rng.normal(size=(1030, 2)).astype(np.float32)
    found = {samples_digest(embedding_data(rows))}
    for i in (0, 1023, 1024, 1029):
        other = rows.copy()
        other[i, 1] += 1
        found.add(samples_digest(embedding_data(other)))
    found.add(samples_digest(embedding_data(rows.reshape(515, 4))))
    found.add(samples_digest(embedding_data(rows[:-1])))
    assert len(found) == 7
    data = embedding_data(rows)
    other = data._replace(rows=data.rows.view(torch.int32))  # the same bits, of another kind
    assert samples_digest(other) != samples_digest(data)
    pixels = rng.integers(0, 256, size=(3, 2, 8), dtype=np.uint8)
    shapes = (pixels, pixels.reshape(3, 4, 4), pixels[::-1])
    assert len({samples_digest(image_data(images)) for images in shapes}) == 3


def test_pictures_are_known_by_their_files(tmp_path):
    from tests.train.pictures import write_folder

    folder = write_folder(tmp_path, 3, 1)
    options = {"size": 8, "decode": "views"}
    before = samples_digest(load_source(folder, **options))
    assert samples_digest(load_source(folder, **options)) == before
    assert samples_digest(load_source(folder, size=9, decode="views")) != before
    path = sorted(folder.rglob("*.jpeg"))[1]
    path.write_bytes(path.read_bytes() + b"\0")
    assert samples_digest(load_source(folder, **options)) != before
