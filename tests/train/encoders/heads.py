"""Settings of tiny runs on encoders that have learned before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dualclust.train.config.run import AugmentConfig, RunConfig, override
from tests.train.runs import tiny

SHORT = ("epochs=2", "heads.clusters=[10]", "evaluation.views=0", "assignment.rounding=outward")


def heads(source: Path | str, *changes: str, **fields: Any) -> RunConfig:
    """Settings of a run on embeddings: views are noise."""
    config = tiny(source, *SHORT, "data.standardize=true")
    config = replace(config, augment=AugmentConfig(noise=0.2), second=None, **fields)
    return override(config, changes)


def frozen(source: Path | str, *changes: str) -> RunConfig:
    return heads(source, "encoder.frozen=true", *changes)
