"""Finished runs of every method, a second each, and their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualclust.train.config.run import RunConfig, load_config, override
from dualclust.train.data.samples import Samples, load_source
from dualclust.train.loop import RunResult, train
from dualclust.train.models import Model, load_model
from tests.train.runs import tiny_recipe

METHODS = ("secu", "coke", "propos", "gatcluster", "mi_margin")
CASES: dict[str, tuple[str, ...]] = {
    "secu": ("heads.clusters=[10, 20]", "network.predictor=8"),
    "secu entropy": ("heads.clusters=[10]", "secu.constraint=entropy"),
    "coke": ("heads.clusters=[10, 20]",),
    "propos": (),
    "gatcluster": (),
    "mi_margin": (),
    "mi_margin iic": (
        "mi_margin.objective=iic",
        "mi_margin.average=2",
        "mi_margin.extra_weight=0.0",
    ),
    "self_label": (),
    **{f"{method} rows": () for method in METHODS},
}
"""A method, a variant, and "rows" for embeddings; with settings."""

SHORT = ("epochs=2", "evaluation.every=2", "evaluation.views=0", "assignment.rounding=outward")
STILL = (
    *(f"augment.{name}=0.0" for name in ("rotate", "shear", "translate", "elastic", "contrast")),
    "augment.scale=[1.0, 1.0]",
    "data.standardize=true",
)


class Finished(NamedTuple):
    """A run, what it was trained on, and its model as it is read from the folder."""

    result: RunResult
    data: Samples
    model: Model

    @property
    def samples(self) -> np.ndarray[Any, Any]:
        """What a user has: pixels, or rows."""
        stored: Any = getattr(self.data, "images", None)
        found: np.ndarray[Any, Any] = (self.data.rows if stored is None else stored).numpy()
        return found


def settings(case: str, source: Path, secu: Path | None = None) -> RunConfig:
    """Settings of a case; self-labeling starts from a run of SeCu."""
    method, _, variant = case.partition(" ")
    if method == "self_label":
        assert secu is not None
        of = load_config(secu / "config.toml")
        config = RunConfig(
            method, epochs=2, batch_size=32, threads=1, data=of.data, network=of.network
        )
        changes = [f"self_label.init_from={secu}", "heads.clusters=[10]", "optim.frozen_epochs=0"]
        return override(config, [*SHORT, *changes, "optim.warmup_epochs=0"])
    changes = [*SHORT, *CASES[case]]
    if variant == "rows":
        encoder = "none" if method == "mi_margin" else "mlp"
        changes += [*STILL, f"network.name={encoder}"]
        changes += ["network.layers=2"] if method == "gatcluster" else []
    return override(tiny_recipe(f"{method}_digits", source), changes)


def finish(case: str, source: Path, folder: Path, secu: Path | None = None) -> Finished:
    """Train a case and read its model."""
    config = settings(case, source, secu)
    result = train(config, folder)
    data = load_source(source, standardize=config.data.standardize)
    return Finished(result, data, load_model(folder))
