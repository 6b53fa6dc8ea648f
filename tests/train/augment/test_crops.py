"""Boxes of crops by hand: the last try, the sides that just fit, and what is said of a cut."""

import pytest
import torch

from dualclust.train.augment.crops import NUMBERS, TRIES, Cut, crop_boxes, random_cut

WIDE = 0.99  # a ratio that does not fit, where a half does
SQUARE = {"crop": (0.25, 1.0), "ratio": (0.25, 4.0)}


def boxes(numbers, *, height, width, crop, ratio):
    """The batched rule for one picture."""
    row = torch.tensor([numbers], dtype=torch.float64)
    found = crop_boxes(
        row[:, :10], row[:, 10:20], row[:, 20:], crop=crop, ratios=ratio, height=height, width=width
    )
    return tuple(map(int, found[0].tolist()))


@pytest.mark.parametrize("fits", [0, 1, 8, 9, None])
def test_the_first_of_ten_draws_that_fits(fits):
    """A picture of 10 × 10: areas near 1 with a ratio near 4 are too wide, a half area is not."""
    assert (TRIES, NUMBERS) == (10, 22)
    areas, ratios = [0.99] * 10, [WIDE] * 10
    if fits is not None:
        areas[fits:] = [0.0] * (10 - fits)
        ratios[fits:] = [0.5] * (10 - fits)
    numbers = [*areas, *ratios, 0.99, 0.5]
    box = (5, 3, 5, 5) if fits is not None else (0, 0, 10, 10)
    cut = random_cut(10, 10, numbers, size=7, **SQUARE)
    assert cut == Cut(box, (7, 7), (0, 0), 7)
    assert boxes(numbers, height=10, width=10, **SQUARE) == box


@pytest.mark.parametrize(
    ("height", "width", "area", "shape", "box"),
    [
        (1, 9, 0.5, 0.5, (3, 0, 2, 1)),  # 2 × 2 pixels are too high: the largest in the middle
        (9, 1, 0.5, 0.5, (0, 3, 1, 2)),
        (3, 5, 0.467, 0.5, (2, 0, 3, 3)),  # sqrt(0.6 * 15) = 3, as high as the picture
        (5, 3, 0.467, 0.5, (0, 2, 3, 3)),
        (2, 2, 0.0, 0.5, (1, 1, 1, 1)),  # one pixel
    ],
)
def test_sides_of_one_pixel_and_of_the_whole(height, width, area, shape, box):
    settings = {"crop": (0.25, 1.0), "ratio": (0.5, 2.0)}
    numbers = [area] * 10 + [shape] * 10 + [0.75, 0.75]
    assert random_cut(width, height, numbers, size=4, **settings) == Cut(box, (4, 4), (0, 0), 4)
    assert boxes(numbers, height=height, width=width, **settings) == box


@pytest.mark.parametrize(("height", "width"), [(2, 3), (3, 2), (4, 1), (1, 4), (5, 5)])
def test_small_pictures_in_both_rules_against_a_plain_one(height, width):
    """Sides of 0, 1 and all pixels come up; an inline rule with every comparison written out."""
    crop, ratio = (0.02, 1.0), (0.5, 2.0)
    rows = torch.rand(60, 22, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    seen = set()
    for numbers in rows.tolist():
        for area, shape in zip(numbers[:10], numbers[10:20], strict=True):
            pixels = (0.02 + 0.98 * area) * height * width
            wide = 0.5 * 4.0**shape
            across, down = round((pixels * wide) ** 0.5), round((pixels / wide) ** 0.5)
            if not (across == 0 or across > width or down == 0 or down > height):
                left = int(numbers[20] * (width - across + 1))
                top = int(numbers[21] * (height - down + 1))
                break
        else:
            wide = min(max(width / height, 0.5), 2.0)
            across, down = round(min(width, height * wide)), round(min(height, width / wide))
            left, top = (width - across) // 2, (height - down) // 2
        expected = (left, top, across, down)
        seen.add((across, down))
        assert random_cut(width, height, numbers, size=4, crop=crop, ratio=ratio).box == expected
        assert boxes(numbers, height=height, width=width, crop=crop, ratio=ratio) == expected
    assert len(seen) > 1 or 1 in (height, width)
