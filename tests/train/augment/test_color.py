"""Colors of images that are one of a batch, one pixel high, or gray; and at their thresholds."""

import pytest
import torch

from dualclust.train.augment import color
from dualclust.train.state.seeding import generator

CHANGES = {
    "brightness": torch.tensor([1.5]),
    "contrast": torch.tensor([0.4]),
    "saturation": torch.tensor([0.4]),
    "hue": torch.tensor([0.3]),
}


def pixels(*shape):
    return torch.rand(shape, generator=generator(0, "pixels"), dtype=torch.float64)


@pytest.mark.parametrize("name", CHANGES)
def test_a_batch_of_one_and_images_of_one_row(name):
    """Each sample and, but for the contrast, each pixel is changed by itself."""
    function, value = getattr(color, name), CHANGES[name].double()
    batch = pixels(3, 3, 4, 5)
    whole = function(batch, value.expand(3))
    assert (whole - batch).abs().max() > 0.05
    torch.testing.assert_close(function(batch[:1], value), whole[:1])
    if name != "contrast":
        torch.testing.assert_close(function(batch[:, :, :1], value.expand(3)), whole[:, :, :1])


@pytest.mark.parametrize("function", [color.saturation, color.hue])
def test_gray_images_are_returned_themselves(function):
    gray = pixels(2, 1, 4, 4)
    assert function(gray, torch.tensor([0.5, 0.2]).double()) is gray


def test_gray_versions_of_gray_images_are_the_images():
    gray = pixels(2, 1, 4, 4)
    assert torch.equal(color.grayscale(gray), gray)


def test_what_leaves_the_range_is_clipped():
    images = torch.tensor([0.2, 0.9], dtype=torch.float64).view(1, 1, 1, 2)
    bright = color.brightness(images, torch.tensor([2.0]).double())
    assert bright.flatten().tolist() == [0.4, 1.0]
    stretched = color.contrast(images, torch.tensor([3.0]).double())
    assert stretched.flatten().tolist() == [0.0, 1.0]


def test_the_hue_of_the_pure_colors():
    """A third of a turn takes red to green, green to blue and blue to red; gray has no hue."""
    colors = torch.eye(3, dtype=torch.float64)
    images = torch.cat([colors, torch.full((3, 1), 0.4)], dim=1).view(1, 3, 1, 4)
    found = color.hue(images, torch.tensor([1 / 3]).double())[0, :, 0]
    expected = torch.cat([colors[:, [1, 2, 0]], torch.full((3, 1), 0.4)], dim=1)
    torch.testing.assert_close(found, expected)
