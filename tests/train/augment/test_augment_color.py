"""Colors and sharpness against Pillow, colorsys and SciPy; what is drawn against what is asked."""

import colorsys

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.augment import color
from dualclust.train.augment.views import augment
from dualclust.train.config.run import AugmentConfig
from dualclust.train.state.seeding import generator
from tests.train.augment.test_augment import READS, Counter

Image = pytest.importorskip("PIL.Image")
ImageEnhance = pytest.importorskip("PIL.ImageEnhance")
ImageOps = pytest.importorskip("PIL.ImageOps")

PIECES = {
    "jitter": (0.4, 0.4, 0.2, 0.1),
    "gray": 0.2,
    "solarize": 0.2,
    "blur": 0.5,
}
EACH = [pytest.param(AugmentConfig(**{k: v}), id=k) for k, v in PIECES.items()]
ALL = [*EACH, pytest.param(AugmentConfig(**PIECES), id="everything")]
ENHANCE = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}


def bytes_of_images(b=4, c=3, side=16):
    return np.random.default_rng(b).integers(0, 256, (b, c, side, side), dtype=np.uint8)


def pixels(*args, **kwargs):
    return torch.from_numpy(bytes_of_images(*args, **kwargs) / 255)


def full(b, value):
    return torch.full((b,), float(value), dtype=torch.float64)


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.7])
@pytest.mark.parametrize("name", ENHANCE)
def test_enhancements_against_pillow(name, factor):
    images = bytes_of_images()
    found = getattr(color, name)(torch.from_numpy(images / 255), full(4, factor))
    for image, view in zip(images, found, strict=True):
        expected = ENHANCE[name](Image.fromarray(image.transpose(1, 2, 0))).enhance(factor)
        # Pillow rounds the gray version, its mean and the result.
        np.testing.assert_allclose(
            255 * view.permute(1, 2, 0).numpy(), np.asarray(expected), atol=1 + 1.1 * factor
        )


def test_enhancements_against_loops():
    images = pixels()
    factor = torch.tensor([0.3, 0.8, 1.2, 1.9], dtype=torch.float64)
    for i, image in enumerate(images.numpy()):
        gray = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
        f = float(factor[i])
        expected = {
            "brightness": f * image,
            "contrast": gray.mean() + f * (image - gray.mean()),
            "saturation": gray + f * (image - gray),
        }
        for name, values in expected.items():
            found = getattr(color, name)(images, factor)[i].numpy()
            np.testing.assert_allclose(found, np.clip(values, 0, 1), atol=1e-12, err_msg=name)


