"""Random views: what they may depend on, and the pixels of each operation."""

import collections
import math

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.utils._python_dispatch import TorchDispatchMode

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.train.augment.views import affine_matrix, augment, warp
from dualclust.train.config.run import AugmentConfig
from dualclust.train.state.seeding import generator
from tests.second_device import DEVICE, second_device

PIECES = {
    "rotate": 20.0,
    "translate": 0.2,
    "scale": (0.8, 1.25),
    "shear": 10.0,
    "brightness": 0.3,
    "contrast": 0.4,
    "noise": 0.1,
    "blur": 0.5,
    "cutout": 0.4,
    "elastic": 0.05,
    "flip": True,
}
EVERYTHING = AugmentConfig(**PIECES)
EACH = [pytest.param(AugmentConfig(**{k: v}), id=k) for k, v in PIECES.items()]
ALL = [*EACH, pytest.param(EVERYTHING, id="everything")]
READS = ("item", "_local_scalar_dense", "nonzero", "equal", "unique", "is_nonzero", "tolist")


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def batch(b=6, c=1, h=8, w=8, dtype=torch.float64):
    return torch.randn(b, c, h, w, generator=generator(0, "images", b), dtype=dtype)


def matrix(b=1, h=8, w=8, *, dtype=torch.float64, **values):
    parts = {"angle": 0.0, "shift_x": 0.0, "shift_y": 0.0, "zoom": 1.0, "shear": 0.0}
    parts |= values
    flip = torch.full((b,), bool(parts.pop("flip", False)))
    parts = {k: torch.full((b,), v, dtype=dtype) for k, v in parts.items()}
    return affine_matrix(**parts, flip=flip, height=h, width=w)


