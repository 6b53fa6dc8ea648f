"""What the tests of runs compare in place of pixels notices whatever a picture shows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dualclust.common.plotting import new_figure
from tests.train.conftest import PIXEL, drawn, write_digest, write_told


def figure(**changes):
    """A figure of everything that the pictures of a run are made of."""
    shown = {
        "line": [0.0, 1.0, 3.0],
        "bars": [2, 5],
        "stairs": [1.0, 4.0],
        "limit": 7.0,
        "title": "loss",
        "label": "epoch",
        "word": "0.5",
        "image": np.zeros((3, 3)),
        "page": np.zeros((4, 4, 3), dtype=np.uint8),
        "head": "gallery",
    } | changes
    made = new_figure(200, 100)
    axes = made.add_axes((0.1, 0.1, 0.8, 0.8))
    axes.plot(shown["line"])
    axes.bar(range(2), shown["bars"])
    axes.stairs(shown["stairs"], [0.0, 1.0, 2.0], fill=True)
    axes.imshow(shown["image"], aspect="auto")
    axes.set_ylim(0, shown["limit"])
    axes.set_title(shown["title"], loc="left")
    axes.set_xlabel(shown["label"])
    axes.annotate(shown["word"], (1, 1))
    made.figimage(shown["page"])
    made.text(0.1, 0.9, shown["head"])
    return made


@pytest.mark.parametrize(
    "change",
    [
        {"line": [0.0, 1.0, 3.0 + 1e-12]},
        {"bars": [2, 6]},
        {"stairs": [1.0, 4.5]},
        {"limit": 8.0},
        {"title": "size"},
        {"label": "step"},
        {"word": "0.6"},
        {"image": np.eye(3)},
        {"page": np.ones((4, 4, 3), dtype=np.uint8)},
        {"head": "sizes"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_picture_is_told(change, tmp_path):
    one, same, other = (tmp_path / name for name in ("one.png", "same.png", "other.png"))
    write_digest(figure(), one)
    write_digest(figure(), same)
    write_digest(figure(**change), other)
    assert one.read_bytes() == same.read_bytes() != other.read_bytes()
    assert one.read_bytes().startswith(PIXEL)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": torch.tensor([1, 3])},
        {"counts": torch.tensor([1, 2], dtype=torch.int32)},
        {"margin": np.asarray([0.5, 0.25001])},
        {"records": [{"loss": 2.0, "seconds": 1.0}]},
        {"bounds": (1.0, 4.0)},
        {"title": "b"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_picture_of_other_numbers_is_told(change, tmp_path):
    given = {
        "counts": torch.tensor([1, 2]),
        "margin": np.asarray([0.5, 0.25]),
        "records": [{"loss": 1.0, "seconds": 1.0}],
        "bounds": (1.0, 3.0),
        "title": "a",
    }
    slower = given | {"records": [{"loss": 1.0, "seconds": 2.0}]}
    one, same, other = (
        write_told(tmp_path / str(i), *some.values(), **some).read_bytes()
        for i, some in enumerate((given, slower, given | change))
    )
    assert one == same != other
    assert one.startswith(PIXEL)


def test_an_empty_picture_is_no_picture():
    with pytest.raises(AssertionError):
        list(drawn(new_figure(200, 100)))
