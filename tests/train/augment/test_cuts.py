"""Boxes of cuts: the published distribution on whole pictures, and the rules of plain ones."""

import itertools

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.augment.crops import (
    NUMBERS,
    TRIES,
    Cut,
    crop_boxes,
    plain_cut,
    random_cut,
    reduction,
)
from dualclust.train.config.run import FITS, RunConfig, override
from dualclust.train.data import pictures
from dualclust.train.data.pictures import picture_data
from dualclust.train.data.splits import File
from dualclust.train.loop import loader
from dualclust.train.loop.execution import Execution
from dualclust.train.loop.loader import Loader
from dualclust.train.state.seeding import generator
from tests.train.augment.test_augment_crop import RATIO, published, same
from tests.train.pictures import encoded, picture

H, W = 375, 500  # of ImageNet's pictures, most often


def uniform(n, seed=0):
    return torch.rand(n, NUMBERS, generator=generator(seed, "cuts"), dtype=torch.float64)


@pytest.mark.parametrize(
    ("height", "width"), [(H, W), (W, H), (64, 64), (20, 90), (300, 7), (1, 1)]
)
@pytest.mark.parametrize("crop", [(0.08, 1.0), (0.05, 0.6), (0.9, 1.0)])
def test_a_box_is_that_of_the_batched_rule(crop, height, width):
    u = uniform(300)
    area, shape, at = u.split([TRIES, TRIES, 2], dim=1)
    expected = crop_boxes(area, shape, at, crop=crop, ratios=RATIO, height=height, width=width)
    found = [
        random_cut(width, height, row, size=8, crop=crop, ratio=RATIO).box for row in u.tolist()
    ]
    assert found == [tuple(map(int, box)) for box in expected.tolist()]


@pytest.fixture
def drawn_boxes(monkeypatch):
    """Boxes that a run draws in an epoch on n pictures of one size; nothing is decoded."""

    def draw(crop, n=3000, height=H, width=W):
        content = memoryview(encoded(picture(height, width)))
        monkeypatch.setattr(pictures, "STATISTICS", 1)
        data = picture_data(
            [File("a", content)] * n, None, torch.arange(n), (), None, size=224, workers=1
        )
        monkeypatch.setattr(loader, "_load", lambda *_: (data, None))
        seen = []

        def record(_, plan, *, channels):
            cuts = plan(width, height)
            seen.append(cuts)
            return [np.zeros((1, 1, channels), np.uint8) for _ in cuts]

        monkeypatch.setattr(pictures, "cut_picture", record)
        config = override(RunConfig(), [f"augment.crop={list(crop)}", "augment.size=1"])
        loaded = Loader(config, ALONE, Execution(config.execution, torch.device("cpu")))
        for _ in loaded.views(loaded.batches(0), 0, ("first", "second")):
            pass
        assert len(seen) == n
        return [np.array([cuts[v].box for cuts in seen]) for v in (0, 1)]

    return draw


MEASURES = {
    "share": lambda b: b[:, 2] * b[:, 3] / (H * W),
    "log ratio": lambda b: np.log(b[:, 2] / b[:, 3]),
    "left": lambda b: b[:, 0],
    "top": lambda b: b[:, 1],
    "place along x": lambda b: b[:, 0] / np.maximum(1, W - b[:, 2]),
    "place along y": lambda b: b[:, 1] / np.maximum(1, H - b[:, 3]),
    "width": lambda b: b[:, 2],
}


@pytest.mark.parametrize("crop", [(0.08, 1.0), (0.2, 1.0), (0.05, 0.6)])
def test_boxes_of_a_run_are_the_papers(crop, drawn_boxes):
    rng = np.random.default_rng(0)
    expected = np.array([published(rng, crop, RATIO, H, W) for _ in range(3000)])
    views = drawn_boxes(crop)
    for boxes in views:
        left, top, width, height = boxes.T
        assert min(left.min(), top.min()) >= 0
        assert min(width.min(), height.min()) >= 1
        assert (left + width).max() <= W
        assert (top + height).max() <= H
        for name, measure in MEASURES.items():
            assert same(measure(boxes), measure(expected)), name
        median = np.median(boxes[:, 2]), np.median(expected[:, 2])
        assert median[0] == pytest.approx(median[1], rel=0.03)
    # Two views of a picture are independent.
    assert abs(np.corrcoef(views[0][:, 2], views[1][:, 2])[0, 1]) < 0.06
    # A crop of the middle square, as of an image that was cut before, is told from that.
    middle = np.array([published(rng, crop, RATIO, H, H) for _ in range(3000)])
    middle[:, 0] += (W - H) // 2
    assert not same(MEASURES["left"](middle), MEASURES["left"](expected))
    assert not same(MEASURES["share"](middle), MEASURES["share"](expected))


def test_the_median_crop_of_imagenet_is_280_pixels_wide(drawn_boxes):
    first, second = drawn_boxes((0.08, 1.0))
    assert 270 < np.median(np.concatenate([first, second])[:, 2]) < 290


def test_every_pixel_of_a_picture_can_be_seen():
    seen = np.zeros((30, 40), bool)
    for row in uniform(4000).tolist():
        left, top, width, height = random_cut(40, 30, row, size=8, crop=(0.08, 1), ratio=RATIO).box
        seen[top : top + height, left : left + width] = True
    assert seen.all()


@pytest.mark.parametrize(
    ("fit", "size", "resized", "corner", "name"),
    [
        # torchvision: Resize(256) gives 341 × 256, CenterCrop(224) begins at (round(58.5), 16).
        ("imagenet", 224, (341, 256), (58, 16), "bilinear"),
        ("imagenet", 96, (146, 110), (25, 7), "bilinear"),
        ("crop", 224, (299, 224), (37, 0), "bicubic"),
        ("squash", 128, (128, 128), (0, 0), "bilinear"),
    ],
)
def test_plain_cuts(fit, size, resized, corner, name):
    found = plain_cut(W, H, size=size, fit=fit)
    assert found == Cut((0, 0, W, H), resized, corner, size, name)
    turned = plain_cut(H, W, size=size, fit=fit)
    assert turned == Cut((0, 0, H, W), resized[::-1], corner[::-1], size, name)


@pytest.mark.parametrize("fit", FITS)
def test_a_plain_view_lies_within_what_it_is_kept_of(fit):
    for width, height, size in itertools.product((1, 5, 37, 400), (1, 6, 38, 301), (1, 7, 32)):
        cut = plain_cut(width, height, size=size, fit=fit)
        for corner, side in zip(cut.corner, cut.resized, strict=True):
            assert 0 <= corner <= corner + size <= side
    with pytest.raises(
        UsageError,
        match=r"fit must be one of 'crop', 'crop-bilinear', 'squash', 'imagenet', got 'x'",
    ):
        plain_cut(5, 5, size=3, fit="x")


@pytest.mark.parametrize(
    ("boxes", "factor"),
    [
        ([(447, 900)], 1),
        ([(448, 900)], 2),
        ([(448, 448)], 2),
        ([(900, 447)], 1),
        ([(1792, 1800)], 8),
        ([(4000, 3000)], 8),
        ([(4000, 3000), (1000, 1000)], 4),
        ([(4000, 3000), (100, 1000)], 1),
    ],
)
def test_a_reduced_picture_keeps_two_pixels_for_one(boxes, factor):
    cuts = [Cut((5, 7, w, h), (112, 112), (0, 0), 112) for w, h in boxes]
    assert reduction(cuts) == factor
