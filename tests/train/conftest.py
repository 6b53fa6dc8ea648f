"""What several tests of the loop start from."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dualclust.common.files import write_file
from tests.second_device import DEVICE, second_device
from tests.train.runs import write_images


@pytest.fixture(params=["cpu", "second"])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The CPU, then the device of `tests.second_device`, while it is active."""
    if request.param == "cpu":
        yield torch.device("cpu")
        return
    with second_device():
        yield DEVICE


def write_coarse(figure: Any, path: str | Path) -> Path:
    """As `save_png`, with a hundredth of its pixels, and a digest of the images in full."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=20, metadata={"Software": None})
    arrays = [image.get_array() for image in figure.images]
    digests = [hashlib.sha256(array.tobytes()).digest() for array in arrays]
    write_file(Path(path), content.getvalue() + b"".join(digests))  # behind the end of the PNG
    return Path(path)


@pytest.fixture(scope="module", autouse=True)
def coarse_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw the pictures of runs small: in full they take as long as a tiny run itself.

    Those of tests/train/report, of the command and of its recipes are what a user gets.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "report" not in request.path.parts:
            for module in ("figures", "attention"):
                patch.setattr(f"dualclust.train.report.{module}.save_png", write_coarse)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of few small images; the tests that read it leave it as it is."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz")
