"""Checkpoints: exact to the bit, whole or refused, and never code that runs."""

import hashlib
import json
import os
import pickle
import random
import shutil

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import CheckpointError, InvalidTypeError, MissingFileError
from dualclust.train.state import checkpoint
from dualclust.train.state.checkpoint import (
    CheckpointWarning,
    checkpoint_folder,
    has_epoch,
    latest_checkpoint,
    load_checkpoint,
    prune,
    save_checkpoint,
)
from tests.train.stored import (
    FILES,
    METADATA,
    assert_identical,
    everything,
    flip,
    names,
    save_epochs,
    small,
)

# -- exactness ------------------------------------------------------------------------------------


def test_round_trip_is_bit_exact(tmp_path):
    tensors = everything()
    folder = save_checkpoint(checkpoint_folder(tmp_path, 12), tensors, METADATA)
    assert folder == tmp_path / "checkpoints" / "epoch-000012"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    found = load_checkpoint(folder)
    assert_identical(found.tensors, tensors)
    assert found.metadata == METADATA
    assert found.folder == folder
    found.tensors["float32"].add_(1)  # its memory may be written to


def test_files_of_a_checkpoint_to_the_letter(tmp_path):
    """What an older checkpoint has must be what is expected of it by a newer program."""
    folder = save_checkpoint(checkpoint_folder(tmp_path, 3), {"w": torch.ones(2)}, {"a": [1]})
    assert (folder / "state.json").read_text() == '{\n "a": [\n  1\n ]\n}\n'
    whole = [(folder / name).read_bytes() for name in FILES[:2]]
    sizes = [len(content) for content in whole]
    hashes = [hashlib.sha256(content).hexdigest() for content in whole]
    assert (folder / "manifest.json").read_text() == (
        '{\n "format": "dualclust-checkpoint",\n "version": 1,\n "files": {\n'
        f'  "state.safetensors": {{\n   "bytes": {sizes[0]},\n   "sha256": "{hashes[0]}"\n  }},\n'
        f'  "state.json": {{\n   "bytes": {sizes[1]},\n   "sha256": "{hashes[1]}"\n  }}\n }}\n}}\n'
    )


def test_nothing_to_save_is_a_checkpoint_too(tmp_path):
    save_checkpoint(checkpoint_folder(tmp_path, 0), {}, {})
    assert latest_checkpoint(tmp_path)[:2] == ({}, {})


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"a": [1.0]}, {}, r"tensors\['a'\] must be a dense tensor, got list"),
        ({"a": torch.ones(2).to_sparse()}, {}, r"tensors\['a'\] must be a dense tensor"),
        ({"__metadata__": torch.ones(2)}, {}, "tensors must not hold the name '__metadata__'"),
        ({}, {"a": {1: 2}}, r"metadata\.a has the key 1; JSON keeps only str keys"),
        ({}, {"a": (1, 2)}, r"metadata\.a is a tuple, which cannot be saved without loss"),
        ({}, {"a": [np.float64(1)]}, r"metadata\.a\[0\] is a float64"),
        ({}, {"a": torch.ones(1)}, r"metadata\.a is a Tensor"),
    ],
)
def test_what_would_be_lost_is_refused(tmp_path, tensors, metadata, message):
    with pytest.raises(InvalidTypeError, match=message):
        save_checkpoint(checkpoint_folder(tmp_path, 1), tensors, metadata)
    assert not list(tmp_path.iterdir())


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_found(tmp_path, name):
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), everything(), METADATA)
    path = folder / name
    size = path.stat().st_size
    places = [(position, bit) for position in range(size) for bit in range(8)]
    for position, bit in random.Random(0).sample(places, 150):
        flip(path, position, bit)
        with pytest.raises(CheckpointError):
            load_checkpoint(folder)
        flip(path, position, bit)
    load_checkpoint(folder)


@pytest.mark.parametrize("name", FILES)
def test_truncation_and_trailing_bytes_are_found(tmp_path, name):
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), everything(), METADATA)
    path = folder / name
    content = path.read_bytes()
    for share in (0, 0.1, 0.5, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(folder)
    path.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=name):
        load_checkpoint(folder)
    path.write_bytes(content + b"\n")
    with pytest.raises(CheckpointError, match=name):
        load_checkpoint(folder)
    path.unlink()
    with pytest.raises(CheckpointError, match=rf"{name} cannot be read"):
        load_checkpoint(folder)


def test_the_message_names_file_expected_and_found(tmp_path):
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    expected = json.loads((folder / "manifest.json").read_text())["files"]["state.json"]["sha256"]
    flip(folder / "state.json", 5, 0)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    assert f"{folder / 'state.json'} is damaged: expected sha256 {expected}, got " in str(
        caught.value
    )


def test_the_message_of_a_damaged_manifest_names_what_it_should_be(tmp_path):
    path = save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1)) / "manifest.json"
    good, bad = path.read_bytes(), path.read_bytes() + b" "
    path.write_bytes(bad)
    expected, found = (hashlib.sha256(content).hexdigest() for content in (good, bad))
    with pytest.raises(CheckpointError, match=f"sha256 {expected}, got {found}"):
        load_checkpoint(path.parent)


def test_files_of_two_checkpoints_do_not_mix(tmp_path):
    save_epochs(tmp_path, 1, 2)
    one, two = (checkpoint_folder(tmp_path, epoch) for epoch in (1, 2))
    shutil.copy(one / "state.safetensors", two / "state.safetensors")
    with pytest.raises(CheckpointError, match=r"epoch-000002/state\.safetensors is damaged"):
        load_checkpoint(two)


