"""What several tests of the loop start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of few small images; the tests that read it leave it as it is."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz")
