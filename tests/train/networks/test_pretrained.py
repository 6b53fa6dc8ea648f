"""Encoders that have learned: what their pixels become, and what tells them apart."""

import pytest
import safetensors.torch
import torch
from torch import nn

from dualclust.algos.core.errors import CheckpointError, UsageError
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import NetworkConfig, RunConfig
from dualclust.train.networks.libraries import Pixels
from dualclust.train.networks.pretrained import (
    Pretrained,
    Standardized,
    check_digest,
    check_own,
    digest_of,
    load_start,
    start_digest,
)

PIXELS = Pixels((4, 6), (0.5, 0.25, 0.0), (0.5, 0.25, 2.0))


class Asked(nn.Module):
    """Returns rows of what it was asked about, all of it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2).half())

    def forward(self, images):
        return images.flatten(1)


def test_pixels_are_normalized_by_channel_and_gray_ones_stand_in_each():
    encoder = Pretrained(Asked(), PIXELS, "described")
    assert encoder.module.weight.dtype == torch.float32
    assert encoder.architecture == "described"
    x = torch.rand(2, 3, 4, 6)
    mean, std = (torch.tensor(part)[:, None, None] for part in PIXELS[1:])
    assert torch.equal(encoder(x), ((x - mean) / std).flatten(1))
    gray = x[:, :1]
    assert torch.equal(encoder(gray), encoder(gray.expand(-1, 3, -1, -1)))
    assert list(encoder.state_dict()) == ["module.weight"]  # what a library says is no parameter


@pytest.mark.parametrize(
    ("shape", "resized"), [((4, 6), 0), ((6, 4), 1), ((4, 7), 1), ((8, 6), 1), ((3, 3), 1)]
)
def test_pixels_of_another_size_alone_are_resized(monkeypatch, shape, resized):
    """Bicubic with antialias, which may overshoot, and stays from 0 to 1 all the same."""
    asked = []

    def interpolate(images, size, **options):
        asked.append((tuple(images.shape), size, options))
        wide = torch.full((*images.shape[:2], *size), 1.5)
        wide[..., 0] = -0.5
        return wide

    monkeypatch.setattr(torch.nn.functional, "interpolate", interpolate)
    encoder = Pretrained(Asked(), Pixels((4, 6), (0.0,) * 3, (1.0,) * 3))
    found = encoder(torch.full((2, 3, *shape), 0.5)).reshape(2, 3, 4, 6)
    options = {"mode": "bicubic", "antialias": True, "align_corners": False}
    assert asked == [((2, 3, *shape), (4, 6), options)] * resized
    if resized:
        assert found.unique().tolist() == [0.0, 1.0]
    else:
        assert found.unique().tolist() == [0.5]


def test_features_are_divided_after_their_mean_has_gone():
    frozen = Standardized(nn.Identity(), torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    assert frozen(torch.tensor([[3.0, 2.0], [1.0, 10.0]])).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert set(frozen.state_dict()) == {"mean", "std"}


def test_a_digest_is_of_names_kinds_shapes_and_bits():
    base = {"a": torch.arange(6.0), "b": torch.tensor(1.0)}
    others = [
        {"a": base["a"], "c": base["b"]},
        {"a": base["a"].reshape(2, 3), "b": base["b"]},
        {"a": base["a"].view(torch.int32), "b": base["b"]},
        {"a": base["a"], "b": torch.tensor(-1.0)},
        {"a": base["a"]},
        {},
    ]
    digests = [digest_of(state) for state in (base, *others)]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {64}
    strided = torch.stack([base["a"], torch.zeros(6)], 1)[:, 0]
    turned = {"b": base["b"], "a": strided, "more": "no tensor"}
    assert digest_of(turned) == digests[0]
    layer = nn.BatchNorm1d(2)
    before = digest_of(layer)
    assert before == digest_of(layer.state_dict())
    layer.running_var[1] = 2.0  # a buffer
    assert digest_of(layer) != before


def test_what_a_run_starts_from_is_the_module_or_the_file(tmp_path):
    own = nn.Linear(2, 2)
    assert start_digest(RunConfig(), own) == digest_of(own)
    assert start_digest(RunConfig(), Pretrained(own, PIXELS)) == digest_of(own)
    for weights in ("", "random"):
        config = RunConfig(encoder=EncoderConfig(weights=weights))
        assert start_digest(config, None) == ""
    assert start_digest(RunConfig(), None) == ""
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file(own.state_dict(), path)
    config = RunConfig(encoder=EncoderConfig(weights=str(path)))
    assert start_digest(config, None) == digest_of(own)


def test_weights_that_are_not_those_of_the_start_are_refused():
    first, other = 64 * "a", 64 * "b"
    for options in (None, EncoderConfig(), EncoderConfig(digest=first)):
        check_digest(options, first)
    words = r"SHA-256 is b{16}\.\.\., and encoder\.digest a{16}\.\.\.\. To fix"
    with pytest.raises(CheckpointError, match=words):
        check_digest(EncoderConfig(digest=first), other)


def test_a_classifier_and_counts_are_left_out_and_nothing_else():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = {name: tensor + 1 for name, tensor in module.state_dict().items()}
    del state["1.num_batches_tracked"]
    heads = {name: torch.zeros(5) for name in ("fc.weight", "head.x", "classifier.1.bias")}
    extra = {"head_dist.weight": torch.zeros(1), "2.num_batches_tracked": torch.tensor(7)}
    load_start(module, {**state, **heads, **extra}, "w")
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in state.items())
    wrong = {
        "1.bias has no such tensor there, and the encoder (3,)": {"1.bias": None},
        "0.bias has (3, 1) there, and the encoder (3,)": {"0.bias": state["0.bias"][:, None]},
        "3.fc.weight has (2,) there, and the encoder no such tensor": {
            "3.fc.weight": torch.ones(2)
        },
    }
    for words, change in wrong.items():
        given = {k: v for k, v in {**state, **change}.items() if v is not None}
        with pytest.raises(UsageError) as error:
            load_start(module, given, "w.safetensors")
        assert f"the weights in w.safetensors are of another network: {words}" in str(error.value)
    own = nn.Module()
    own.fc = nn.Linear(1, 1)  # a layer of the encoder that is called like a classifier
    load_start(own, {"fc.weight": torch.full((1, 1), 3.0), "fc.bias": torch.zeros(1)}, "w")
    assert own.fc.weight.item() == 3.0


def test_a_module_is_known_by_its_class_wherever_that_is_defined():
    check_own(NetworkConfig(name="resnet18"), None)
    check_own(NetworkConfig(name="own:__main__.Linear"), nn.Linear(1, 1))
    with pytest.raises(
        UsageError, match=r"was started with the network __main__\.Other, and torch"
    ):
        check_own(NetworkConfig(name="own:__main__.Other"), nn.Linear(1, 1))
    with pytest.raises(UsageError, match=r"network\.name='resnet18', and a module of your own"):
        check_own(NetworkConfig(name="resnet18"), nn.Linear(1, 1))
