import errno
import json
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.errors import (
    CheckpointError,
    InvalidTypeError,
    MissingFileError,
    OutputError,
)
from dualclust.train import checkpoint
from dualclust.train.checkpoint import (
    CheckpointWarning,
    checkpoint_folder,
    latest_checkpoint,
    load_checkpoint,
    pack,
    save_checkpoint,
    unpack,
)

FILES = ("state.safetensors", "state.json", "manifest.json")
METADATA = {
    "epoch": 12,
    "lr": 0.1,
    "bounds": [0.9, math.inf],
    "name": "naïve “run”\n",
    "big": 2**70,
    "done": False,
    "none": None,
    "nested": {"a": [1, 2.0, {"b": []}]},
}


def everything():
    g = torch.Generator().manual_seed(0)
    base = torch.randn(6, 5, generator=g)
    return {
        "float32": base,
        "float64": torch.randn(3, 4, generator=g, dtype=torch.float64),
        "float16": base.half(),
        "bfloat16": base.bfloat16(),
        "int64": torch.tensor([-(2**63), 2**63 - 1]),
        "int32": torch.tensor([1, -1], dtype=torch.int32),
        "uint8": torch.arange(256).to(torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "scalar.bool": torch.tensor(True),
        "empty": torch.zeros(0, 3),
        "empty too": torch.zeros(0, 3),
        "special": torch.tensor([math.nan, math.inf, -0.0, 5e-324], dtype=torch.float64),
        "transposed": base.T,
        "a view": base[2:4],
        "the same again": base,
        "expanded": torch.ones(1, 3).expand(4, 3),
        "a parameter": nn.Parameter(torch.ones(2)),
    }


def assert_identical(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        a, b = found[name], tensor.detach().contiguous()
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        bits = [x.reshape(-1).view(torch.uint8) for x in (a, b)]
        assert torch.equal(*bits), name


def small(epoch):
    return {"w": torch.full((40,), float(epoch))}, {"epoch": epoch}


def save_epochs(run, *epochs):
    for epoch in epochs:
        save_checkpoint(checkpoint_folder(run, epoch), *small(epoch), keep=10)


def names(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def flip(path, position, bit):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


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


def test_a_checkpoint_of_the_same_epoch_is_replaced(tmp_path):
    save_epochs(tmp_path, 1, 2)
    flip(checkpoint_folder(tmp_path, 2) / "state.json", 3, 1)
    save_checkpoint(checkpoint_folder(tmp_path, 2), {}, {"epoch": 2, "again": True})
    assert latest_checkpoint(tmp_path).metadata["again"]
    assert names(tmp_path) == ["epoch-000001", "epoch-000002"]


# -- interruption ---------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def kill_at(monkeypatch, n):
    """Let the n-th operation on the disk be the one that does not happen, nor any after it."""
    left = [n]

    def wrap(module, name):
        original = getattr(module, name)

        def operation(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                if name == "_write_file" and left[0] == -1:  # killed in the middle of the file
                    args[0].write_bytes(args[1][: len(args[1]) // 2])
                raise Killed
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, operation)

    wrap(checkpoint, "_write_file")
    wrap(os, "fsync")
    wrap(os, "replace")
    wrap(os, "rmdir")
    wrap(os, "unlink")
    wrap(shutil, "rmtree")
    return left


@pytest.mark.parametrize("epochs", [(1, 2, 3), (3,)], ids=["next", "same epoch again"])
def test_killed_anywhere_a_good_checkpoint_remains(tmp_path, monkeypatch, epochs):
    for n in range(100):
        run = tmp_path / f"run{n}"
        save_epochs(run, *epochs)
        before, after = {"epoch": 3}, {"epoch": 4 if len(epochs) > 1 else 3, "new": True}
        with monkeypatch.context() as patch:
            left = kill_at(patch, n)
            try:
                save_checkpoint(checkpoint_folder(run, after["epoch"]), {}, after)
                finished = left[0] >= 0
            except Killed:
                finished = False
        found = latest_checkpoint(run).metadata
        assert found == after if finished else found in (before, after)
        # The next save cleans up.
        save_checkpoint(checkpoint_folder(run, 5), *small(5))
        assert len(names(run)) == 2
        assert latest_checkpoint(run).metadata == {"epoch": 5}
        if finished:
            break
    assert n > 8


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
def test_a_full_disk_leaves_the_old_one_intact(tmp_path, monkeypatch, name):
    save_epochs(tmp_path, 1)

    def write(path, content):
        path.write_bytes(content[:10])
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "_write_file", write)
    with pytest.raises(OutputError, match=r"epoch-000002: No space left on device\. Earlier"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))
    assert names(tmp_path) == ["epoch-000001"]
    assert latest_checkpoint(tmp_path).metadata == {"epoch": 1}


def test_a_failed_rename_leaves_the_old_one_intact(tmp_path, monkeypatch):
    save_epochs(tmp_path, 1)

    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match="Permission denied"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))
    assert names(tmp_path) == ["epoch-000001"]


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(OutputError, match="cannot save the checkpoint"):
        save_checkpoint(checkpoint_folder(tmp_path, 2), *small(2))


@pytest.mark.skipif(os.name != "posix", reason="file size limits are POSIX")
def test_a_real_limit_on_file_size(tmp_path):
    code = """
        import resource, sys, torch
        from dualclust.algos.errors import OutputError
        from dualclust.train.checkpoint import *
        save_checkpoint(checkpoint_folder(sys.argv[1], 1), {}, {"epoch": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            save_checkpoint(checkpoint_folder(sys.argv[1], 2), {"w": torch.ones(9999)}, {})
        except OutputError as error:
            print(error)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "File too large. Earlier checkpoints are unchanged" in out.stdout
    assert names(tmp_path) == ["epoch-000001"]
    assert latest_checkpoint(tmp_path).metadata == {"epoch": 1}


def test_files_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    log = []
    write, replace, fsync = checkpoint._write_file, os.replace, os.fsync
    monkeypatch.setattr(
        checkpoint, "_write_file", lambda p, c: (write(p, c), log.append(p.name))[0]
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (replace(a, b), log.append("rename"))[0])
    monkeypatch.setattr(os, "fsync", lambda h: (fsync(h), log.append("flush"))[0])
    save_checkpoint(checkpoint_folder(tmp_path, 1), *small(1))
    assert log == [
        *("flush", "state.safetensors", "flush", "state.json", "flush", "manifest.json"),
        *("flush", "rename", "flush"),
    ]


# -- nested states --------------------------------------------------------------------------------


def trained(make):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = make(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def same(a, b):
    if torch.is_tensor(a):
        return torch.is_tensor(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or a != a)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), amsgrad=True),
        lambda p: torch.optim.AdamW([{"params": list(p), "lr": 0.3}], weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.01),
    ],
    ids=["sgd-momentum", "adam", "adamw", "sgd"],
)
def test_optimizer_states_survive_the_disk(tmp_path, make):
    model, optimizer = trained(make)
    tensors, tree = pack(optimizer.state_dict(), "optimizer")
    weights, layout = pack(model.state_dict(), "model")
    save_checkpoint(
        checkpoint_folder(tmp_path, 3), tensors | weights, {"optim": tree, "model": layout}
    )
    found = latest_checkpoint(tmp_path)
    state = unpack(found.tensors, found.metadata["optim"])
    assert same(state, optimizer.state_dict())
    again, resumed = trained(make)
    resumed.load_state_dict(state)
    again.load_state_dict(unpack(found.tensors, found.metadata["model"]))
    for net, opt in ((model, optimizer), (again, resumed)):
        opt.zero_grad()
        net(torch.ones(2, 4)).square().sum().backward()
        opt.step()
    assert all(map(torch.equal, model.parameters(), again.parameters()))


def test_pack_keeps_types_and_keys_apart():
    state = {
        0: torch.zeros(1),
        "0": torch.ones(1),
        "tensor": {"tensor": "state.0"},
        "dict": [],
        "tuple": (1, (2.5, [None, True, math.inf]), {}),
        -7: {"": ""},
    }
    tensors, tree = pack(state)
    assert len(tensors) == 2
    assert same(unpack(tensors, json.loads(json.dumps(tree))), state)
    assert torch.is_tensor(unpack(*pack(torch.ones(2))))


def test_pack_and_unpack_name_what_they_cannot_do():
    with pytest.raises(InvalidTypeError, match=r"state\.a has the key 1\.5; keys must be str or"):
        pack({"a": {1.5: 2}})
    with pytest.raises(InvalidTypeError, match=r"state\.a\.1 is a set"):
        pack({"a": [1, {2}]})
    with pytest.raises(CheckpointError, match=r"refers to {'tensor': 'gone'}"):
        unpack({}, {"dict": [["a", {"tensor": "gone"}]]})
    with pytest.raises(CheckpointError, match=r"refers to {'other': 1}"):
        unpack({}, {"other": 1})
