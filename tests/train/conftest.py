"""What several tests of the loop start from."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

from dualclust.common.files import write_file
from dualclust.train.data.pictures import PlainImages
from tests.second_device import DEVICE, second_device
from tests.train.runs import write_images

_file = io.BytesIO()
Image.new("RGB", (1, 1)).save(_file, "PNG")
PIXEL = _file.getvalue()


@pytest.fixture(params=["cpu", "second"])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The CPU, then the device of `tests.second_device`, while it is active."""
    if request.param == "cpu":
        yield torch.device("cpu")
        return
    with second_device():
        yield DEVICE


def drawn(figure: Any) -> Iterator[object]:
    """Yield what a figure shows, before it is turned into pixels."""
    artists = [*figure.texts, *figure.images, *figure.patches, *figure.lines]
    for axes in figure.axes:
        artists += [*axes.texts, *axes.images, *axes.patches, *axes.lines, *axes.collections]
        yield [axes.get_title(where) for where in ("left", "center", "right")]
        yield axes.get_xlabel(), axes.get_ylabel(), axes.get_xlim(), axes.get_ylim()
        yield list(axes.get_xticks()), list(axes.get_yticks())
    assert artists
    for artist in artists:
        if isinstance(artist, Text):
            yield artist.get_text(), artist.get_position(), artist.get_color()
        elif hasattr(artist, "get_array") and artist.get_array() is not None:
            yield artist.get_array().tobytes()
        elif isinstance(artist, Line2D):
            yield artist.get_xydata().tobytes(), artist.get_color()
            yield artist.get_linestyle(), artist.get_marker(), artist.get_linewidth()
        elif hasattr(artist, "get_patch_transform"):
            outline = artist.get_patch_transform().transform(artist.get_path().vertices)
            yield outline.tobytes(), artist.get_facecolor()
        else:
            offsets = np.ma.getdata(artist.get_offsets()).tobytes()
            yield [path.vertices.tobytes() for path in artist.get_paths()], offsets
            yield artist.get_facecolor().tobytes()


def write_digest(figure: Any, path: str | Path) -> Path:
    """As `save_png`, but one pixel, and behind it a digest of all that the figure shows."""
    digest = hashlib.sha256("\n".join(map(repr, drawn(figure))).encode()).digest()
    write_file(Path(path), PIXEL + digest)
    return Path(path)


def told(value: Any) -> Any:
    """What a picture is drawn from: other numbers, to six decimals, are another text."""
    if isinstance(value, dict):
        return {name: told(part) for name, part in value.items() if name != "seconds"}
    if isinstance(value, (list, tuple)):
        return [told(part) for part in value]
    if isinstance(value, PlainImages):
        value = value[:40]  # they are decoded
    if not isinstance(value, (np.ndarray, torch.Tensor)):
        return value
    array = np.asarray(value)
    words = [f"{x:.6f}" for x in array.flat] if array.dtype.kind == "f" else array.tobytes()
    return array.dtype, array.shape, words


def write_told(path: str | Path, *arguments: Any, **options: Any) -> Path:
    """As `write_sizes` and others: one pixel, and behind it a digest of what they were given."""
    text = repr((told(arguments), told(options)))
    assert " at 0x" not in text  # an object of which nothing is told
    write_file(Path(path), PIXEL + hashlib.sha256(text.encode()).digest())
    return Path(path)


def digest_address(image: Any) -> str:
    """The address of a small image, without its PNG."""
    return "data:image/png;base64," + hashlib.sha256(image.tobytes()).hexdigest()


@pytest.fixture(scope="module", autouse=True)
def no_pixels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the pictures of a run out: they take longer than a tiny run itself.

    Those of tests/train/report, of the command and of its recipes are what a user gets.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "report" not in request.path.parts:
            loop, report = "dualclust.train.loop", "dualclust.train.report"
            for name in ("results.write_gallery", "results.write_sizes"):
                patch.setattr(f"{loop}.{name}", write_told)
            patch.setattr(f"{loop}.train_and_resume.write_curves", write_told)
            patch.setattr(f"{report}.attention.save_png", write_digest)
            patch.setattr(f"{report}.page.samples._address", digest_address)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of few small images; the tests that read it leave it as it is."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz")
