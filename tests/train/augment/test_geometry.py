"""Where a view of a box is read: inside its own pixels, outside in the image around it."""

import pytest
import torch

from dualclust.train.augment.geometry import warp

BOX = torch.tensor([[2.0, 1.0, 4.0, 5.0]], dtype=torch.float64)  # left, top, width, height


def ramp(axis, h=8, w=9):
    at = torch.arange((h, w)[axis], dtype=torch.float64)
    return (at[:, None] if axis == 0 else at).expand(1, 1, h, w)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_place_in_the_box_stays_among_its_pixels(axis):
    """A ramp shows the place that is read: kept to the outermost pixels inside, free outside."""
    theta = 1.5 * torch.eye(2, 3, dtype=torch.float64)[None]
    view = warp(ramp(axis), theta, None, BOX, size=(10, 10))[0, 0]
    line = view[:, 4] if axis == 0 else view[4]
    low, side, last = (1, 5, 7) if axis == 0 else (2, 4, 8)
    for i, found in enumerate(line.tolist()):
        at = 1.5 * ((i + 0.5) / 5 - 1)  # -1 to 1 is the box
        place = low + side * (at + 1) / 2 - 0.5
        if abs(at) <= 1:
            place = min(max(place, low), low + side - 1)
        if 0 <= place <= last:
            assert found == pytest.approx(place, abs=1e-12)


def test_the_edge_of_the_box_belongs_to_it():
    """At -1 and 1 exactly the outermost pixel is read, not its mean with the one outside."""
    theta = 2.0 * torch.eye(2, 3, dtype=torch.float64)[None]  # two pixels: at -1 and 1
    view = warp(ramp(1), theta, None, BOX, size=(1, 2))[0, 0]
    assert view[0].tolist() == pytest.approx([2.0, 5.0])


def test_a_view_of_the_box_without_a_map_is_the_box():
    images = torch.arange(72, dtype=torch.float64).view(1, 1, 8, 9)
    view = warp(images, None, None, BOX, size=(5, 4))
    torch.testing.assert_close(view, images[:, :, 1:6, 2:6])