def test_a_newer_format_is_named(tmp_path):
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="has format version 2, this program reads 1"):
        load_checkpoint(folder)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_in_place_of_the_tensors_is_not_run(tmp_path):
    canary = tmp_path / "canary"
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    attack = pickle.dumps(Bomb(str(canary)))
    (folder / "state.safetensors").write_bytes(attack)
    with pytest.raises(CheckpointError, match="is damaged"):
        load_checkpoint(folder)
    # Nor when the attacker has made the manifest fit.
    contents = {name: (folder / name).read_bytes() for name in FILES[:2]}
    (folder / "manifest.json").write_bytes(checkpoint._manifest_bytes(contents))
    with pytest.raises(CheckpointError, match="matches its manifest but does not parse"):
        load_checkpoint(folder)
    assert not canary.exists()
    pickle.loads(attack).close()
    assert canary.exists()  # the canary can fly


# -- the newest that is good ----------------------------------------------------------------------


def test_the_newest_is_found_by_number(tmp_path):
    save_epochs(tmp_path, 9, 10, 999_999, 1_000_000)
    assert latest_checkpoint(tmp_path).metadata == {"epoch": 1_000_000}


def test_a_damaged_newest_falls_back_loudly(tmp_path):
    save_epochs(tmp_path, 1, 2, 3)
    flip(checkpoint_folder(tmp_path, 3) / "state.safetensors", -1, 3)
    (checkpoint_folder(tmp_path, 2) / "manifest.json").unlink()
    with pytest.warns(CheckpointWarning) as caught:
        assert latest_checkpoint(tmp_path).metadata == {"epoch": 1}
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert "DAMAGED CHECKPOINT passed over" in texts[0]
    assert "epoch-000003/state.safetensors" in texts[0]
    assert "epoch-000002/manifest.json" in texts[1]


def test_all_damaged_is_an_error(tmp_path):
    save_epochs(tmp_path, 1, 2)
    for epoch in (1, 2):
        (checkpoint_folder(tmp_path, epoch) / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* is intact: .*000002.*000001"):
        latest_checkpoint(tmp_path)


def test_a_folder_for_checkpoints_is_none(tmp_path):
    assert not has_epoch(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    assert not has_epoch(tmp_path)
    save_epochs(tmp_path, 2)
    assert has_epoch(tmp_path)


def test_a_wrong_path_is_never_a_fresh_start(tmp_path):
    with pytest.raises(MissingFileError, match="does not exist"):
        latest_checkpoint(tmp_path / "typo")
    with pytest.raises(MissingFileError, match="holds no checkpoint"):
        latest_checkpoint(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(MissingFileError, match="holds no checkpoint"):
        latest_checkpoint(tmp_path)
    with pytest.raises(MissingFileError, match="no checkpoint at"):
        load_checkpoint(checkpoint_folder(tmp_path, 3))


def test_old_ones_are_pruned(tmp_path):
    for epoch in range(1, 6):
        save_checkpoint(checkpoint_folder(tmp_path, epoch), *small(epoch))
    assert names(tmp_path) == ["epoch-000004", "epoch-000005"]
    # A run resumed from an earlier epoch does not lose what it has just saved.
    save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))
    assert names(tmp_path) == ["epoch-000002", "epoch-000004", "epoch-000005"]
    save_checkpoint(checkpoint_folder(tmp_path, 6), *small(6), keep=1)
    assert names(tmp_path) == ["epoch-000006"]


def test_of_an_old_one_as_much_is_removed_as_can_be(tmp_path, monkeypatch):
    """A file that stays keeps no other one, and ends no run."""
    save_epochs(tmp_path, 1, 2)
    asked = []

    def refuse(path, **_):
        asked.append(os.path.basename(path))
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    prune(checkpoint_folder(tmp_path, 2), keep=1)
    assert sorted(asked) == sorted(FILES)
    assert not checkpoint_folder(tmp_path, 1).exists()


def test_a_checkpoint_of_the_same_epoch_is_replaced(tmp_path):
    save_epochs(tmp_path, 1, 2)
    flip(checkpoint_folder(tmp_path, 2) / "state.json", 3, 1)
    save_checkpoint(checkpoint_folder(tmp_path, 2), {}, {"epoch": 2, "again": True})
    assert latest_checkpoint(tmp_path).metadata["again"]
    assert names(tmp_path) == ["epoch-000001", "epoch-000002"]


def test_metadata_that_is_no_table_is_refused(tmp_path):
    folder = save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    (folder / "state.json").write_bytes(b"[1, 2]\n")
    files = {name: (folder / name).read_bytes() for name in FILES if name != "manifest.json"}
    (folder / "manifest.json").write_bytes(checkpoint._manifest_bytes(files))
    with pytest.raises(CheckpointError, match=r"state\.json: expected a table, got list"):
        load_checkpoint(folder)


def test_a_tensor_that_the_format_does_not_know_is_refused(tmp_path):
    strange = torch.zeros(2, dtype=torch.complex128)
    with pytest.raises(InvalidTypeError, match=r"tensors cannot be saved: .*128"):
        save_checkpoint(checkpoint_folder(tmp_path, 1), {"a": strange}, {})
    assert not list(tmp_path.iterdir())
