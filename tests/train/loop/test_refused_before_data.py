"""What needs no samples to be refused is refused before any is read or decoded."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.core.errors import (
    DualclustError,
    InfeasibleBoundsError,
    InvalidValueError,
    MissingFileError,
    UsageError,
)
from dualclust.cli.train_settings import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop.run import Run

REFUSED = {
    "secu_digits": ["network.name=digits-cn"],
    "coke_digits": ["coke.second_stage=999"],
    "propos_digits": ["network.predictor=0"],
    "gatcluster_digits": ["heads.clusters=[10, 20]"],
    "mi_margin_digits": ["network.out_dim=11"],
    "secu_cifar10_selflabel": ["heads.clusters=[10, 20]"],
}


@pytest.mark.parametrize("recipe", REFUSED)
def test_settings_are_refused_before_the_source_is_looked_for(recipe) -> None:
    nowhere = override(read_recipe(recipe), ["data.source=nowhere"])
    with pytest.raises(UsageError) as caught:
        Run(override(nowhere, REFUSED[recipe]), "cpu")
    assert "nowhere" not in str(caught.value)
    with pytest.raises(MissingFileError):
        Run(nowhere, "cpu")


def jpegs(path, n) -> str:
    """A file of n pictures, none of which can be decoded."""
    content = np.frombuffer(b"no picture" * n, np.uint8)
    np.savez(
        path,
        train_jpeg=content,
        train_offsets=np.arange(n + 1) * 10,
        train_labels=np.arange(n, dtype=np.uint8) % 10,
    )
    return str(path)


def refusal(source: str, *settings: str) -> DualclustError:
    items = [f'data.source="{source}"', "data.split=train", "data.bad=stop", *settings]
    config = override(RunConfig(), ["heads.clusters=[10, 70]", "assignment.lower=0.9", *items])
    with pytest.raises(DualclustError) as caught:
        Run(override(config, ["assignment.rounding=inward"]), "cpu")
    return caught.value


def test_sizes_are_refused_before_a_picture_is_decoded(tmp_path) -> None:
    source = jpegs(tmp_path / "pictures.npz", 600)
    early = refusal(source, "data.limit=256")
    assert isinstance(early, InfeasibleBoundsError)
    assert "head of 70 clusters (heads.clusters) has no sizes for 256 samples" in str(early)
    # What the number is known to suit, or may still change, is decoded, and found damaged.
    for settings in (["data.limit=280"], [], ["data.limit=512"]):
        assert type(refusal(source, *settings)) is InvalidValueError
