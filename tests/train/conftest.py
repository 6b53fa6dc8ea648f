"""What several tests of the loop start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import write_images


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of few small images; the tests that read it leave it as it is."""
    return write_images(tmp_path_factory.mktemp("data") / "images.npz")
