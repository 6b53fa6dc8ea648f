"""Views of another strength: every amount of them, and nothing else."""

from dataclasses import fields

import pytest

from dualclust.train.config.augment import AMOUNTS, AugmentConfig

WHOLE = AugmentConfig(
    size=24,
    crop=(0.2, 0.8),
    ratio=(0.5, 2.0),
    rotate=30.0,
    translate=0.2,
    scale=(0.25, 4.0),
    shear=12.0,
    brightness=0.4,
    contrast=0.6,
    noise=0.3,
    jitter=(0.4, 0.8, 0.2, 0.1),
    jitter_probability=0.7,
    gray=0.2,
    solarize=0.1,
    blur=0.5,
    blur_sigma=(0.2, 1.0),
    cutout=0.3,
    elastic=0.04,
    flip=True,
    mask=0.2,
)


def test_amounts_are_multiplied_and_areas_and_sizes_drawn_nearer_to_1():
    half = WHOLE.milder(0.5)
    for name in AMOUNTS:
        assert getattr(half, name) == 0.5 * getattr(WHOLE, name), name
    assert half.crop == pytest.approx((0.6, 0.9))
    assert half.scale == (0.5, 2.0)
    assert half.jitter == (0.2, 0.4, 0.1, 0.05)


def test_the_rest_has_no_strength():
    half, changed = WHOLE.milder(0.5), {*AMOUNTS, "crop", "scale", "jitter"}
    kept = {field.name for field in fields(WHOLE)} - changed
    assert kept == {"size", "ratio", "jitter_probability", "blur_sigma", "flip", "neighbors"}
    for name in kept:
        assert getattr(half, name) == getattr(WHOLE, name)


def test_the_ends_are_the_same_views_and_none():
    assert WHOLE.milder(1.0) == WHOLE
    none = WHOLE.milder(0.0)
    assert (none.crop, none.scale, none.jitter) == ((1.0, 1.0), (1.0, 1.0), (0.0,) * 4)
    assert all(getattr(none, name) == 0.0 for name in AMOUNTS)
    assert AugmentConfig().milder(0.5) == AugmentConfig()
