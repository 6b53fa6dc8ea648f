"""Checkpoints that several tests save, and how they are compared and damaged."""

import math

import torch
from torch import nn

from dualclust.train.state.checkpoint import checkpoint_folder, save_checkpoint

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
