"""Random resized crops against Pillow and the published rule; parts of a batch; embeddings."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.train.augment.crops import TRIES, crop_boxes
from dualclust.train.augment.views import augment, warp
from dualclust.train.config.run import AugmentConfig
from dualclust.train.state.seeding import generator
from tests.train.augment.test_augment import EVERYTHING, READS, Counter, batch

Image = pytest.importorskip("PIL.Image")

RATIO = (3 / 4, 4 / 3)


def boxes_of(n, crop, ratio=RATIO, h=32, w=32, seed=0):
    u = torch.rand(n, 2 * TRIES + 2, generator=generator(seed, "boxes"), dtype=torch.float64)
    area, shape, at = u.split([TRIES, TRIES, 2], dim=1)
    return crop_boxes(area, shape, at, crop=crop, ratios=ratio, height=h, width=w)


def published(rng, crop, ratio, h, w):
    """Left, top, width and height by the rule that torchvision documents."""
    for _ in range(10):
        area = h * w * rng.uniform(*crop)
        r = np.exp(rng.uniform(*np.log(ratio)))
        width, height = round(np.sqrt(area * r)), round(np.sqrt(area / r))
        if 0 < width <= w and 0 < height <= h:
            return rng.integers(0, w - width + 1), rng.integers(0, h - height + 1), width, height
    if w / h < ratio[0]:
        width, height = w, round(w / ratio[0])
    elif w / h > ratio[1]:
        width, height = round(h * ratio[1]), h
    else:
        width, height = w, h
    return (w - width) // 2, (h - height) // 2, width, height


def same(a, b):
    """Whether two samples are of one distribution, as far as they show."""
    return stats.ks_2samp(a, b, method="asymp").pvalue > 1e-3


@pytest.mark.parametrize(("h", "w"), [(32, 32), (96, 64), (20, 90)])
@pytest.mark.parametrize("crop", [(0.08, 1.0), (0.3, 1.0), (0.05, 0.14)])
def test_boxes_are_distributed_as_published(crop, h, w):
    rng = np.random.default_rng(0)
    n = 3000
    found = boxes_of(n, crop, h=h, w=w).numpy()
    expected = np.array([published(rng, crop, RATIO, h, w) for _ in range(n)])
    assert (found == found.round()).all()
    assert (found[:, :2] >= 0).all()
    assert (found[:, 2:] >= 1).all()
    assert (found[:, :2] + found[:, 2:] <= [w, h]).all()
    for measure in (
        lambda b: b[:, 2] * b[:, 3],
        lambda b: b[:, 2] / b[:, 3],
        lambda b: b[:, 0],
        lambda b: b[:, 1],
        lambda b: b[:, 0] + b[:, 2] / 2,
    ):
        assert same(measure(found), measure(expected))
    if h == w:  # the test can fail
        wrong = boxes_of(n, (crop[0], 0.6 * crop[1])).numpy()
        assert not same(wrong[:, 2] * wrong[:, 3], expected[:, 2] * expected[:, 3])


@pytest.mark.parametrize(
    ("h", "w", "expected"),
    [(4, 400, (198, 0, 4, 4)), (400, 4, (0, 198, 4, 4)), (10, 10, (0, 0, 10, 10))],
)
def test_what_never_fits_falls_back_to_the_middle(h, w, expected):
    crop = (0.9, 1.0) if h != w else (1.0, 1.0)
    boxes = boxes_of(5, crop, (1.0, 1.0), h, w)
    assert boxes.tolist() == [list(map(float, expected))] * 5


@pytest.mark.parametrize("size", [(20, 20), (33, 17)])
def test_a_crop_is_resized_as_pillow_does(size):
    rng = np.random.default_rng(1)
    images = rng.random((6, 1, 16, 12)).astype(np.float32)
    boxes = boxes_of(6, (0.2, 1.0), h=16, w=12)
    views = warp(torch.from_numpy(images), None, boxes=boxes.float(), size=size)
    for image, box, view in zip(images[:, 0], boxes.tolist(), views[:, 0], strict=True):
        x, y, w, h = map(int, box)
        part = Image.fromarray(image).crop((x, y, x + w, y + h))
        expected = part.resize(size[::-1], Image.Resampling.BILINEAR)
        np.testing.assert_allclose(view.numpy(), np.asarray(expected), atol=1e-5)


def test_a_smaller_view_averages():
    images = torch.rand(3, 2, 16, 16, generator=generator(0), dtype=torch.float64)
    views = augment(images, AugmentConfig(size=8), generator(0))
    torch.testing.assert_close(views, torch.nn.functional.avg_pool2d(images, 2))
    larger = augment(images, AugmentConfig(size=24), generator(0))
    assert larger.shape == (3, 2, 24, 24)
    same = augment(images, AugmentConfig(size=16), generator(0))
    torch.testing.assert_close(same, images)


def test_crops_flip_and_turn_with_the_rest():
    images = batch(64, 3, 12, 12)
    crop = AugmentConfig(crop=(0.3, 0.9))
    flipped = AugmentConfig(crop=(0.3, 0.9), flip=True)
    a, b = (augment(images, options, generator(0)) for options in (crop, flipped))
    mirrored = torch.isclose(b, a.flip(3)).flatten(1).all(1)
    unmoved = torch.isclose(b, a).flatten(1).all(1)
    assert bool((mirrored | unmoved).all())
    assert 16 < int(mirrored.sum()) < 48
    # A crop shows nothing but the image: no background at its edges.
    ones = augment(torch.ones_like(images), flipped, generator(0))
    torch.testing.assert_close(ones, torch.ones_like(images))


CROPPED = AugmentConfig(crop=(0.3, 1.0), size=6, flip=True, jitter=(0.4, 0.4, 0.2, 0.1), gray=0.2)


def test_crops_cost_the_same_for_any_batch_and_read_nothing():
    counts = []
    for b in (1, 9):
        with Counter() as counter:
            augment(batch(b, 3), CROPPED, generator(0), torch.zeros(3))
        counts.append(counter.ops)
    assert counts[0] == counts[1]
    assert not set(counts[0]) & set(READS)
    assert counts[0].total() < 260


@pytest.mark.parametrize("options", [EVERYTHING, CROPPED], ids=["everything", "cropped"])
@pytest.mark.parametrize("cuts", [(0, 11), (0, 6, 11), (0, 3, 6, 9, 11)])
def test_parts_of_a_batch_get_the_draws_of_the_whole(options, cuts):
    images = batch(11, 3)
    whole = augment(images, options, generator(0, "x"))
    parts = [
        augment(images[a:b], options, generator(0, "x"), part=(a, 11)) for a, b in pairwise(cuts)
    ]
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-12, rtol=0)
    alone = augment(images[6:], options, generator(0, "x"))
    assert not torch.allclose(alone, whole[6:])


@pytest.mark.parametrize("part", [(-1, 5), (2, 5), (0, 3)])
def test_a_part_must_lie_in_the_batch(part):
    with pytest.raises(InvalidValueError, match=r"part must be \(start, total\) with start \+ 4"):
        augment(batch(4), EVERYTHING, generator(0), part=part)


def test_embeddings_get_noise_and_a_mask():
    rows = torch.ones(500, 40, dtype=torch.float64)
    noisy = augment(rows, AugmentConfig(noise=0.2), generator(0)) - rows
    assert float(noisy.std()) == pytest.approx(0.2, rel=0.02)
    masked = augment(rows, AugmentConfig(mask=0.3), generator(0))
    assert set(masked.unique().tolist()) == {0.0, 1.0}
    assert float((masked == 0).double().mean()) == pytest.approx(0.3, abs=0.015)
    assert float((masked == 0).double().mean(1).std()) == pytest.approx((0.21 / 40) ** 0.5, rel=0.1)
    both = AugmentConfig(noise=0.2, mask=0.3)
    whole = augment(rows, both, generator(1))
    part = augment(rows[100:300], both, generator(1), part=(100, 500))
    assert torch.equal(part, whole[100:300])
    assert augment(rows, AugmentConfig(), generator(0)) is rows


def test_options_of_the_other_kind_are_refused():
    rows = torch.ones(5, 4)
    with pytest.raises(
        UsageError, match=r"augment.crop is not for embeddings.* leave out crop, fl"
    ):
        augment(rows, AugmentConfig(flip=True, crop=(0.5, 1.0), noise=0.1), generator(0))
    with pytest.raises(UsageError, match=r"augment.mask is not for images, .* shape \(1, 8, 8\)"):
        augment(batch(2), AugmentConfig(mask=0.1), generator(0))
