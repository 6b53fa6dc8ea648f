"""What several tests of the loop start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dualclust.train.loop import train
from tests.train.runs import tiny


@pytest.fixture(scope="module")
def finished(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[Any]]:
    """A finished run: its result and the records that its progress callback got."""
    seen: list[Any] = []
    folder = tmp_path_factory.mktemp("finished") / "run"
    return train(tiny(source), folder, progress=seen.append), seen
