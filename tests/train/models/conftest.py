"""Finished runs, each trained once for all tests of models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.train.runs import write_images
from tests.train.trained import Finished, finish


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("models") / "images.npz", n=120)


@pytest.fixture(scope="session")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    member = np.arange(97) % 10
    x = rng.normal(size=(10, 16))[member] + 0.3 * rng.normal(size=(97, 16))
    path = tmp_path_factory.mktemp("models") / "X.npy"
    np.save(path, (5.0 + 2.0 * x).astype(np.float32))
    return path


@pytest.fixture(scope="session")
def finished(
    images: Path, embeddings: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Finished]:
    """A function of a case of `tests.train.trained` that trains it once."""
    home, made = tmp_path_factory.mktemp("runs"), dict[str, Finished]()

    def get(case: str) -> Finished:
        if case not in made:
            secu = get("secu").result.folder if case == "self_label" else None
            source = embeddings if case.endswith("rows") else images
            made[case] = finish(case, source, home / case.replace(" ", "-"), secu)
        return made[case]

    return get
