"""Nested states, such as an optimizer's, survive the disk without loss."""

import json
import math

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import CheckpointError, InvalidTypeError
from dualclust.train.state.checkpoint import (
    check_json,
    checkpoint_folder,
    latest_checkpoint,
    pack,
    save_checkpoint,
    unpack,
)


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
    with pytest.raises(InvalidTypeError, match=r"state\.a has the key True; keys must be str or"):
        pack({"a": {"b": 1, 2: 2, True: 3}})
    with pytest.raises(InvalidTypeError, match=r"state\.a\.1 is a set"):
        pack({"a": [1, {2}]})
    with pytest.raises(CheckpointError, match=r"refers to {'tensor': 'gone'}"):
        unpack({}, {"dict": [["a", {"tensor": "gone"}]]})
    with pytest.raises(CheckpointError, match=r"refers to {'other': 1}"):
        unpack({}, {"other": 1})


@pytest.mark.parametrize(
    ("value", "path"),
    [({"a": 1, "b": {2}}, "m.b"), ([0, [{"c": 0, "d": {2}}]], r"m\[1\]\[0\]\.d")],
)
def test_what_json_would_change_is_found_behind_what_it_keeps(value, path):
    with pytest.raises(InvalidTypeError, match=f"^{path} is a set, which cannot be saved"):
        check_json(value, "m")


@pytest.mark.parametrize("pair", ["ab", ["a"], ["a", 1, 2], [1.5, 2], [True, 2], [["a"], 2], 7])
def test_a_pair_is_a_key_and_a_value(pair):
    assert unpack({}, {"dict": [["a", 1], [2, "b"]]}) == {"a": 1, 2: "b"}
    with pytest.raises(CheckpointError, match="which the checkpoint does not hold"):
        unpack({}, {"dict": [["a", 1], pair]})
