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
