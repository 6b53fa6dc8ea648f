"""What a loader asks of its source, and the sizes of what it cuts."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.samples import image_data
from dualclust.train.loop import loader as module
from dualclust.train.loop.loader import Loader, copy_side

CPU = torch.device("cpu")


@pytest.fixture
def asked(monkeypatch):
    """What sources were asked for; each gives the same few images, gray ones to test on."""
    seen = []

    def load(source, **options):
        seen.append((source, options))
        value = 10 * len(seen)
        return image_data(torch.full((4, 8, 8, 3), value, dtype=torch.uint8).numpy())

    monkeypatch.setattr(module, "load_source", load)
    return seen


def settings(*changes):
    return override(RunConfig(), ["data.source=photos", "data.size=8", *changes])


@pytest.mark.parametrize(
    ("changes", "decode"),
    [
        ((), "once"),
        (("augment.crop=[0.5, 1.0]",), "auto"),
        (("second.crop=[0.5, 1.0]",), "auto"),
        (("small.crop=[0.1, 0.5]",), "auto"),
        (("second.noise=0.5", "small.size=4"), "once"),
        (("encoder.frozen=true",), "auto"),
        (("encoder.frozen=false",), "once"),
        (("data.decode=views",), "views"),
        (("data.decode=copies", "augment.crop=[0.5, 1.0]"), "copies"),
        (("data.decode=once", "augment.crop=[0.5, 1.0]"), "once"),
    ],
)
def test_pictures_stay_whole_where_their_views_are_cut_out_of_them(asked, changes, decode):
    module._load(settings(*changes), CPU)
    [(_, options)] = asked
    assert options["decode"] == decode


def test_sources_get_all_settings_and_held_out_images_no_subset(asked):
    config = settings(
        "data.test=test",
        "data.split=train",
        "data.folders=classes",
        "data.bad=stop",
        "data.max_pixels=99",
        "data.fit=squash",
        "data.workers=3",
        "data.standardize=true",
        "data.resident=never",
        "data.decode=copies",
        "data.classes=coarse",
        "data.imbalance=5.0",
        "data.limit=7",
        "data.normalization=imagenet",
        "seed=11",
    )
    data, test = module._load(config, CPU)
    both = {
        "classes": "coarse",
        "folders": "classes",
        "bad": "stop",
        "max_pixels": 99,
        "size": 8,
        "fit": "squash",
        "workers": 3,
        "standardize": True,
        "resident": "never",
        "copy_side": 16,
        "decode": "copies",
        "device": CPU,
    }
    with pytest.raises(InfeasibleBoundsError):
        asked[0][1].pop("counted")(3)  # of samples, before they are decoded
    subset = {"seed": 11, "limit": 7, "imbalance": 5.0}
    assert asked == [
        ("photos", {**both, **subset, "split": "train"}),
        ("photos", {**both, "split": "test"}),
    ]
    assert data.mean.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert (test.mean is data.mean, test.std is data.std) == (True, True)
    assert int(test.images[0, 0, 0, 0]) == 20
    assert module._load(settings(), CPU)[1] is None


@pytest.mark.parametrize(
    ("changes", "side"),
    [
        ((), 16),
        (("augment.size=5",), 16),
        (("augment.size=9",), 18),
        (("second.size=10",), 20),
        (("small.size=12", "second.size=10"), 24),
    ],
)
def test_copies_have_twice_the_side_of_the_largest_view(changes, side):
    assert copy_side(settings("data.decode=copies", *changes)) == side
    assert copy_side(settings("data.decode=views", *changes)) == 0


@pytest.mark.parametrize("decode", ["copies", "views"])
@pytest.mark.parametrize("first", [True, False])
def test_the_first_rank_makes_the_copies_before_the_others_read_them(monkeypatch, first, decode):
    log = []
    data = SimpleNamespace(ids=range(2))
    monkeypatch.setattr(module, "_load", lambda *given: log.append("load") or (data, None))
    ranks = SimpleNamespace(first=first, wait=lambda: log.append("wait"))
    Loader(settings(f"data.decode={decode}"), ranks, SimpleNamespace(device=CPU))
    waits = {True: ["load", "wait"], False: ["wait", "load"]}
    assert log == (waits[first] if decode == "copies" else ["load"])


def test_views_that_are_cut_already_are_not_cropped_again():
    config = settings("augment.size=5", "augment.crop=[0.5, 1.0]", "augment.noise=0.25")
    expected = override(settings(), ["augment.noise=0.25"]).augment
    assert module._after_crop(config.augment) == expected
