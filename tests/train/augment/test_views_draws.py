"""Every piece of a view against its definition, by the random numbers that are its own.

The numbers of a sample are drawn in tables whose columns belong to the pieces, so that a run is
repeated by its seed: a column that moves changes every run.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from dualclust.train.augment import color, draws, views
from dualclust.train.augment.crops import crop_boxes
from dualclust.train.augment.geometry import affine_matrix, warp
from dualclust.train.augment.views import augment
from dualclust.train.config.run import AugmentConfig
from dualclust.train.state.seeding import generator

B, C, H, W = 7, 3, 10, 14
BACKGROUND = torch.tensor([-0.8, 0.3, 0.1], dtype=torch.float64)
SHIFT = BACKGROUND[:, None, None]


@pytest.fixture
def images():
    return torch.randn(B, C, H, W, generator=generator(3), dtype=torch.float64)


def tables(*, elastic=False, noise=None, pixels=True):
    """What a generator gives: 12 columns, then 4 × 4 knots, noise, and 29 columns."""
    draws = generator(0, "view")
    options = {"generator": draws, "dtype": torch.float64}
    first = torch.rand(B, 12, **options).unbind(1)
    knots = torch.rand(B, 2, 4, 4, **options) if elastic else None
    added = torch.randn(B, *noise, **options) if noise else None
    second = torch.rand(B, 29, **options).unbind(1) if pixels else None
    return first, knots, added, second


def drawn(images, **settings):
    return augment(images, AugmentConfig(**settings), generator(0, "view"), BACKGROUND)


def around(u, strength):
    """Uniform in ± strength."""
    return strength * (2 * u - 1)


def tall(x):
    return x[:, None, None, None]


@pytest.mark.parametrize("flip", [False, True])
def test_the_affine_map_takes_the_first_six_columns(images, flip):
    (angle, x, y, zoom, shear, mirrored, *_), knots, _, _ = tables(elastic=True)
    theta = affine_matrix(
        angle=around(angle, math.pi / 9),
        shift_x=around(x, 0.2),
        shift_y=around(y, 0.2),
        zoom=0.8 * (1.5 / 0.8) ** zoom,
        shear=around(shear, math.pi / 18),
        flip=(mirrored < 0.5) & flip,
        height=H,
        width=W,
    )
    field = F.interpolate(around(knots, 0.1), (H, W), mode="bicubic", align_corners=True)
    settings = {"rotate": 20, "translate": 0.2, "scale": (0.8, 1.5), "shear": 10, "flip": flip}
    found = drawn(images, **settings, elastic=0.05)
    torch.testing.assert_close(found, warp(images - SHIFT, theta, field) + SHIFT)
    # Without the field, the same map.
    torch.testing.assert_close(drawn(images, **settings), warp(images - SHIFT, theta) + SHIFT)


def test_a_crop_takes_the_first_columns_of_the_second_table(images):
    _, knots, _, second = tables(elastic=True)
    area, ratio, at = (torch.stack(second[a:b], 1) for a, b in ((0, 10), (10, 20), (20, 22)))
    boxes = crop_boxes(area, ratio, at, crop=(0.2, 0.9), ratios=(0.5, 1.5), height=H, width=W)
    # sqrt(0.9 * 10 * 14) = 11.2 pixels for 5: two places a pixel, along each side.
    field = F.interpolate(around(knots, 0.1), (5, 5), mode="bicubic", align_corners=True)
    found = drawn(images, crop=(0.2, 0.9), ratio=(0.5, 1.5), size=5, elastic=0.05)
    expected = warp(images - SHIFT, None, field, boxes, size=(5, 5), finer=2) + SHIFT
    torch.testing.assert_close(found, expected)
    # Of its own size: one place a pixel, and nothing is clipped.
    *_, second = tables()
    area, ratio, at = (torch.stack(second[a:b], 1) for a, b in ((0, 10), (10, 20), (20, 22)))
    boxes = crop_boxes(area, ratio, at, crop=(0.2, 0.9), ratios=(0.5, 1.5), height=H, width=W)
    found = drawn(images, crop=(0.2, 0.9), ratio=(0.5, 1.5))
    torch.testing.assert_close(found, warp(images - SHIFT, None, None, boxes) + SHIFT)


def test_a_displacement_is_constant_within_a_pixel_of_the_view(images):
    """A pixel of a small view is the mean of places that all move alike."""
    field = torch.zeros(B, 2, 5, 7, dtype=torch.float64)
    field[:, 0, :, :3] = 2 * 2 / W  # two pixels of the image to the right
    found = warp(images, None, field, size=(5, 7), finer=2)
    plain = F.avg_pool2d(images, 2)
    torch.testing.assert_close(found[..., 3:], plain[..., 3:])
    torch.testing.assert_close(found[..., :3], plain[..., 1:4])


@pytest.mark.parametrize("size", [3, 4, 24, 40])
def test_a_view_reads_as_many_places_as_its_box_has_pixels(images, size):
    """sqrt(10 * 14) = 11.8 pixels: 4 places along a side for 3, 3 for 4, one for more."""
    whole = torch.tensor([0.0, 0, W, H], dtype=torch.float64).expand(B, 4)
    finer = {3: 4, 4: 3, 24: 1, 40: 1}[size]
    expected = warp(images - SHIFT, None, None, whole, size=(size, size), finer=finer) + SHIFT
    torch.testing.assert_close(drawn(images, size=size), expected)


def test_contrast_brightness_and_noise(images):
    first, _, noise, _ = tables(noise=(C, H, W))
    expected = (images - SHIFT) * (1 + tall(around(first[6], 0.4)))
    expected = expected + tall(around(first[7], 0.3)) + 0.2 * noise + SHIFT
    found = drawn(images, contrast=0.4, brightness=0.3, noise=0.2)
    torch.testing.assert_close(found, expected)


def test_a_blur_has_a_width_between_the_two(images):
    first, *_ = tables()
    sigma = torch.where(first[8] < 0.6, 0.3 + 1.2 * first[9], 0.02)
    assert 0 < int((sigma == 0.02).sum()) < B
    found = drawn(images, blur=0.6, blur_sigma=(0.3, 1.5))
    torch.testing.assert_close(found, color.blur(images - SHIFT, sigma) + SHIFT)


def test_a_cut_out_square_lies_where_its_columns_say(images):
    first, *_ = tables()
    found = drawn(images, cutout=0.5)
    for i, view in enumerate(found):
        x, y = float(first[10][i]), float(first[11][i])
        for row in range(H):
            for column in range(W):
                away = max(abs((row + 0.5) / H - y), abs((column + 0.5) / W - x))
                kept = images[i, :, row, column] if away > 0.25 else BACKGROUND
                torch.testing.assert_close(view[:, row, column], kept)


def test_colors_take_the_last_columns(images):
    """Jitter, gray, then solarization, of pixels from 0 to 1 after a contrast that leaves them."""
    mean, std = torch.tensor([0.4, 0.5, 0.6]).double(), torch.tensor([0.2, 0.3, 0.25]).double()
    (*_, stretched, _, _, _, _, _), _, _, second = tables()
    jitter, bright, contrast, colored, turn, gray, solarized = second[22:]
    raw = (images - SHIFT) * (1 + tall(around(stretched, 0.9))) + SHIFT
    pixels = (raw * std[:, None, None] + mean[:, None, None]).clamp(0, 1)
    # The last strength is 1.5: a factor from 0, not from -0.5, to 2.5.
    factors = torch.stack(
        [1 + around(bright, 0.4), 1 + around(contrast, 0.3), 2.5 * colored], dim=1
    )
    changed = color.jitter(pixels, factors, around(turn, 0.1))
    pixels = torch.where(tall(jitter < 0.7), changed, pixels)
    pixels = torch.where(tall(gray < 0.4), color.grayscale(pixels), pixels)
    pixels = torch.where(tall(solarized < 0.5), color.solarize(pixels), pixels)
    options = AugmentConfig(
        contrast=0.9,
        jitter=(0.4, 0.3, 1.5, 0.1),
        jitter_probability=0.7,
        gray=0.4,
        solarize=0.5,
    )
    found = augment(images, options, generator(0, "view"), BACKGROUND, scale=(mean, std))
    expected = (pixels - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(found, expected)


def test_solarization_alone_clips_to_pixels(images):
    _, _, _, second = tables()
    pixels = images.clamp(0, 1)
    expected = torch.where(tall(second[28] < 0.5), color.solarize(pixels), pixels)
    torch.testing.assert_close(
        augment(images, AugmentConfig(solarize=0.5), generator(0, "view")), expected
    )


def test_a_number_at_its_threshold_chooses_nothing(images, monkeypatch):
    """Uniform numbers lie in [0, 1): below p with probability p, so that p itself is not below."""

    def half(draw, *shape):
        return torch.full((B, *shape), 0.5, dtype=torch.float64)

    monkeypatch.setattr(draws._Draws, "uniform", half)
    pixels = images.clamp(0, 1)
    options = AugmentConfig(
        flip=True, blur=0.5, gray=0.5, solarize=0.5, jitter=(0.4, 0, 0, 0.2), jitter_probability=0.5
    )
    torch.testing.assert_close(augment(pixels, options, generator(0)), pixels)
    # The middle factor of a jitter, no turn: an image as it was; then one that is turned gray.
    options = AugmentConfig(jitter=(0.4, 0.4, 0.4, 0.2), jitter_probability=1.0, gray=0.6)
    torch.testing.assert_close(augment(pixels, options, generator(0)), color.grayscale(pixels))
    # A mask of one half keeps what has one half; a square as wide as two pixels' distance has both.
    rows = torch.ones(B, 5, dtype=torch.float64)
    assert torch.equal(augment(rows, AugmentConfig(mask=0.5), generator(0)), rows)
    square = augment(torch.ones(B, 1, 16, 16).double(), AugmentConfig(cutout=1 / 16), generator(0))
    expected = torch.ones(16, 16, dtype=torch.float64)
    expected[7:9, 7:9] = 0
    assert torch.equal(square, expected.expand(B, 1, 16, 16))


def test_embeddings_take_noise_and_then_a_mask():
    rows = torch.randn(B, 5, generator=generator(4), dtype=torch.float64)
    draws = generator(0, "view")
    noise = torch.randn(B, 5, generator=draws, dtype=torch.float64)
    kept = torch.rand(B, 5, generator=draws, dtype=torch.float64) >= 0.3
    found = augment(rows, AugmentConfig(noise=0.2, mask=0.3), generator(0, "view"))
    torch.testing.assert_close(found, (rows + 0.2 * noise) * kept)


def test_a_rank_without_rows_gets_an_empty_view(images):
    found = augment(images[:0], AugmentConfig(brightness=0.3), generator(0), part=(B, B))
    assert found.shape == (0, C, H, W)


def test_what_does_not_move_is_read_to_the_bit(images):
    """No grid is laid over an image that only changes its values, nor over one without settings."""
    first, *_ = tables()
    assert augment(images, AugmentConfig(), generator(0, "view")) is images
    found = augment(images, AugmentConfig(brightness=0.3), generator(0, "view"))
    assert torch.equal(found, images + tall(around(first[7], 0.3)))
    found = augment(images, AugmentConfig(contrast=0.4), generator(0, "view"))
    assert torch.equal(found, images * (1 + around(first[6], 0.4))[:, None, None, None])


def test_a_square_is_cut_out_in_the_precision_of_the_image():
    """The center of pixel 5 of 10 is 0.55; in single precision it would be 1e-8 farther."""
    for place, kept in ((0.450000001, False), (0.449999999, True)):
        u = torch.tensor([place], dtype=torch.float64)
        assert bool(views._outside(u, 10, 0.2)[0, 5]) == kept
