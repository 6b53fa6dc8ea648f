"""What the choices start from: the built-in recipes, and what differs on data of one's own.

Three kinds of data: small gray images (strokes), photographs, embeddings. For strokes the recipes
of the digits and of MNIST are the base. For photographs the views are those of the recipes for
CIFAR-10, which are the papers', and on a card so is the rest; for CPUs it is that of MNIST: a small
network, fewer steps, larger rates. No class of any data is read.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

from ...algos.core.errors import UsageError
from ..config.run import RunConfig, load_config
from ..data.look import Look

__all__ = [
    "FINER_HEADS",
    "METHODS",
    "NEIGHBORS",
    "PAIRED",
    "base_of",
    "kind_of_data",
    "papers_views",
]

METHODS = ("secu", "coke", "propos", "gatcluster", "mi_margin")
"""Methods that begin on data of one's own."""

FINER_HEADS = ("secu", "coke")
"""Methods whose heads with more clusters steady the one that is asked for."""

PAIRED = ("secu", "coke", "propos")
"""Methods that learn from two views of a sample. Embeddings have them from their neighbors: with
noise and masks accuracies are lower (benchmarks/results/photographs.md)."""

NEIGHBORS = 10
"""Nearest samples, one of which is the second view; 50 are no better."""

_TINY, _SMALL = 12, 40
"""Sides of gray images up to which the recipes of the digits and of MNIST are the base."""


def kind_of_data(look: Look) -> str:
    """Return ``"strokes"``, ``"photographs"`` or ``"embeddings"``."""
    if look.kind == "embeddings":
        return "embeddings"
    return "strokes" if look.channels == 1 and look.side <= _SMALL else "photographs"


def base_of(look: Look, method: str, *, card: bool) -> tuple[RunConfig, int]:
    """Return the recipe to start from, and the number of samples that its epochs are for.

    Raises
    ------
    UsageError
        If the method goes on from a run of another one.
    """
    if method not in METHODS:
        msg = (
            f"method {method!r} goes on from a finished run, so that no settings can be chosen by "
            f"looking at the data. To fix this, name a recipe with --recipe"
        )
        raise UsageError(msg)
    if kind_of_data(look) == "photographs" and card:
        return _recipe(f"{method}_cifar10"), 50_000
    if kind_of_data(look) == "strokes" and look.side <= _TINY:
        return _recipe(f"{method}_digits"), 1797
    return _recipe(f"{method}_mnist"), 10_000


def papers_views(method: str) -> dict[str, Any]:
    """Return the tables of views of a paper's recipe for photographs of 32 pixels."""
    recipe = _recipe(f"{method}_cifar10")
    return {"augment": recipe.augment, "second": recipe.second}


@lru_cache
def _recipe(name: str) -> RunConfig:
    with as_file(files("dualclust.train.recipes") / f"{name}.toml") as path:
        return load_config(path)