def test_hue_against_colorsys():
    images = pixels()
    images[0, :, :2] = images[0, :1, :2]  # gray pixels have no hue
    images[1, :, 0, 0] = 0
    turn = torch.tensor([-0.5, -0.07, 0.2, 0.5], dtype=torch.float64)
    found = color.hue(images, turn)
    expected = torch.empty_like(images)
    for i, t in enumerate(turn.tolist()):
        for y, x in np.ndindex(16, 16):
            h, s, v = colorsys.rgb_to_hsv(*images[i, :, y, x].tolist())
            turned = colorsys.hsv_to_rgb((h + t) % 1, s, v)
            expected[i, :, y, x] = torch.tensor(turned, dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(color.hue(images, 0 * turn), images, atol=1e-14, rtol=0)


def test_gray_and_solarized_against_pillow():
    images = bytes_of_images()
    gray, bright = (f(torch.from_numpy(images / 255)) for f in (color.grayscale, color.solarize))
    for i, image in enumerate(images):
        picture = Image.fromarray(image.transpose(1, 2, 0))
        assert np.abs(255 * gray[i, 1].numpy() - np.asarray(picture.convert("L"))).max() <= 1
        solarized = np.asarray(ImageOps.solarize(picture, 128))
        np.testing.assert_allclose(255 * bright[i].permute(1, 2, 0).numpy(), solarized, atol=1e-9)
    assert torch.equal(gray[:, 0], gray[:, 2])


def test_blur_against_scipy():
    images = pixels(3, 2, 12)[:, :, :, :9].contiguous()
    sigma = torch.tensor([0.1, 0.8, 2.0], dtype=torch.float64)
    for i, (image, s) in enumerate(zip(images.numpy(), sigma.tolist(), strict=True)):
        options = {"mode": "constant", "truncate": 30 / s}
        weight = ndimage.gaussian_filter(np.ones((12, 9)), s, **options)
        expected = [ndimage.gaussian_filter(x, s, **options) / weight for x in image]
        np.testing.assert_allclose(color.blur(images, sigma)[i].numpy(), expected, atol=1e-9)
    assert torch.equal(color.blur(images, full(3, 0.02)), images)


def test_jitter_is_the_four_in_order():
    images, factor = pixels(), torch.tensor([0.7, 1.3, 0.8], dtype=torch.float64)
    found = color.jitter(images, factor.expand(4, 3), full(4, 0.1))
    expected = images
    for name, f in zip(ENHANCE, factor, strict=True):
        expected = getattr(color, name)(expected, f.expand(4))
    assert torch.equal(found, color.hue(expected, full(4, 0.1)))
    # Another order is another image: the order is worth fixing.
    other = color.contrast(color.hue(images, full(4, 0.1)), full(4, 1.3))
    assert (found - other).abs().max() > 0.01


def uniform_between(values, low, high):
    p = stats.kstest(np.asarray(values), stats.uniform(low, high - low).cdf).pvalue
    return p > 1e-3


def test_jitter_is_drawn_as_asked():
    n = 3000
    image = torch.tensor([0.5, 0.4, 0.3], dtype=torch.float64).view(1, 3, 1, 1)
    image = image * torch.tensor([0.9, 1.1], dtype=torch.float64)
    images = image.expand(n, 3, 1, 2)

    def draw(name, *jitter):
        options = AugmentConfig(jitter=jitter, jitter_probability=1.0)
        return augment(images, options, generator(0, name))

    bright = draw("b", 0.4, 0, 0, 0)[:, 0, 0, 0] / images[:, 0, 0, 0]
    assert uniform_between(bright, 0.6, 1.4)
    stretched = draw("c", 0, 0.3, 0, 0)
    contrast = stretched.diff(dim=3)[:, 0, 0, 0] / images.diff(dim=3)[:, 0, 0, 0]
    assert uniform_between(contrast, 0.7, 1.3)
    colored = draw("s", 0, 0, 0.2, 0)[..., 0]
    spread = (colored[:, 0] - colored[:, 2]) / (images[:, 0, :, 0] - images[:, 2, :, 0])
    assert uniform_between(spread[:, 0], 0.8, 1.2)
    turned = draw("h", 0, 0, 0, 0.1)[:, :, 0, 0].tolist()
    before = colorsys.rgb_to_hsv(*images[0, :, 0, 0].tolist())[0]
    turns = [(colorsys.rgb_to_hsv(*rgb)[0] - before + 0.5) % 1 - 0.5 for rgb in turned]
    assert uniform_between(turns, -0.1, 0.1)
    assert not uniform_between(turns, -0.1, 0.12)  # the test can fail
    # The four are drawn apart.
    assert abs(np.corrcoef(bright, contrast)[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("options", "share"),
    [
        (AugmentConfig(jitter=(0.4, 0.4, 0.2, 0.1)), 0.8),
        (AugmentConfig(jitter=(0.4, 0, 0, 0), jitter_probability=0.3), 0.3),
        (AugmentConfig(gray=0.2), 0.2),
        (AugmentConfig(solarize=0.2), 0.2),
        (AugmentConfig(blur=0.1), 0.1),
    ],
    ids=lambda x: str(x)[:1],
)
def test_pieces_hit_the_share_of_samples_asked_for(options, share):
    n = 4000
    images = pixels(1, 3, 4).expand(n, -1, -1, -1)
    changed = ((augment(images, options, generator(0)) - images).abs() > 1e-9).flatten(1).any(1)
    if options.blur:  # below a fifth of a pixel a blur is nearly none
        share *= 1.85 / 1.9
    assert abs(float(changed.double().mean()) - share) < 4 * (share * (1 - share) / n) ** 0.5


@pytest.mark.parametrize("options", ALL)
def test_invariants_of_views(options):
    images = pixels(6, 3, 8)
    first, again, other = (augment(images, options, generator(0, name)) for name in "aab")
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.min() >= -1e-12
    assert first.max() <= 1 + 1e-12
    changed = images.clone()
    changed[2] = 1 - changed[2]
    after = augment(changed, options, generator(0, "a"))
    same = [torch.equal(p, q) for p, q in zip(first, after, strict=True)]
    assert same == [True, True, False, True, True, True]
    counts = []
    for b in (2, 5):
        with Counter() as counter:
            augment(pixels(b, 3, 8), options, generator(0))
        counts.append(counter.ops)
    assert counts[0] == counts[1]
    assert not set(counts[0]) & set(READS)
    assert counts[0].total() < 170


def test_normalized_images_are_changed_in_pixel_units():
    images = pixels()
    mean, std = torch.tensor([0.4, 0.5, 0.6]).double(), torch.tensor([0.2, 0.3, 0.1]).double()
    background = torch.tensor([0.1, -0.2, 0.3]).double()

    def normalize(x):
        return (x - mean[:, None, None]) / std[:, None, None]

    options = AugmentConfig(**PIECES)
    plain = augment(images, options, generator(0))
    found = augment(
        normalize(images), options, generator(0), background, scale=(mean.float(), std.float())
    )
    torch.testing.assert_close(found, normalize(plain), atol=1e-5, rtol=0)


def test_gray_images_have_no_colors_to_change():
    images = pixels(4, 1)
    colors = AugmentConfig(jitter=(0, 0, 0.4, 0.3), gray=0.5)
    torch.testing.assert_close(augment(images, colors, generator(0)), images, atol=1e-15, rtol=0)
    bright = AugmentConfig(jitter=(0.4, 0, 0, 0), jitter_probability=1.0)
    assert (augment(images, bright, generator(0)) - images).abs().max() > 0.1
    with pytest.raises(InvalidValueError, match=r"channels, got 2\. To fix: set jitter"):
        augment(pixels(4, 2), AugmentConfig(gray=1.0), generator(0))


def test_a_probability_of_0_costs_nothing():
    images = pixels()
    off = AugmentConfig(jitter=(0.4, 0.4, 0.4, 0.1), jitter_probability=0.0, ratio=(0.5, 2.0))
    with Counter() as counter:
        assert augment(images, off, generator(0)) is images
    assert not counter.ops
