"""How the convolutions of a ResNet start, and what a stem does."""

import pytest
import torch
from torch import nn

from dualclust.train.networks.resnets import resnet


def test_convolutions_start_as_he_et_al_have_them():
    """Deviation sqrt(2 / (k² channels out)), by the outputs; normalization starts at one."""
    torch.manual_seed(0)
    encoder, dim = resnet(18, "cifar", 16, (3, 32, 32))
    assert dim == 128
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 2000:
            kernel, out = module.kernel_size[0], module.out_channels
            deviation = float(module.weight.detach().std())
            assert deviation == pytest.approx((2 / (kernel**2 * out)) ** 0.5, rel=0.1)
    weights = [m.weight for n, m in encoder.named_modules() if "bn" in n]
    assert all((weight == 1).all() for weight in weights)


@pytest.mark.parametrize(
    ("stem", "conv", "pool"),
    [
        ("cifar", (3, 1, 1), None),
        ("stl", (3, 1, 1), (2, 2, 1)),
        ("imagenet", (7, 2, 3), (3, 2, 1)),
    ],
)
def test_stems(stem, conv, pool):
    """Kernel, stride and padding of the first convolution, and of the maximum behind it."""
    with torch.device("meta"):
        encoder, _ = resnet(18, stem, 2, (3, 64, 64))
    first = encoder.conv1
    assert (first.kernel_size[0], first.stride[0], first.padding[0]) == conv
    assert first.bias is None
    found = getattr(encoder, "maxpool", None)
    assert (found and (found.kernel_size, found.stride, found.padding)) == pool


def test_what_comes_before_and_after_the_stages():
    with torch.device("meta"):
        encoder, _ = resnet(50, "imagenet", 2, (3, 64, 64))
    names = [name for name, _ in encoder.named_children()]
    stages = [f"layer{i}" for i in range(1, 5)]
    assert names == ["conv1", "bn1", "relu", "maxpool", *stages, "avgpool", "flatten"]
    assert isinstance(encoder.relu, nn.ReLU)
    # The 3 × 3 convolution of a bottleneck has the stride, and the shortcut beside it.
    for stage, step in (("layer1", 1), ("layer2", 2)):
        first, second = getattr(encoder, stage)[:2]
        strides = [getattr(first, f"conv{i}").stride[0] for i in (1, 2, 3)]
        assert strides == [1, step, 1]
        assert first.downsample[0].stride == (step, step)
        assert second.downsample is None
        assert [getattr(first, f"conv{i}").padding[0] for i in (1, 2, 3)] == [0, 1, 0]
        assert all(getattr(first, f"conv{i}").bias is None for i in (1, 2, 3))
        assert first.downsample[0].bias is None
