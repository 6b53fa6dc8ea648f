"""A few images, and a place for features of this test alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("encoders") / "images.npz", n=120)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of features, empty."""
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"