def test_off_returns_the_input_itself():
    images = batch()
    with Counter() as counter:
        assert augment(images, AugmentConfig(), generator(0)) is images
    assert not counter.ops


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize("background", [None, -0.8])
def test_views_are_a_function_of_the_generator(options, background):
    images = batch(8, dtype=torch.float32)
    background = None if background is None else torch.tensor([background])
    first, again, other = (
        augment(images, options, generator(0, name), background) for name in ("a", "a", "b")
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == images.shape
    assert first.dtype == images.dtype
    assert torch.isfinite(first).all()
    assert not torch.equal(first, images)


@pytest.mark.parametrize("options", ALL)
def test_samples_do_not_touch_each_other(options):
    images = batch()
    changed = images.clone()
    changed[2] += 1
    a, b = (augment(x, options, generator(0)) for x in (images, changed))
    same = [torch.equal(p, q) for p, q in zip(a, b, strict=True)]
    assert same == [True, True, False, True, True, True]


@pytest.mark.parametrize("options", EACH)
def test_samples_are_drawn_one_by_one(options):
    images = batch(1).expand(64, -1, -1, -1)
    views = augment(images, options, generator(0)).flatten(1)
    distinct = len(torch.unique(views, dim=0))
    # A flip has two outcomes, a blur leaves about half of the samples as they are, and a square
    # has a few dozen places on so small an image.
    low, high = (2, 2) if options.flip else (20, 64) if options.blur or options.cutout else (64, 64)
    assert low <= distinct <= high


COLORS = AugmentConfig(
    crop=(0.3, 1.0), size=6, jitter=(0.4, 0.4, 0.4, 0.1), gray=0.5, solarize=0.5, blur=0.5
)


@pytest.mark.parametrize("options", [EVERYTHING, COLORS], ids=["everything", "colors"])
def test_views_of_the_second_device_are_those_of_the_cpu(options):
    images, background = batch(5, 3, dtype=torch.float32), torch.tensor([-0.8, 0.1, 0.5])
    scale = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    expected = augment(images, options, generator(0), background, scale=scale)
    with second_device() as transfers:
        moved = [x.to(DEVICE) for x in (images, background, *scale)]
        draws = generator(0, device=DEVICE)
        transfers.clear()
        found = augment(*moved[:1], options, draws, moved[1], scale=(moved[2], moved[3]))
        assert not transfers.reads
        assert not transfers.uploads
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("options", ALL)
def test_operations_do_not_depend_on_the_batch(options):
    counts = []
    for b in (1, 7, 64):
        with Counter() as counter:
            augment(batch(b), options, generator(0), torch.tensor([-0.8]))
        counts.append(counter.ops)
    assert counts[0] == counts[1] == counts[2]
    assert not set(counts[0]) & set(READS)
    assert counts[0].total() < 200


def test_the_counter_sees_a_read():
    with Counter() as counter:
        torch.ones(1).item()
    assert set(counter.ops) & set(READS)


def test_no_piece_disturbs_the_draws_of_another():
    # Noise and elastic draw after the others, from the same generator.
    images = batch(16)
    turn = AugmentConfig(rotate=30)
    both = AugmentConfig(rotate=30, brightness=0.5)
    offset = augment(images, both, generator(0)) - augment(images, turn, generator(0))
    torch.testing.assert_close(offset, offset[:, :, :1, :1].expand_as(offset))


def test_quarter_turn_is_rot90():
    images = batch(3, 2, dtype=torch.float32)
    theta = matrix(3, angle=math.pi / 2, dtype=torch.float32)
    torch.testing.assert_close(
        warp(images, theta), torch.rot90(images, 1, (2, 3)), atol=1e-5, rtol=0
    )


def test_one_pixel_to_the_right_and_two_down():
    images = batch(3, 2, 6, 9, dtype=torch.float32)
    views = warp(images, matrix(3, 6, 9, shift_x=1 / 9, shift_y=2 / 6, dtype=torch.float32))
    expected = torch.zeros_like(images)
    expected[:, :, 2:, 1:] = images[:, :, :-2, :-1]
    torch.testing.assert_close(views, expected, atol=1e-5, rtol=0)


def test_flip_exchanges_left_and_right():
    images = batch(3)
    torch.testing.assert_close(warp(images, matrix(3, flip=True)), images.flip(3))


def test_zoom_2_shows_the_middle_twice_as_large():
    ramp = torch.arange(8.0, dtype=torch.float64).expand(1, 1, 8, 8)
    views = warp(ramp, matrix(zoom=2.0))
    torch.testing.assert_close(views[0, 0, 4], 3.5 + (torch.arange(8.0).double() - 3.5) / 2)


def test_shear_leans_to_the_right():
    bar = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    bar[..., 4] = 1
    views = warp(bar, matrix(1, 9, 9, shear=math.pi / 4))[0, 0]
    torch.testing.assert_close(views, torch.eye(9, dtype=torch.float64).flip(1))


@pytest.mark.parametrize("seed", range(5))
def test_affine_map_against_scipy(seed):
    rng = np.random.default_rng(seed)
    h, w = 11, 7
    image = rng.standard_normal((h, w))
    angle, shear, flip = rng.uniform(-3, 3), rng.uniform(-0.5, 0.5), bool(rng.integers(2))
    zoom, shift = rng.uniform(0.6, 1.6), rng.uniform(-0.3, 0.3, 2)
    # The map from image to view, in pixels from the center, x right and y down.
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    lean = np.array([[1, -np.tan(shear)], [0, 1]])
    forward = zoom * turn @ lean @ np.diag([-1.0 if flip else 1.0, 1.0])
    y, x = np.mgrid[:h, :w]
    at = np.stack([x - (w - 1) / 2 - shift[0] * w, y - (h - 1) / 2 - shift[1] * h])
    source = np.einsum("ij,jhw->ihw", np.linalg.inv(forward), at)
    rows, columns = source[1] + (h - 1) / 2, source[0] + (w - 1) / 2
    expected = ndimage.map_coordinates(image, [rows, columns], order=1, mode="grid-constant")

    theta = matrix(
        1, h, w, angle=angle, shear=shear, zoom=zoom, shift_x=shift[0], shift_y=shift[1], flip=flip
    )
    views = warp(torch.from_numpy(image)[None, None], theta)
    np.testing.assert_allclose(views[0, 0].numpy(), expected, atol=1e-12)


def test_a_field_displaces():
    images = batch(2, 1, 8, 8)
    field = torch.zeros(2, 2, 8, 8, dtype=torch.float64)
    field[:, 0] = 2 / 8  # read one pixel to the right
    views = warp(images, None, field)
    torch.testing.assert_close(views[..., :-1], images[..., 1:])


@pytest.mark.parametrize("options", ALL)
def test_a_plain_background_stays(options):
    additive = options.noise or options.brightness
    if additive:
        options = AugmentConfig(**(PIECES | {"noise": 0.0, "brightness": 0.0}))
    plain = torch.tensor([-0.8, 0.3]).view(2, 1, 1).expand(5, 2, 16, 16)
    views = augment(plain, options, generator(0), torch.tensor([-0.8, 0.3]))
    torch.testing.assert_close(views, plain, atol=1e-6, rtol=0)


def test_blur_keeps_a_constant_and_leaves_the_rest_alone():
    images = batch(64, 1, 32, 20)
    views = augment(images, AugmentConfig(blur=0.5), generator(0))
    same = (views == images).flatten(1).all(1)
    assert 20 < int(same.sum()) < 44
    ones = torch.ones_like(images)
    torch.testing.assert_close(augment(ones, AugmentConfig(blur=1), generator(0)), ones)
    # Where it blurs, neighbors come closer to each other.
    rough, smooth = (x[~same].diff(dim=3).square().mean() for x in (images, views))
    assert smooth < 0.8 * rough


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_cutout_has_the_size_asked_for(share):
    views = augment(torch.ones(2000, 1, 16, 16), AugmentConfig(cutout=share), generator(0))
    holes = views[:, 0] == 0
    inside = holes[:, 8, 8]
    assert int(holes.any(2).sum(1).max()) == round(16 * share)
    assert int(holes.any(1).sum(1).max()) == round(16 * share)
    # A square centered anywhere covers a middle pixel with probability share².
    assert float(inside.double().mean()) == pytest.approx(share**2, abs=0.03)


def test_noise_brightness_and_contrast_have_the_strength_asked_for():
    images = torch.ones(4000, 1, 4, 4, dtype=torch.float64)
    noise = augment(images, AugmentConfig(noise=0.2), generator(0)) - images
    assert float(noise.std()) == pytest.approx(0.2, rel=0.02)
    for name in ("brightness", "contrast"):
        offset = (augment(images, AugmentConfig(**{name: 0.3}), generator(0)) - images).flatten(1)
        assert float(offset.std(1).max()) < 1e-12
        assert float(offset.abs().max()) == pytest.approx(0.3, rel=0.02)
        assert float(offset.mean()) == pytest.approx(0, abs=0.01)


def test_contrast_is_about_the_background():
    images = batch(5)
    background = torch.tensor([0.5], dtype=torch.float64)
    views = augment(images, AugmentConfig(contrast=0.5), generator(0), background)
    ratio = (views - 0.5) / (images - 0.5)
    torch.testing.assert_close(ratio, ratio[:, :, :1, :1].expand_as(ratio))


def test_gradients_reach_the_images():
    images = batch().requires_grad_()
    augment(images, EVERYTHING, generator(0)).sum().backward()
    assert images.grad is not None
    assert float(images.grad.abs().sum()) > 0


def test_autocast_does_not_coarsen():
    images = batch(4, dtype=torch.float32)
    plain = augment(images, EVERYTHING, generator(0))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(plain, augment(images, EVERYTHING, generator(0)))


def test_misuse_is_named():
    with pytest.raises(InvalidTypeError, match=r"images must be float32 or float64, got .*uint8"):
        augment(torch.zeros(1, 1, 8, 8, dtype=torch.uint8), EVERYTHING, generator(0))
    with pytest.raises(
        InvalidValueError, match=r"shape \(b, c, h, w\) or \(b, d\), got \(1, 8, 8\)"
    ):
        augment(torch.zeros(1, 8, 8), EVERYTHING, generator(0))
    with pytest.raises(DeviceMismatchError, match="generator lives on cpu, images on meta"):
        augment(torch.zeros(1, 1, 8, 8, device="meta"), EVERYTHING, generator(0))
